"""Instances in the context of their bag: mean, least and largest value of every feature in it beside their own.

A model of such instances can tell what is remarkable for its bag, or what only some bags make suspicious. Rows of bags
that are stored elsewhere get their context when they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.model.bags import Bags

Array = NDArray[Any]

PARTS = 4  # an instance's own features, and the three of its bag
NAMES = ("mean of {} in its bag", "least {} in its bag", "largest {} in its bag")


def in_context(bags: Bags) -> Bags:
    """The same bags with (N, 4 D) features: own ones, then mean, minimum and maximum of each over the bag.

    Parameters
    ----------
    bags : with (N, D) features. Rows of those that are stored elsewhere are read slice by slice, as before.

    Examples
    --------
    >>> bags = Bags([[1.0], [4.0], [5.0]], [0, 2, 3], feature_names=["size"])
    >>> in_context(bags).X.tolist()
    [[1.0, 2.5, 1.0, 4.0], [4.0, 2.5, 1.0, 4.0], [5.0, 5.0, 5.0, 5.0]]
    >>> in_context(bags).feature_names[1:]
    ('mean of size in its bag', 'least size in its bag', 'largest size in its bag')
    """
    names = None if bags.feature_names is None else context_names(bags.feature_names)
    found: Bags
    if bags.stream is bags.X:
        found = Bags(
            _beside(bags.X, bags.offsets, 0, bags.n_instances), bags.offsets, bags.ids, bags.rows, names, bags.links
        )
    else:
        rows: Any = RowsInContext(bags.X, bags.offsets)
        found = BagsInContext(rows, bags.offsets, bags.ids, bags.rows, names, bags.links)
        found._set(source=bags)
    found._set(numbered=bags.numbered)
    return found


def context_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of 4 D features, from those of D.

    Examples
    --------
    >>> context_names(["a", "b"])[:4]
    ('a', 'b', 'mean of a in its bag', 'mean of b in its bag')
    """
    return (*names, *(form.format(name) for form in NAMES for name in names))


def bag_features(X: Array, offsets: Array) -> Array:
    """(B, 3 D) mean, minimum and maximum of every feature in each bag.

    Parameters
    ----------
    X : (N, D) features, bag after bag.
    offsets : (B + 1,) where each bag starts.

    Examples
    --------
    >>> bag_features(np.array([[1.0], [4.0], [5.0]]), np.array([0, 2, 3])).tolist()
    [[2.5, 1.0, 4.0], [5.0, 5.0, 5.0]]
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    low, high = np.minimum.reduceat(X, starts, axis=0), np.maximum.reduceat(X, starts, axis=0)
    shares = X / np.repeat(sizes, sizes).astype(np.float64)[:, None]  # in double precision; their sum stays in range
    mean = np.clip(np.add.reduceat(shares, starts, axis=0), low, high)  # equal values have that mean, to the last bit
    return np.concatenate([mean.astype(X.dtype), low, high], axis=1)


def _beside(X: Array, offsets: Array, start: int, stop: int) -> Array:
    """(stop - start, 4 D) rows of X (N, D) with the features of their bags."""
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[start:stop]
    return np.concatenate([X[start:stop], bag_features(X, offsets)[bag]], axis=1)


class RowsInContext:
    """(N, 4 D) rows that are read when they are asked for, each with all of its bag.

    Parameters
    ----------
    rows : (N, D) rows, any array that gives those of a slice.
    offsets : (B + 1,) where each bag starts.

    Examples
    --------
    >>> rows = RowsInContext(np.array([[1.0], [4.0], [5.0]]), np.array([0, 2, 3]))
    >>> rows.shape, rows[1:2].tolist()
    ((3, 4), [[4.0, 2.5, 1.0, 4.0]])
    """

    ndim = 2

    def __init__(self, rows: Any, offsets: Array) -> None:
        self.rows, self.offsets, self.dtype = rows, offsets, rows.dtype
        self.shape = (int(rows.shape[0]), PARTS * int(rows.shape[1]))

    def __len__(self) -> int:
        """N."""
        return self.shape[0]

    def __getitem__(self, key: slice) -> Array:
        """Rows of a slice without steps; all bags that it touches are read."""
        start, stop, _ = key.indices(len(self))
        if start >= stop:
            return np.empty((0, self.shape[1]), self.dtype)
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.offsets, stop))
        here = int(self.offsets[first])
        X = np.asarray(self.rows[here : int(self.offsets[last])])
        return _beside(X, self.offsets[first : last + 1] - here, start - here, stop - here)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All rows in memory."""
        if copy is False:
            raise ValueError("rows in context cannot be an array without a copy.")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


@dataclass(frozen=True, eq=False)
class BagsInContext(Bags):
    """Stored bags in context; :func:`in_context` makes them. ``source`` are the bags as they are stored."""

    source: Bags = None  # type: ignore[assignment]  # set by in_context

    def __post_init__(self) -> None:
        """Nothing: all was checked when the source was made."""

    @property
    def stream(self) -> Any:
        """(N, 4 D) rows read from where they are stored, slice by slice."""
        return RowsInContext(self.source.stream, self.offsets)

    def __getitem__(self, key: Any) -> Any:
        """One bag's (n, 4 D) features for an integer or an id in text; Bags in memory for all else."""
        if isinstance(key, (int, np.integer, str)):
            X = np.asarray(self.source[key])
            return _beside(X, np.array([0, len(X)]), 0, len(X))
        return in_context(self.source[key])
