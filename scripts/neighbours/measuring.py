"""Scans whose slices are tied in different ways, and bags whose labels share noise or that are seen in context."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from bound_order.problems import classic_folds, cohort_folds
from numpy.typing import NDArray
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from psimil import VGPMIL
from psimil.datasets import load_cq500, load_rsna
from psimil.model.bags import Bags
from psimil.results.localisation import Places, auc_within_bags, closeness_to_middle

Array = NDArray[Any]

FOLDS = 5
WAYS = ("independent", "shared", "chain", "chain, order shuffled")
CHOICES = (("independent", "none"), ("shared", "none"), ("shared", "bag"), ("shared", "auto"))  # labels and context
CLASSIC = {
    **{name: cohort_folds(name) for name in ("musk1", "musk2")},
    **{name: classic_folds(name) for name in ("elephant", "protein", "birds_brown_creeper")},
    "cq500": cohort_folds("cq500"),
}


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
                   "tau": model.model_.sharing,
                   "bag_auc": roc_auc_score(unseen.y, found.log_odds), "log_loss": log_loss(unseen.y, found.prob),
                   "slice_auc": roc_auc_score(truth, found.instance_log_odds),
                   "within": auc_within_bags(truth, found.instance_log_odds, test.offsets),
                   "f1": f1_score(truth, found.instance_label), "seconds": seconds,
                   "middle": auc_within_bags(unseen.y_instances, middle, test.offsets)}  # fmt: skip


def classic_rows(name: str, directory: str | None, settings: NeighbourSettings) -> Iterator[dict[str, Any]]:
    """A row for each way: five folds, all held-out bags together."""
    for labels, context in CHOICES:
        truth, scores, probs, sharing, taken, seconds = [], [], [], 0.0, 0, 0.0
        for train, y, test, held in CLASSIC[name](directory, settings.seed):
            began = time.perf_counter()
            own = None if context == "none" else context
            model = VGPMIL(labels=labels, context=own, random_state=settings.seed).fit(train, y)
            seconds += (time.perf_counter() - began) / FOLDS
            found = model.predict_dist(test)
            truth.append(held), scores.append(found.log_odds), probs.append(found.prob)
            sharing, taken = sharing + model.model_.sharing / FOLDS, taken + model.model_.context
        T, score, prob = map(np.concatenate, (truth, scores, probs))
        yield {"data": name, "labels": labels, "context": context, "auc": roc_auc_score(T, score),
               "log_loss": log_loss(T, prob), "accuracy": float(((prob >= 0.5) == T).mean()), "tau": sharing,
               "taken": taken, "seconds": seconds}  # fmt: skip
