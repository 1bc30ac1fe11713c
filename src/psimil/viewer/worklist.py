"""The worklist: bags sorted, filtered and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.figures.reliability import reliability_table
from psimil.report.calls import Words, threshold_words
from psimil.results.metrics import bag_metrics
from psimil.results.result_set import ResultSet
from psimil.viewer.answers import BagList, BagRow, Inside, Reliability, Scores, Summary
from psimil.viewer.viewed import Viewed

BINS = 10


class Sorting(StrEnum):
    """What the worklist is sorted by."""

    probability = "probability"
    uncertainty = "uncertainty"
    novelty = "novelty"
    id = "id"
    truth = "truth"
    size = "size"


class Shown(StrEnum):
    """Which bags the worklist shows."""

    all = "all"
    refer = "refer"
    novel = "novel"
    positive = "positive"
    negative = "negative"
    disagreed = "disagreed"
    noted = "noted"


def label(value: Any) -> Any:
    """0 or 1, or None when unknown.

    Examples
    --------
    >>> label(np.int8(1)), label(-1)
    (1, None)
    """
    return None if value < 0 else int(value)


def novelty_of(known: NDArray[Any] | None, number: int) -> float | None:
    """Novelty of one bag or instance, None for models of 1.0.0 and of the augmented posterior.

    Examples
    --------
    >>> novelty_of(np.array([0.25]), 0), novelty_of(None, 0)
    (0.25, None)
    """
    return None if known is None else float(known[number])


def bag_fields(viewed: Viewed, number: int) -> dict[str, Any]:
    """The fields of one line of the worklist."""
    results, found = viewed.results, viewed.results.prediction
    said = viewed.feedback.of(viewed.ids[number], None)
    return {
        "key": viewed.keys[number],
        "id": viewed.names[number],
        "probability": float(found.prob[number]),
        "std": float(found.std[number]),
        "lower": float(found.lower[number]),
        "upper": float(found.upper[number]),
        "log_odds": float(found.log_odds[number]),
        "called": int(found.prob[number] >= found.threshold),
        "refer": bool(found.refer[number]),
        "reason": str(found.reason[number]),
        "novelty": novelty_of(found.novelty, number),
        "novel": bool(found.novel[number]),
        "truth": label(results.truth[number]),
        "size": int(found.offsets[number + 1] - found.offsets[number]),
        "notes": results.notes[number],
        "verdict": None if said is None else said.verdict_on(int(found.prob[number] >= found.threshold)),
        "n_notes": viewed.feedback.n_notes(viewed.ids[number]),
    }


def bag_list(viewed: Viewed, sort: Sorting, descending: bool, show: Shown, offset: int, limit: int) -> BagList:
    """The lines ``offset`` to ``offset + limit`` of the worklist; ties keep the order of the file."""
    is_shown = _filters(viewed)[show]
    wanted = [number for number in _order(viewed, sort, descending) if is_shown(number)]
    chosen = wanted[offset : offset + limit]
    return BagList(total=len(wanted), bags=[BagRow(**bag_fields(viewed, number)) for number in chosen])


def summary(viewed: Viewed) -> Summary:
    """The result set in numbers; scores where the truth about bags is known."""
    results, found = viewed.results, viewed.results.prediction
    kind: Any = results.kind
    known = results.truth >= 0
    truth, prob = results.truth[known], found.prob[known]
    scores = bag_metrics(truth, prob, found.threshold, found.log_odds[known]) if known.any() else None
    return Summary(
        kind=kind,
        bags=len(results),
        instances=int(found.offsets[-1]),
        positives_called=int(found.label.sum()),
        to_refer=int(found.refer.sum()),
        novel=int(found.novel.sum()),
        threshold=found.threshold,
        instance_threshold=found.instance_threshold,
        level=found.level,
        has_truth=results.has_truth,
        has_novelty=found.novelty is not None,
        has_images=results.images is not None,
        has_volumes=any(viewed.shape(number) is not None for number in range(len(results))),
        model=dict(results.model),
        thresholds=threshold_words(found.threshold, found.instance_threshold, Words.of(results.kind)),
        reliability=_reliability(truth, prob) if known.any() else None,
        scores=None if scores is None else _finite(scores),
        inside=_inside(results),
    )


def _inside(results: ResultSet) -> Inside | None:
    found = results.localisation()
    if found is None:
        return None
    return Inside(**found._asdict() | {"model": _finite(found.model), "middle": _finite(found.middle)})


def _finite(scores: dict[str, float]) -> Scores:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def _order(viewed: Viewed, sort: Sorting, descending: bool) -> list[int]:
    results, found = viewed.results, viewed.results.prediction
    names = np.unique(np.array(viewed.names, dtype=np.str_), return_inverse=True)[1] if results.kind == "ct" else None
    columns: dict[Sorting, NDArray[Any]] = {
        Sorting.probability: found.log_odds,  # they tell apart probabilities that round to 1
        Sorting.uncertainty: found.std,
        Sorting.novelty: np.zeros(len(results)) if found.novelty is None else found.novelty,
        Sorting.id: np.arange(len(results)) if names is None else names,
        Sorting.truth: results.truth.astype(np.int64),
        Sorting.size: np.diff(found.offsets),
    }
    column = columns[sort]
    return [int(n) for n in np.argsort(-column if descending else column, kind="stable")]


def _filters(viewed: Viewed) -> dict[Shown, Callable[[int], bool]]:
    found, feedback, ids = viewed.results.prediction, viewed.feedback, viewed.ids
    refer, novel = found.refer, found.novel
    return {
        Shown.all: lambda number: True,
        Shown.refer: lambda number: bool(refer[number]),
        Shown.novel: lambda number: bool(novel[number]),
        Shown.positive: lambda number: bool(found.prob[number] >= found.threshold),
        Shown.negative: lambda number: not found.prob[number] >= found.threshold,
        Shown.disagreed: lambda number: feedback.disagreed(ids[number]),
        Shown.noted: lambda number: feedback.n_notes(ids[number]) > 0,
    }


def _reliability(truth: NDArray[Any], prob: NDArray[Any]) -> Reliability:
    table = reliability_table(truth, prob, BINS)
    return Reliability(
        edges=[(start, min(1.0, (round(start * BINS) + 1) / BINS)) for start in table["bin_start"].tolist()],
        mean=table["probability"].clip(0, 1).tolist(),
        share=table["positives"].tolist(),
        count=table["count"].tolist(),
    )
