"""Bags of instances: one flat feature matrix and offsets, sliceable bag by bag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Bags:
    """Bags stored one after another. One sample, for scikit-learn, is one bag.

    Parameters
    ----------
    X : (N, D) features of all instances, bag after bag.
    offsets : (B + 1,) where each bag starts; bag b is ``X[offsets[b]:offsets[b + 1]]``.
    ids : (B,) names of the bags; 0, 1, ... when None.
    rows : (N,) position that each stored row had in the caller's table; identity when None.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]])
    >>> len(bags), bags.sizes.tolist(), bags[1].tolist()
    (2, [2, 1], [[5.0, 6.0]])
    """

    X: Array
    offsets: Array
    ids: Array | None = None
    rows: Array | None = None

    def __post_init__(self) -> None:
        """Check everything once; nobody downstream checks again."""
        X = np.ascontiguousarray(as_real(self.X, "features"))  # equal numbers give equal bits whatever their layout
        offsets = np.asarray(self.offsets, dtype=np.int64)
        if X.ndim != 2:
            raise InputError(f"features have shape {X.shape}, expected (instances, features).")
        if len(X) and X.shape[1] == 0:
            raise InputError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(X):
            raise InputError(f"offsets must run from 0 to the number of instances, {len(X)}.")
        ids = np.arange(len(offsets) - 1) if self.ids is None else np.asarray(self.ids)
        if ids.ndim != 1:
            raise InputError(f"bag ids have shape {ids.shape}, expected one id per bag.")
        if len(ids) != len(offsets) - 1:
            raise InputError(f"{len(offsets) - 1} bags but {len(ids)} bag ids.")
        sizes = np.diff(offsets)
        if (sizes < 0).any():
            raise InputError("offsets must not decrease.")
        if (sizes == 0).any():
            raise InputError(f"bag {ids[np.argmin(sizes)]} has 0 instances. Remove it or add instances.")
        for name, value in (("X", X), ("offsets", offsets), ("ids", ids)):
            object.__setattr__(self, name, value)
        self._check_finite()

    def _check_finite(self) -> None:
        step = max(1, (16 << 20) // max(1, self.X[:1].nbytes))  # rows in 16 MB: what the check needs stays small
        count, first = 0, (0, 0)
        for start in range(0, len(self.X), step):
            bad = ~np.isfinite(self.X[start : start + step])
            if bad.any():
                if count == 0:
                    n, d = np.argwhere(bad)[0]
                    first = (start + int(n), int(d))
                count += int(bad.sum())
        if count:
            n, d = first
            b = int(np.searchsorted(self.offsets, n, side="right")) - 1
            raise InputError(
                f"feature matrix has {count} non-finite values, first at bag {self.names[b]}, "
                f"instance {n - self.offsets[b]}, feature {d}."
            )

    @classmethod
    def from_list(cls, bags: Sequence[Any], ids: Any = None) -> Bags:
        """Bags from a sequence of (n_i, D) arrays, lists or tensors."""
        names = list(range(len(bags))) if ids is None else list(ids)
        if len(names) != len(bags):
            raise InputError(f"{len(bags)} bags but {len(names)} bag ids.")
        arrays = [as_real(bag, f"bag {name}") for bag, name in zip(bags, names, strict=True)]
        for array, name in zip(arrays, names, strict=True):
            if array.ndim != 2:
                raise InputError(f"bag {name} has shape {array.shape}, expected (instances, features).")
            if array.shape[1] != arrays[0].shape[1]:
                raise InputError(
                    f"bag {name} has {array.shape[1]} features, expected {arrays[0].shape[1]} (from bag {names[0]})."
                )
        offsets = np.cumsum([0] + [len(array) for array in arrays])
        X = np.concatenate(arrays) if arrays else np.empty((0, 0))
        return cls(X, offsets, None if ids is None else np.asarray(ids))

    @classmethod
    def from_arrays(cls, X: Any, bag_ids: Any) -> Bags:
        """Bags from (N, D) rows and the id of each row's bag, in any order; bags are sorted by id.

        Examples
        --------
        >>> Bags.from_arrays([[1.0], [2.0], [3.0]], ["b", "a", "b"])["b"].tolist()
        [[1.0], [3.0]]
        """
        X, bag_ids = as_real(X, "features"), np.asarray(bag_ids)
        if bag_ids.ndim != 1 or len(bag_ids) != len(X):
            raise InputError(f"{len(X)} instances but bag_ids has shape {bag_ids.shape}.")
        if bag_ids.dtype.kind in "fO":
            missing = [n for n, value in enumerate(bag_ids.tolist()) if value is None or (value != value) is True]  # noqa: PLR0124
            if missing:
                raise InputError(f"the bag id of row {missing[0]} is missing. Give every row a bag.")
        try:
            ids, bag = np.unique(bag_ids, return_inverse=True)
        except TypeError as error:
            raise InputError("bag_ids cannot be sorted: they mix kinds or miss values.") from error
        order = np.argsort(bag, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(bag, minlength=len(ids)))])
        return cls(X[order], offsets, ids, rows=order)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, bag: str = "bag", features: Sequence[str] | None = None) -> Bags:
        """Bags from a table with one row per instance; all columns but ``bag`` are features unless named."""
        if bag not in frame.columns:
            raise InputError(f'the table has no column "{bag}". Columns: {", ".join(map(str, frame.columns))}.')
        columns = [c for c in frame.columns if c != bag] if features is None else list(features)
        return cls.from_arrays(frame[columns].to_numpy(), frame[bag].to_numpy())

    def __len__(self) -> int:
        """Number of bags."""
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int]:
        """(B,), so that scikit-learn counts bags."""
        return (len(self),)

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.X.shape[1])

    @property
    def sizes(self) -> Array:
        """(B,) instances per bag."""
        return np.diff(self.offsets)

    @property
    def stream(self) -> Any:
        """(N, D) rows for reading in order, slice by slice; bags that are stored elsewhere read them from there."""
        return self.X

    @property
    def names(self) -> Array:
        """(B,) ids, never None."""
        return np.arange(len(self)) if self.ids is None else self.ids

    @property
    def bag_index(self) -> Array:
        """(N,) index of each instance's bag."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __iter__(self) -> Iterator[Array]:
        """The feature matrix of one bag after another."""
        return (self.X[a:b] for a, b in zip(self.offsets, self.offsets[1:], strict=False))

    @overload
    def __getitem__(self, key: int | np.integer[Any] | str) -> Array: ...
    @overload
    def __getitem__(self, key: slice | Sequence[Any] | Array) -> Bags: ...
    def __getitem__(self, key: Any) -> Any:
        """One bag's (n, D) features for an integer or an id in text; Bags for slices, masks and index arrays."""
        if isinstance(key, str):
            matches = np.flatnonzero(self.names == key)
            if len(matches) != 1:
                raise KeyError(key)
            key = int(matches[0])
        if isinstance(key, (int, np.integer)):
            b = range(len(self))[int(key)]
            return self.X[self.offsets[b] : self.offsets[b + 1]]
        chosen = np.arange(len(self))[key]
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        take = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Bags(self.X[take], offsets, self.names[chosen])

    def split(self, values: Array) -> list[Array]:
        """(N, ...) values per instance as one array per bag."""
        return np.split(values, self.offsets[1:-1])

    def in_input_order(self, values: Array) -> Array:
        """(N, ...) values per stored instance, put back in the row order of the caller's table."""
        if self.rows is None:
            return values
        restored = np.empty_like(values)
        restored[self.rows] = values
        return restored


def as_real(values: Any, what: str) -> Array:
    """The values as a float32 or float64 array; anything that is not a real number is refused.

    Examples
    --------
    >>> as_real([[1, 2]], "features")
    array([[1., 2.]])
    """
    device = getattr(values, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        raise InputError(f"{what} is on {device} but the model is on cpu.")
    if hasattr(values, "detach"):
        values = values.detach()
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InputError(f"{what} is a sparse matrix; give a dense array (for instance .toarray()).")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} is ragged: every instance needs the same number of features.") from error
    if array.dtype.kind not in "fiub":
        kind = "text" if array.dtype.kind in "US" else str(array.dtype)
        raise InputError(f"{what} must be real numbers, got {kind}.")
    native = array.dtype.newbyteorder("=") if array.dtype.kind == "f" else array.dtype
    return np.asarray(array, dtype=native if native in (np.float32, np.float64) else np.float64)
