"""Strange bags and whether they are referred; errors that referrals catch at equal workload."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from novelty.cases import CASES, Case
from psimil import VGPMIL
from psimil.model.bags import Bags
from psimil.paper.baselines import AttentionMIL
from psimil.predictive.novelty import NOVEL
from psimil.predictive.prediction import Prediction
from psimil.results.referral_curve import area_under_referral

Array = NDArray[Any]
Row = dict[str, Any]

OURS, ALONE = "psimil, `refer`", "psimil, log-odds alone"
ATTENTION, CNN = "attention MIL", "attention CNN of the features"
ORDINARY = "ordinary test bags"


@dataclass(frozen=True)
class NoveltySettings:
    """What strange bags are made of, and how models are fitted.

    Parameters
    ----------
    noise : deviations of the noise, in standard deviations of the features over training instances.
    share : of the bags that both models refer, beside as many as ``refer`` does.
    inducing, epochs : of psimil and of attention MIL.
    """

    noise: tuple[float, ...] = (3.0, 10.0, 30.0)
    alone: float = 10.0  # the same for bags with a single instance of noise
    share: float = 0.1
    inducing: int | str = "auto"
    epochs: int = 200
    seed: int = 2026


def strange_bags(case: Case, settings: NoveltySettings, rng: np.random.Generator) -> dict[str, Bags]:
    """Kinds of strange bags, each with the sizes of the test bags unless the case brings its own."""
    X, offsets = case.new.X, case.new.offsets
    mean, deviation = case.bags.X.mean(axis=0), case.bags.X.std(axis=0)
    found = {f"noise at {k:g} sd": Bags(mean + k * deviation * rng.normal(size=X.shape), offsets)
             for k in settings.noise}  # fmt: skip
    one = X.copy()
    one[offsets[:-1]] = mean + settings.alone * deviation * rng.normal(size=(len(case.new), X.shape[1]))
    found[f"one instance of noise at {settings.alone:g} sd"] = Bags(one, offsets)
    found["columns permuted"] = Bags(X[:, rng.permutation(X.shape[1])], offsets)
    found["values shuffled within columns"] = Bags(rng.permuted(X, axis=0), offsets)
    return found | (case.strange or {})


def novelty_rows(fitted: VGPMIL, case: Case, usual: Prediction, settings: NoveltySettings) -> Iterator[Row]:
    """A row of ordinary bags, and one of each kind of strange bags."""
    assert usual.novelty is not None  # the default posterior has one
    yield {"kind": ORDINARY, **shares(usual)}
    for kind, bags in strange_bags(case, settings, np.random.default_rng(settings.seed)).items():
        found = fitted.predict_dist(bags)
        assert found.novelty is not None
        truth = np.repeat([0, 1], [len(usual.novelty), len(found.novelty)])
        yield {"kind": kind, **shares(found),
               "auc": roc_auc_score(truth, np.concatenate([usual.novelty, found.novelty]))}  # fmt: skip


def shares(found: Prediction) -> Row:
    """How many bags there are, are referred, would be without novelty, and are novel."""
    assert found.novelty is not None
    return {"bags": len(found.prob), "referred": int(found.refer.sum()), "uncertain": int(found.uncertain.sum()),
            "novel": int((found.novelty > NOVEL).sum())}  # fmt: skip


def referral_order(found: Prediction) -> Array:
    """(B,) the larger, the sooner a bag is referred: novel ones first, then those nearest the threshold."""
    distance = np.abs(found.log_odds - logit(found.threshold))
    novel = np.zeros(len(distance), dtype=bool) if found.novelty is None else found.novelty > NOVEL
    return np.where(novel, distance.max() + 1.0, 0.0) - distance


def caught(wrong: Array, order: Array, count: int) -> int:
    """Errors among the ``count`` bags that are referred first.

    Examples
    --------
    >>> caught(np.array([True, False, True]), np.array([0.1, 0.5, 0.9]), 2)
    1
    """
    return int(wrong[np.argsort(-order, kind="stable")[:count]].sum())


def workload_rows(case: Case, usual: Prediction, settings: NoveltySettings) -> Iterator[Row]:
    """What each model gets wrong, and what of it is caught when every model refers as many bags as ``refer``."""
    y, count = case.y_new, int(usual.refer.sum())
    learned = AttentionMIL(epochs=settings.epochs, random_state=settings.seed).fit(case.bags, case.y)
    log_odds = learned.decision_function(case.new)
    models = {OURS: (usual.prob, usual.threshold, referral_order(usual)),
              ALONE: (usual.prob, usual.threshold, -np.abs(usual.log_odds - logit(usual.threshold))),
              ATTENTION: (learned.predict_proba(case.new)[:, 1], 0.5, -np.abs(log_odds))}  # fmt: skip
    if case.cnn_prob is not None:
        models[CNN] = (case.cnn_prob, 0.5, -np.abs(case.cnn_prob - 0.5))
    share = max(1, round(settings.share * len(y)))
    for name, (prob, threshold, order) in models.items():
        wrong = (prob >= threshold) != (y == 1)
        yield {"model": name, "test_bags": len(y), "auc": roc_auc_score(y, prob), "errors": int(wrong.sum()),
               "referred": count, "caught": caught(wrong, order, count), "share": share,
               "caught_share": caught(wrong, order, share),
               "area": area_under_referral(y, prob, order, threshold)}  # fmt: skip


def case_rows(name: str, directory: str | None, settings: NoveltySettings) -> Iterator[tuple[list[Row], list[Row]]]:
    """Case by case, rows on novelty and rows on referral."""
    for number, case in enumerate(CASES[name][1](directory)):
        began = time.perf_counter()
        fitted = VGPMIL(n_inducing=settings.inducing, random_state=settings.seed).fit(case.bags, case.y)
        usual, common = fitted.predict_dist(case.new), {"data": name, "case": number, "run": case.run}
        strange = [{**common, **row} for row in novelty_rows(fitted, case, usual, settings)]
        work = [] if case.strange else [{**common, **row} for row in workload_rows(case, usual, settings)]
        print(f"{CASES[name][0]}: case {number + 1} in {time.perf_counter() - began:.0f} s", flush=True)
        yield strange, work
