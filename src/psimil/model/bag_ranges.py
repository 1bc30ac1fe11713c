"""Whole bags that follow one another, and how all bags are cut into such ranges."""

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
