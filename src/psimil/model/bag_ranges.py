"""Whole bags that follow one another, how all bags are cut into such ranges, and the instances of any bags."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class BagRange(NamedTuple):
    """Whole bags first to last - 1, instances start to stop - 1."""

    first: int
    last: int
    start: int
    stop: int

    @property
    def rows(self) -> slice:
        """Its instances."""
        return slice(self.start, self.stop)


def split_bags(offsets: Array, rows: int) -> list[BagRange]:
    """Ranges of about ``rows`` instances, each of whole bags, the same for every way of running.

    Examples
    --------
    >>> split_bags(np.array([0, 3, 4, 8]), 4)
    [BagRange(first=0, last=2, start=0, stop=4), BagRange(first=2, last=3, start=4, stop=8)]
    """
    targets = np.arange(rows, offsets[-1], rows)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, targets), [len(offsets) - 1]]))
    return [BagRange(int(a), int(b), int(offsets[a]), int(offsets[b])) for a, b in pairwise(cuts)]


def rows_of_bags(offsets: Array, bags: Array) -> tuple[Array, Array]:
    """(n,) the instances of some bags (k,), bag after bag, and (k + 1,) where each bag begins among them.

    Examples
    --------
    >>> rows_of_bags(np.array([0, 3, 4, 8]), np.array([2, 1]))
    (array([4, 5, 6, 7, 3]), array([0, 4, 5]))
    """
    sizes = offsets[bags + 1] - offsets[bags]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return np.repeat(offsets[bags] - starts[:-1], sizes) + np.arange(starts[-1]), starts
