"""One bag with all its instances."""

from __future__ import annotations

from typing import Any

from psimil.figures.png import COLUMNS
from psimil.report.calls import Words, difference_words, reason_words
from psimil.viewer.answers import BagDetails, InstanceRow, Owed, Picture, Telling
from psimil.viewer.viewed import Viewed
from psimil.viewer.worklist import bag_fields, label, novelty_of


def bag_details(viewed: Viewed, number: int) -> BagDetails:
    """What the page of a bag shows."""
    found, where = viewed.results.prediction, viewed.results.instances_of(number)
    previous, following = viewed.beside(number)
    said = viewed.feedback.of(viewed.ids[number], None)
    return BagDetails(
        **bag_fields(viewed, number),
        note="" if said is None else said.note,
        previous=previous,
        next=following,
        instances=[_instance(viewed, number, row, row - where.start) for row in range(where.start, where.stop)],
        image=_picture(viewed, number),
        threshold=found.threshold,
        instance_threshold=found.instance_threshold,
        difference=difference_words(found, number, Words.of(viewed.results.kind)),
        why=reason_words(found, number, Words.of(viewed.results.kind)),
    )


def _instance(viewed: Viewed, number: int, row: int, index: int) -> InstanceRow:
    results = viewed.results
    numbers: dict[str, Any] = {name: column[row].item() for name, column in viewed.instances.items()}
    said: Any = viewed.feedback.of(viewed.ids[number], index)
    return InstanceRow(
        index=index,
        position=None if results.positions is None else float(results.positions[row]),
        **numbers,
        novelty=novelty_of(results.prediction.instance_novelty, row),
        truth=label(results.instance_truth[row]),
        telling=_telling(viewed, row),
        owed=_owed(viewed, row),
        verdict=None if said is None else said.verdict_on(numbers["called"]),
        note="" if said is None else said.note,
    )


def _telling(viewed: Viewed, row: int) -> list[Telling]:
    results = viewed.results
    if results.features is None or results.values is None or results.effects is None:
        return []
    columns = zip(results.features[row], results.values[row], results.effects[row], strict=True)
    return [Telling(name=results.feature_names[n], value=float(v), effect=float(e)) for n, v, e in columns]


def _owed(viewed: Viewed, row: int) -> Owed | None:
    own, bag = viewed.results.own_effect, viewed.results.bag_effect
    return None if own is None or bag is None else Owed(own=float(own[row]), bag=float(bag[row]))


def _picture(viewed: Viewed, number: int) -> Picture:
    images, shape = viewed.results.images, viewed.shape(number)
    height, width = (0, 0) if images is None else images.shape[1:]
    kind: Any = "hu" if shape is not None else "none" if images is None else "thumbnail"
    rows, columns = shape or (height, width)
    return Picture(
        kind=kind,
        rows=rows,
        columns=columns,
        sprite_columns=COLUMNS,
        thumb_rows=height,
        thumb_columns=width,
    )
