"""How well a score finds the positive instances inside their bags, beside what their place alone would find."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score

from psimil.foundations.arrays import Array
from psimil.model.bag_checks import whole_offsets
from psimil.results.metrics import UNKNOWN, as_instance_labels, as_vector

NAMES = ("auc", "auc_within_bags", "localisation_error")
ABSENT = "n/a"

Vector = NDArray[np.float64]


class Places(NamedTuple):
    """Where the instances of ordered bags are.

    Parameters
    ----------
    positions : (N,) along each bag, bag after bag.
    unit : of the positions, in words: "mm", "rows".
    """

    positions: ArrayLike
    unit: str

    @classmethod
    def of_rows(cls, offsets: ArrayLike) -> Places:
        """The number of each instance in its bag, for bags in order of which no spacing is known.

        Examples
        --------
        >>> Places.of_rows([0, 2, 5]).positions.tolist()
        [0, 1, 0, 1, 2]
        """
        starts = np.asarray(offsets)
        return cls(np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts)), "rows")


class Localisation(NamedTuple):
    """What a model finds inside bags, and what the middle of the bag finds without looking at any feature.

    Parameters
    ----------
    model : ``auc`` of all instances together, ``auc_within_bags`` and ``localisation_error``; nan where undefined.
    middle : the same of :func:`closeness_to_middle`; all nan where bags have no order.
    unit : of the errors; None where bags have no order.
    n_both_kinds : bags with instances of both kinds: ``auc_within_bags`` is a mean over them.
    n_positive : bags with a positive instance: ``localisation_error`` is a mean over them.

    Examples
    --------
    >>> found = Localisation.of([0, 0, 1, 0, 0], [0.1, 0.4, 0.3, 0.2, 0.6], [0, 4, 5], Places.of_rows([0, 4, 5]))
    >>> found.model
    {'auc': 0.5, 'auc_within_bags': 0.6666666666666666, 'localisation_error': 1.0}
    >>> found.rows()[-1]
    ['localisation error, rows', '1.00', '0.50']
    """

    model: dict[str, float]
    middle: dict[str, float]
    unit: str | None
    n_both_kinds: int
    n_positive: int

    @classmethod
    def of(cls, y_instances: Any, score: Any, offsets: Any, places: Places | None = None) -> Localisation:
        """Of labels (N,), 0, 1 or -1 (unknown), and scores (N,), log-odds for instance; None: bags have no order."""
        instances = _Known.of(y_instances, score, offsets, None if places is None else places.positions)
        middle = None if places is None else instances.scored(closeness_to_middle(offsets, places.positions))
        areas, positive = instances.areas(), np.unique(instances.bag[instances.y == 1])
        return cls(
            instances.metrics(),
            dict.fromkeys(NAMES, math.nan) if middle is None else middle.metrics(),
            None if places is None else places.unit,
            len(areas),
            len(positive),
        )

    def rows(self, bag: str = "bag", instance: str = "instance") -> list[list[str]]:
        """Name, model and middle as a table shows them, n/a where undefined; bags and instances by their own names."""
        unit = "" if self.unit is None else f", {self.unit}"
        names = (f"{instance} AUC", f"{instance} AUC within {bag}s", f"localisation error{unit}")
        columns = (self.model, self.middle)
        return [
            [text, *(shown(column[name], 2 if name == NAMES[-1] else 4) for column in columns)]
            for name, text in zip(NAMES, names, strict=True)
        ]


def auc_within_bags(y_instances: Any, score: Any, offsets: Any) -> float:
    """Mean of the instance AUC of each bag that has instances of both kinds.

    It does not gain from telling positive bags from negative ones, as the AUC of all instances together does.

    Parameters
    ----------
    y_instances : (N,) labels, 0, 1 or -1 (unknown, left out), bag after bag.
    score : (N,) the larger the more positive; equal ones count one half.
    offsets : (B + 1,) first instance of each bag.

    Returns
    -------
    auc : nan when no bag has both kinds.

    Examples
    --------
    >>> auc_within_bags([0, 1, 0], [0.1, 0.9, 0.5], [0, 2, 3])
    1.0
    """
    return _mean(_Known.of(y_instances, score, offsets).areas())


def closeness_to_middle(offsets: Any, positions: Any) -> Vector:
    """(N,) 0 in the middle between the first and the last instance of a bag, -1 at both: a score without any feature.

    Parameters
    ----------
    offsets : (B + 1,) first instance of each bag.
    positions : (N,) along each bag.

    Examples
    --------
    >>> closeness_to_middle([0, 3, 4], [0.0, 5.0, 20.0, 3.0]).tolist()
    [-1.0, -0.5, -1.0, 0.0]
    """
    starts = whole_offsets(offsets, np.size(positions))
    along = as_vector(positions, "positions", int(starts[-1]))
    closeness = np.zeros(len(along))
    for a, b in pairwise(starts):
        if b > a and (length := np.ptp(along[a:b])) > 0:
            closeness[a:b] = -np.abs(2 * (along[a:b] - along[a:b].min()) / length - 1)
    return closeness.round(9) + 0.0  # what lies equally far on both sides ties


def localisation_error(y_instances: Any, score: Any, offsets: Any, positions: Any) -> float:
    """Mean distance from the instance of largest score to the nearest positive one, over bags that have one.

    Parameters
    ----------
    y_instances : (N,) labels, 0, 1 or -1 (unknown, left out), bag after bag.
    score : (N,) the larger the more positive; of several that are largest, the mean distance is taken.
    offsets : (B + 1,) first instance of each bag.
    positions : (N,) along each bag, millimetres for instance.

    Returns
    -------
    error : in the unit of the positions; nan when no instance is known to be positive.

    Examples
    --------
    >>> localisation_error([1, 0, 0, 0], [0.1, 0.2, 0.9, 0.3], [0, 3, 4], [0.0, 5.0, 10.0, 0.0])
    10.0
    """
    return _mean(_Known.of(y_instances, score, offsets, positions).errors())


class _Known(NamedTuple):
    """The n instances whose label is known: label, score, number of the bag, and position where there is one."""

    y: Array
    score: Vector
    bag: Array
    known: Array
    positions: Vector | None

    @classmethod
    def of(cls, y_instances: Any, score: Any, offsets: Any, positions: Any = None) -> _Known:
        y = as_instance_labels(y_instances)
        known, starts = y != UNKNOWN, whole_offsets(offsets, len(y))
        bag = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        along = None if positions is None else as_vector(positions, "positions", len(y))[known]
        return cls(y[known], as_vector(score, "scores", len(y))[known], bag[known], known, along)

    def scored(self, score: Vector) -> _Known:
        """With another score (N,)."""
        return self._replace(score=score[self.known])

    def metrics(self) -> dict[str, float]:
        pooled = float(roc_auc_score(self.y, self.score)) if 0 < self.y.sum() < len(self.y) else math.nan
        errors = np.empty(0) if self.positions is None else self.errors()
        return dict(zip(NAMES, (pooled, _mean(self.areas()), _mean(errors)), strict=True))

    def areas(self) -> Vector:
        """AUC of each bag that has instances of both kinds: mean ranks of its positives (Mann and Whitney)."""
        rank = pd.Series(self.score).groupby(self.bag).rank().to_numpy()
        size, positive = np.bincount(self.bag), np.bincount(self.bag, weights=self.y)
        above = np.bincount(self.bag, weights=self.y * rank) - positive * (positive + 1) / 2
        both = (positive > 0) & (positive < size)
        return np.asarray((above[both] / (positive * (size - positive))[both]), dtype=np.float64)

    def errors(self) -> Vector:
        """Of each bag that has a positive instance."""
        assert self.positions is not None  # asked for by callers
        distances = []
        for a, b in pairwise(np.flatnonzero(np.diff(self.bag, prepend=-1, append=-1))):
            y, score, along = self.y[a:b], self.score[a:b], self.positions[a:b]
            if y.any():
                gaps = np.abs(along[score == score.max(), None] - along[y == 1])
                distances.append(gaps.min(axis=1).mean())
        return np.array(distances, dtype=np.float64)


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


def shown(value: float, digits: int) -> str:
    """A score with its digits, n/a where it is undefined.

    Examples
    --------
    >>> shown(0.51234, 3), shown(math.nan, 3)
    ('0.512', 'n/a')
    """
    return ABSENT if math.isnan(value) else f"{value:.{digits}f}"
