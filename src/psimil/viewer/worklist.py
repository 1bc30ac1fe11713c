"""Bags as the viewer shows them: a worklist that is sorted and filtered, one bag in detail, all bags in numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.figures.png import COLUMNS
from psimil.figures.reliability import reliability_table
from psimil.report.calls import Words, difference_words, reason_words, threshold_words
from psimil.results.edges import Edges, ends
from psimil.results.feedback import Feedback
from psimil.results.metrics import UNKNOWN
from psimil.results.result_set import ResultSet
from psimil.viewer.schemas import (
    BagDetails,
    BagList,
    BagRow,
    FeatureEffect,
    Inside,
    InstanceRow,
    Owed,
    Picture,
    Reliability,
    Scores,
    Sides,
    Summary,
)
from psimil.viewer.state import ViewerState

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


def bag_list(state: ViewerState, sort: Sorting, descending: bool, show: Shown, offset: int, limit: int) -> BagList:
    """The lines ``offset`` to ``offset + limit`` of the worklist; ties keep the order of the file."""
    is_shown = _filters(state)[show]
    wanted = [number for number in _order(state, sort, descending) if is_shown(number)]
    chosen = wanted[offset : offset + limit]
    return BagList(total=len(wanted), bags=[BagRow(**_bag(state, number)) for number in chosen])


def bag_details(state: ViewerState, number: int, sort: Sorting, descending: bool, show: Shown) -> BagDetails:
    """What the page of a bag shows; the bags before and after it are those of the worklist in this order."""
    found, words = state.results.prediction, Words.of(state.results.kind)
    previous, following = _beside(state, number, _order(state, sort, descending), _filters(state)[show])
    said = state.feedback.of(state.ids[number], None)
    size = int(np.diff(found.offsets)[number])
    return BagDetails(
        **_bag(state, number),
        note="" if said is None else said.note,
        previous=previous,
        next=following,
        instances=[_instance(state, number, index) for index in range(size)],
        image=_picture(state, number),
        threshold=found.threshold,
        instance_threshold=found.instance_threshold,
        difference=difference_words(found, number, words),
        why=reason_words(found, number, words),
    )


def summary(state: ViewerState) -> Summary:
    """The result set in numbers; scores where the truth about bags is known."""
    results, found = state.results, state.results.prediction
    counts: dict[str, Any] = {"kind": results.kind} | results.counts()
    scores = results.scores()
    return Summary(
        **counts,
        threshold=found.threshold,
        instance_threshold=found.instance_threshold,
        level=found.level,
        has_truth=results.has_truth,
        has_novelty=found.novelty is not None,
        has_images=results.images is not None,
        has_volumes=any(state.shape(number) is not None for number in range(len(results))),
        model=dict(results.model),
        origin=results.origin,
        thresholds=threshold_words(found.threshold, found.instance_threshold, Words.of(results.kind)),
        reliability=_reliability(results) if results.has_truth else None,
        scores=None if scores is None else _finite(scores),
        inside=_inside(results),
    )


def _bag(state: ViewerState, number: int) -> dict[str, Any]:
    """The fields of one line of the worklist."""
    found, numbers = state.results.prediction, state.results.estimate(number)
    return _estimate(numbers, state.feedback.of(state.ids[number], None)) | {
        "key": state.keys[number],
        "id": state.names[number],
        "refer": numbers["refer"],
        "reason": numbers["reason"],
        "size": int(found.offsets[number + 1] - found.offsets[number]),
        "notes": state.results.notes[number],
        "n_notes": state.feedback.n_notes(state.ids[number]),
    }


def _instance(state: ViewerState, number: int, index: int) -> InstanceRow:
    results, row = state.results, int(state.results.prediction.offsets[number]) + index
    said = state.feedback.of(state.ids[number], index)
    owed = results.owed_of(number, index)
    return InstanceRow(
        **_estimate(results.estimate(number, index), said),
        index=index,
        position=None if results.positions is None else float(results.positions[row]),
        telling=[FeatureEffect(**effect._asdict()) for effect in results.effects_of(number, index)],
        owed=None if owed is None else Owed(own=owed[0], bag=owed[1]),
        note="" if said is None else said.note,
    )


def _estimate(numbers: dict[str, Any], said: Feedback | None) -> dict[str, Any]:
    """The fields that bags and instances share."""
    return {name: numbers[name] for name in ("std", "lower", "upper", "log_odds", "novel")} | {
        "probability": numbers["prob"],
        "called": numbers["label"],
        "novelty": numbers.get("novelty"),  # not known of models of 1.0.0 and of the augmented posterior
        "truth": None if numbers["truth"] == UNKNOWN else numbers["truth"],
        "verdict": None if said is None else said.verdict_on(numbers["label"]),
    }


def _picture(state: ViewerState, number: int) -> Picture:
    images, shape = state.results.images, state.shape(number)
    height, width = (0, 0) if images is None else images.shape[1:]
    kind: Any = "hu" if shape is not None else "none" if images is None else "thumbnail"
    rows, columns = shape or (height, width)
    orientation = state.orientation(number)
    edges = Edges.of(orientation)
    return Picture(
        kind=kind,
        rows=rows,
        columns=columns,
        sprite_columns=COLUMNS,
        thumb_rows=height,
        thumb_columns=width,
        spacing=state.spacing(number),
        edges=None if edges is None else Sides(**edges._asdict()),
        ends=ends(orientation),
    )


def _inside(results: ResultSet) -> Inside | None:
    found = results.localisation()
    if found is None:
        return None
    return Inside(**found._asdict() | {"model": _finite(found.model), "middle": _finite(found.middle)})


def _finite(scores: dict[str, float]) -> Scores:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def _order(state: ViewerState, sort: Sorting, descending: bool) -> list[int]:
    results, found = state.results, state.results.prediction
    names = np.unique(np.array(state.names, dtype=np.str_), return_inverse=True)[1] if results.kind == "ct" else None
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


def _beside(
    state: ViewerState, number: int, order: list[int], is_shown: Callable[[int], bool]
) -> tuple[str | None, str | None]:
    """Keys of the shown bags before and after one, which itself may not be shown any more."""
    place = order.index(number)
    before = next((other for other in reversed(order[:place]) if is_shown(other)), None)
    after = next((other for other in order[place + 1 :] if is_shown(other)), None)
    return None if before is None else state.keys[before], None if after is None else state.keys[after]


def _filters(state: ViewerState) -> dict[Shown, Callable[[int], bool]]:
    numbers, feedback, ids = state.results.prediction.bag_numbers, state.feedback, state.ids
    return {
        Shown.all: lambda number: True,
        Shown.refer: lambda number: bool(numbers["refer"][number]),
        Shown.novel: lambda number: bool(numbers["novel"][number]),
        Shown.positive: lambda number: bool(numbers["label"][number]),
        Shown.negative: lambda number: not numbers["label"][number],
        Shown.disagreed: lambda number: feedback.disagreed(ids[number]),
        Shown.noted: lambda number: feedback.n_notes(ids[number]) > 0,
    }


def _reliability(results: ResultSet) -> Reliability:
    known = results.truth != UNKNOWN
    table = reliability_table(results.truth[known], results.prediction.prob[known], BINS)
    return Reliability(
        edges=[(start, min(1.0, (round(start * BINS) + 1) / BINS)) for start in table["bin_start"].tolist()],
        mean=table["probability"].clip(0, 1).tolist(),
        share=table["positives"].tolist(),
        count=table["count"].tolist(),
    )
