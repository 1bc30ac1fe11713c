"""Features that say which row or which bag it is: they are learned by heart, and say nothing about new bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FEW = 8  # rows, or bags, whose order a measurement can follow by chance
RARE = 1e-3  # chance at which that is no chance
ROWS, BAGS = "the order of the rows", "the order or the number of the bag"


class Order:
    """Whether a column follows the rows or the bags of its table, which is looked at chunk by chunk.

    Attributes
    ----------
    alive : False as soon as it follows neither, after which there is no need to look on.

    Examples
    --------
    >>> order = Order()
    >>> order.look(np.arange(20.0), np.repeat(np.arange(10), 2), np.arange(0, 20, 2))
    >>> order.verdict(np.full(10, 2))
    'the order of the rows'
    """

    def __init__(self) -> None:
        self._last = np.empty(0)
        self._least, self._most = np.inf, -np.inf  # of the steps from row to row
        self._values, self._by_row, self._by_bag = np.empty(0), True, True

    @property
    def alive(self) -> bool:
        """Whether the column can still follow rows or bags."""
        return self._by_row or self._by_bag

    def look(self, values: Array, bag: Array, begins: Array) -> None:
        """Go on with further rows.

        Parameters
        ----------
        values : (n,) of the column.
        bag : (n,) number of each row's bag, counted as bags appear.
        begins : rows, of these n, at which a bag appears for the first time.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._by_row:
                steps = np.diff(np.concatenate([self._last, values]))
                self._least = np.minimum(self._least, steps.min(initial=np.inf))  # nan stays
                self._most = np.maximum(self._most, steps.max(initial=-np.inf))
                self._last, self._by_row = values[-1:], _one_way(self._least, self._most)
            if self._by_bag:
                fresh = values[begins]
                self._values = np.concatenate([self._values, fresh])
                same = bool((self._values[bag] == values).all())
                self._by_bag = same and (_rises_or_falls(fresh) or _different_whole_numbers(fresh))

    def verdict(self, sizes: Array) -> str | None:
        """What the column follows, in words, in a table whose bags have these sizes (B,); None for a measurement.

        Every step from row to row in one direction, equal steps when the bags are few; or one value in each bag that
        rises or falls from bag to bag, or that is another whole number in every bag, so close together that numbers
        drawn at random would have met.
        """
        equal_steps = self._least == self._most
        if self._by_row and sizes.sum() >= FEW and len(sizes) >= (2 if equal_steps else FEW):
            return ROWS
        if not self._by_bag or len(sizes) < FEW:
            return None
        several = (sizes > 1).sum() >= FEW  # otherwise one value in each bag means nothing
        with np.errstate(over="ignore", invalid="ignore"):
            named = several and _different_whole_numbers(self._values) and _would_have_met(self._values)
            return BAGS if named or _rises_or_falls(self._values) else None


def _one_way(least: float, most: float) -> bool:
    return bool(least > 0 or most < 0)


def _rises_or_falls(values: Array) -> bool:
    steps = np.diff(values)
    return _one_way(steps.min(initial=np.inf), steps.max(initial=-np.inf))


def _different_whole_numbers(values: Array) -> bool:
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)


def _would_have_met(values: Array) -> bool:
    """Whether as many whole numbers, drawn from the range of these, are hardly ever all different."""
    spread = np.ptp(values) + 1.0
    return bool(np.log1p(-np.arange(len(values)) / spread).sum() < np.log(RARE))
