"""Bags as the viewer shows them: a worklist that is sorted and filtered, one bag in detail, all bags in numbers."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.figures.reliability import reliability_table
from psimil.report.calls import Words, difference_words, reason_words, threshold_words
from psimil.results.edges import Edges, ends
from psimil.results.feedback import Feedback
from psimil.results.heat import HEAT_WORDS
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
from psimil.viewer.state import COLUMNS, ViewerState
from psimil.viewer.volumes import spacing_of

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
    order = _order(state, sort, descending)
    listed = order[_is_shown(state, show)[order]].tolist()
    rows = [BagRow(**_bag(state, number)) for number in listed[offset : offset + limit]]
    return BagList(total=len(listed), bags=rows)


def bag_details(state: ViewerState, number: int, sort: Sorting, descending: bool, show: Shown) -> BagDetails:
    """What the page of a bag shows; the bags before and after it are those of the worklist in this order."""
    prediction, words = state.results.prediction, Words.of(state.results.kind)
    previous, following = _beside(state, number, _order(state, sort, descending), _is_shown(state, show))
    feedback = state.feedback.of(state.ids[number], None)
    rows = prediction.instances_of(number)
    return BagDetails(
        **_bag(state, number),
        note="" if feedback is None else feedback.note,
        previous=previous,
        next=following,
        instances=[_instance(state, number, index) for index in range(rows.stop - rows.start)],
        image=_picture(state, number),
        threshold=prediction.threshold,
        instance_threshold=prediction.instance_threshold,
        difference=difference_words(prediction, number, words),
        why=reason_words(prediction, number, words),
    )


def summary(state: ViewerState) -> Summary:
    """The result set in numbers; scores where the truth about bags is known."""
    results, prediction = state.results, state.results.prediction
    counts: dict[str, Any] = {"kind": results.kind} | results.counts()
    scores = results.scores()
    return Summary(
        **counts,
        threshold=prediction.threshold,
        instance_threshold=prediction.instance_threshold,
        level=prediction.level,
        has_truth=results.has_truth,
        has_novelty=prediction.novelty is not None,
        has_images=results.images is not None,
        has_volumes=any(state.header(number) is not None for number in range(len(results))),
        model=dict(results.model),
        origin=results.origin,
        thresholds=threshold_words(prediction.threshold, prediction.instance_threshold, Words.of(results.kind)),
        reliability=_reliability(results) if results.has_truth else None,
        scores=None if scores is None else _finite(scores),
        inside=_inside(results),
    )


def _bag(state: ViewerState, number: int) -> dict[str, Any]:
    """The fields of one line of the worklist."""
    rows, numbers = state.results.instances_of(number), state.results.estimate(number)
    return _estimate(numbers, state.feedback.of(state.ids[number], None)) | {
        "key": state.keys[number],
        "id": state.names[number],
        "refer": numbers["refer"],
        "reason": numbers["reason"],
        "size": rows.stop - rows.start,
        "notes": state.results.notes[number],
        "n_notes": state.feedback.n_notes(state.ids[number]),
    }


def _instance(state: ViewerState, number: int, index: int) -> InstanceRow:
    results, row = state.results, int(state.results.prediction.offsets[number]) + index
    feedback = state.feedback.of(state.ids[number], index)
    owed = results.owed_of(number, index)
    return InstanceRow(
        **_estimate(results.estimate(number, index), feedback),
        index=index,
        position=None if results.positions is None else float(results.positions[row]),
        telling=[FeatureEffect(**effect._asdict()) for effect in results.effects_of(number, index)],
        owed=None if owed is None else Owed(own=owed[0], bag=owed[1]),
        note="" if feedback is None else feedback.note,
    )


def _estimate(numbers: dict[str, Any], feedback: Feedback | None) -> dict[str, Any]:
    """The fields that bags and instances share."""
    return {name: numbers[name] for name in ("std", "lower", "upper", "log_odds", "novel")} | {
        "probability": numbers["prob"],
        "called": numbers["label"],
        "novelty": numbers.get("novelty"),  # not known of models of 1.0.0 and of the augmented posterior
        "truth": None if numbers["truth"] == UNKNOWN else numbers["truth"],
        "verdict": None if feedback is None else feedback.verdict_on(numbers["label"]),
    }


def _picture(state: ViewerState, number: int) -> Picture:
    images, header = state.results.images, state.header(number)
    height, width = (0, 0) if images is None else images.shape[1:]
    kind: Any = "hu" if header is not None else "none" if images is None else "thumbnail"
    rows, columns = (height, width) if header is None else (header.rows, header.columns)
    orientation = state.orientation(number)
    edges = Edges.of(orientation)
    return Picture(
        kind=kind,
        rows=rows,
        columns=columns,
        sprite_columns=COLUMNS,
        thumb_rows=height,
        thumb_columns=width,
        spacing=spacing_of(header),
        edges=None if edges is None else Sides(**edges._asdict()),
        ends=ends(orientation),
        heat=HEAT_WORDS if state.has_heat(number) else None,
    )


def _inside(results: ResultSet) -> Inside | None:
    inside = results.localisation()
    if inside is None:
        return None
    return Inside(**inside._asdict() | {"model": _finite(inside.model), "middle": _finite(inside.middle)})


def _finite(scores: dict[str, float]) -> Scores:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def _order(state: ViewerState, sort: Sorting, descending: bool) -> NDArray[np.int64]:
    """(B,) numbers of the bags in the order of the worklist."""
    results, prediction = state.results, state.results.prediction
    names = np.unique(np.array(state.names, dtype=np.str_), return_inverse=True)[1] if results.kind == "ct" else None
    columns: dict[Sorting, NDArray[Any]] = {
        Sorting.probability: prediction.log_odds,  # they tell apart probabilities that round to 1
        Sorting.uncertainty: prediction.std,
        Sorting.novelty: np.zeros(len(results)) if prediction.novelty is None else prediction.novelty,
        Sorting.id: np.arange(len(results)) if names is None else names,
        Sorting.truth: results.truth.astype(np.int64),
        Sorting.size: np.diff(prediction.offsets),
    }
    column = columns[sort]
    return np.argsort(-column if descending else column, kind="stable")


def _beside(
    state: ViewerState, number: int, order: NDArray[np.int64], is_shown: NDArray[np.bool_]
) -> tuple[str | None, str | None]:
    """Keys of the shown bags before and after one, which itself may not be shown any more."""
    place = int(np.flatnonzero(order == number)[0])
    before, after = (part[is_shown[part]] for part in (order[:place], order[place + 1 :]))
    return state.keys[before[-1]] if len(before) else None, state.keys[after[0]] if len(after) else None


def _is_shown(state: ViewerState, show: Shown) -> NDArray[np.bool_]:
    """(B,) which bags the worklist shows."""
    numbers, feedback = state.results.prediction.bag_numbers, state.feedback
    if show is Shown.disagreed:
        return np.array([feedback.disagreed(name) for name in state.ids])
    if show is Shown.noted:
        return np.array([feedback.n_notes(name) > 0 for name in state.ids])
    called = numbers["label"] == 1
    everything = np.ones(len(called), dtype=bool)
    flags = {Shown.all: everything, Shown.positive: called, Shown.negative: ~called}
    return np.asarray(flags[show] if show in flags else numbers[show.value], dtype=bool)


def _reliability(results: ResultSet) -> Reliability:
    known = results.truth != UNKNOWN
    table = reliability_table(results.truth[known], results.prediction.prob[known], BINS)
    return Reliability(
        edges=[(start, min(1.0, (round(start * BINS) + 1) / BINS)) for start in table["bin_start"].tolist()],
        mean=table["probability"].clip(0, 1).tolist(),
        share=table["positives"].tolist(),
        count=table["count"].tolist(),
    )
