"""Scans with and without links between slices, and classic bags with and without context."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from psimil import VGPMIL
from psimil.datasets import load_cq500, load_musk1, load_musk2, load_rsna
from psimil.model.bags import Bags
from psimil.paper.experiments.trial_data import nested_split
from psimil.results.localisation import Places, auc_within_bags, closeness_to_middle

Array = NDArray[Any]

FOLDS = 5
WAYS = ("independent", "chain", "chain, order shuffled")
CONTEXTS = ("none", "bag", "auto")
CLASSIC = {"musk1": load_musk1, "musk2": load_musk2}


@dataclass(frozen=True)
class NeighbourSettings:
    """Which of the five CNNs, and the seeds of models and of the shuffled order."""

    cnns: tuple[int, ...] = (0, 1, 2, 3, 4)
    seed: int = 2026


def shuffled(bags: Bags, rng: np.random.Generator) -> tuple[Bags, Array]:
    """Bags with the instances of each in a random order, and where they come from."""
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(bags.offsets)])
    return replace(bags, X=bags.X[order], rows=None), order


def scan_rows(directory: str, settings: NeighbourSettings) -> Iterator[dict[str, Any]]:
    """A row for each CNN and way: trained on CQ500, tested on RSNA."""
    for cnn in settings.cnns:
        learn, unseen = load_cq500(directory, cnn), load_rsna(directory, cnn)
        middle = closeness_to_middle(unseen.bags.offsets, Places.of_rows(unseen.bags.offsets).positions)
        for way in WAYS:
            train, test, truth = learn.bags, unseen.bags, unseen.y_instances
            if way.endswith("shuffled"):
                rng = np.random.default_rng(settings.seed)
                (train, _), (test, order) = shuffled(train, rng), shuffled(test, rng)
                truth = truth[order]
            began = time.perf_counter()
            model = VGPMIL(labels=way.split(",")[0], random_state=settings.seed).fit(train, learn.y)
            seconds, found = time.perf_counter() - began, model.predict_dist(test)
            yield {"data": "scans", "cnn": cnn, "way": way, "J": model.model_.coupling,
                   "bag_auc": roc_auc_score(unseen.y, found.log_odds), "log_loss": log_loss(unseen.y, found.prob),
                   "slice_auc": roc_auc_score(truth, found.instance_log_odds),
                   "within": auc_within_bags(truth, found.instance_log_odds, test.offsets),
                   "f1": f1_score(truth, found.instance_label), "seconds": seconds,
                   "middle": auc_within_bags(unseen.y_instances, middle, test.offsets)}  # fmt: skip


def classic_rows(name: str, settings: NeighbourSettings) -> Iterator[dict[str, Any]]:
    """A row for each context: five folds, all held-out bags together."""
    bags, y = CLASSIC[name]()
    for context in CONTEXTS:
        prob, score, taken, seconds = np.empty(len(y)), np.empty(len(y)), 0, 0.0
        for k in range(FOLDS):
            split, began = nested_split(y, k), time.perf_counter()
            own = None if context == "none" else context
            model = VGPMIL(context=own, random_state=settings.seed).fit(bags[split.train], y[split.train])
            seconds += (time.perf_counter() - began) / FOLDS
            found = model.predict_dist(bags[split.test])
            prob[split.test], score[split.test] = found.prob, found.log_odds
            taken += model.model_.context
        yield {"data": name, "context": context, "auc": roc_auc_score(y, score), "log_loss": log_loss(y, prob),
               "accuracy": float(((prob >= 0.5) == y).mean()), "taken": taken, "seconds": seconds}  # fmt: skip
