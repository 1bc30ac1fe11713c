"""Predictions of large data, range by range: under a trained model bags know nothing of one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.phases import tell
from psimil.model.bag_ranges import BagRange, split_bags
from psimil.model.bags import Bags
from psimil.predictive.aggregates import joined
from psimil.predictive.prediction import BagLayout, Prediction
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

RANGE_ROWS = 1 << 16  # instances that are predicted and written at a time


def predict_ranges(
    model: TrainedModel, bags: Bags, rows: int = RANGE_ROWS, *, raw: bool = False, level: float = 0.95
) -> Iterator[Prediction]:
    """Predictions of whole bags that follow one another, with nothing of the size of all instances in memory.

    Parameters
    ----------
    bags : B bags; those of a store are read range by range.
    rows : target number of instances of a range. All bags are one where they have no more.
    raw, level : as of :meth:`psimil.predictive.trained.TrainedModel.predict`.

    Yields
    ------
    prediction : of the next range, what ``model.predict(bags)`` says of it, to rounding. Where there are several, their
        instances come bag after bag, whatever the rows of the caller's table were.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=8, bag_size=(5, 5), seed=1)
    >>> model = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).model_
    >>> [len(part.prob) for part in predict_ranges(model, bags, rows=15)]
    [3, 3, 2]
    """
    ranges, rng = split_bags(bags.offsets, rows), np.random.default_rng(model.seed)
    for some in ranges:
        if len(ranges) > 1:
            tell("instances predicted", some.start, bags.n_instances)
        yield model.predict(range_of(bags, some), raw=raw, level=level, rng=rng)


def range_of(bags: Bags, some: BagRange) -> Bags:
    """The bags of a range, of which no other row is read; where that is all bags, these themselves."""
    if len(bags) == some.last - some.first:
        return bags
    links = None if bags.links is None else bags.links[some.rows]
    own, X = layout_of(bags, some), np.asarray(bags.stream[some.rows])
    return Bags(X, own.offsets, own.names, None, bags.feature_names, links)


def layout_of(bags: Bags, some: BagRange) -> BagLayout:
    """The same without reading any row."""
    if len(bags) == some.last - some.first:
        return BagLayout(bags.names, bags.offsets, bags.rows)
    return BagLayout(bags.names[some.first : some.last], bags.offsets[some.first : some.last + 1] - some.start)


def whole(parts: Sequence[Prediction]) -> Prediction:
    """The prediction of all bags, from those of their ranges.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=8, bag_size=(5, 5), seed=1)
    >>> model = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).model_
    >>> whole(list(predict_ranges(model, bags, rows=15))).offsets.tolist() == bags.offsets.tolist()
    True
    """
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    return replace(joined(parts), offsets=np.concatenate([[0], np.cumsum(sizes)]))
