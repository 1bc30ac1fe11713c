"""Bags of instances: one flat feature matrix and offsets, sliceable bag by bag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.bag_checks import (
    as_ids,
    different_ids,
    feature_columns,
    per_instance,
    permutation,
    place_of,
    whole_offsets,
)

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
    ids : (B,) names of the bags; 0, 1, ... when None. A bag that is drawn twice (``bags[[0, 0]]``) has its id twice.
    rows : (N,) position that each stored row had in the caller's table; identity when None.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]])
    >>> len(bags), bags.sizes.tolist(), bags[1].tolist()
    (2, [2, 1], [[5.0, 6.0]])
    """

    X: Array
    offsets: Array
    ids: Array = None  # type: ignore[assignment]  # may be left out, and is an array ever after
    rows: Array | None = None

    if TYPE_CHECKING:

        def __init__(self, X: Any, offsets: Any, ids: Any = None, rows: Any = None) -> None: ...

    def __post_init__(self) -> None:
        """Check everything once; nobody downstream checks again."""
        X = np.ascontiguousarray(as_real(self.X, "features"))  # equal numbers give equal bits whatever their layout
        if X.ndim != 2:
            raise InputError(f"features have shape {X.shape}, expected (instances, features).")
        if len(X) and X.shape[1] == 0:
            raise InputError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        offsets = whole_offsets(self.offsets, len(X))
        ids = as_ids(self.ids, len(offsets) - 1)
        sizes = np.diff(offsets)
        if (sizes == 0).any():
            raise InputError(f"bag {ids[np.argmin(sizes)]} has 0 instances. Remove it or add instances.")
        for name, value in (("X", X), ("offsets", offsets), ("ids", ids), ("rows", permutation(self.rows, len(X)))):
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
        """Bags from a sequence of (n_i, D) arrays, lists or tensors.

        Parameters
        ----------
        bags : B matrices of the same number of features.
        ids : (B,) names, all different; 0, 1, ... when None.

        Examples
        --------
        >>> Bags.from_list([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"])["a"].tolist()
        [[1.0], [2.0]]
        """
        if not hasattr(bags, "__len__") or isinstance(bags, (str, bytes, dict)) or hasattr(bags, "columns"):
            raise InputError(f"bags must be a sequence of 2-D arrays, got {type(bags).__name__}.")
        if np.ndim(ids) == 0 and ids is not None:
            raise InputError(f"ids must be a sequence, one per bag, got {ids!r}.")
        names = different_ids(ids, len(bags))
        arrays = [as_real(bag, f"bag {name}") for bag, name in zip(bags, names, strict=True)]
        for array, name in zip(arrays, names, strict=True):
            if array.ndim != 2:
                raise InputError(f"bag {name} has shape {array.shape}, expected (instances, features).")
            if array.shape[1] != arrays[0].shape[1]:
                raise InputError(
                    f"bag {name} has {array.shape[1]} features, expected {arrays[0].shape[1]} (from bag {names[0]})."
                )
        offsets = np.cumsum([0] + [len(array) for array in arrays])
        return cls(np.concatenate(arrays) if arrays else np.empty((0, 0)), offsets, names)

    @classmethod
    def from_arrays(cls, X: Any, bag_ids: Any) -> Bags:
        """Bags from (N, D) rows and the id of each row's bag, in any order; bags are sorted by id.

        Examples
        --------
        >>> Bags.from_arrays([[1.0], [2.0], [3.0]], ["b", "a", "b"])["b"].tolist()
        [[1.0], [3.0]]
        """
        X = as_real(X, "features")
        if X.ndim != 2:
            raise InputError(f"features have shape {X.shape}, expected (instances, features).")
        try:
            bag_ids = np.asarray(bag_ids)
        except ValueError as error:
            raise InputError("bag_ids are ragged, expected one id per row.") from error
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
        """Bags from a table with one row per instance.

        Parameters
        ----------
        frame : table with a column of bag ids.
        bag : that column.
        features : names of the feature columns; None takes all but ``bag``, "label" and "instance_label".

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"bag": ["b", "a", "b"], "label": [1, 0, 1], "size": [0.5, 0.1, 0.7]})
        >>> bags = Bags.from_frame(frame)
        >>> bags.ids.tolist(), bags["b"].tolist()
        (['a', 'b'], [[0.5], [0.7]])
        """
        if not hasattr(frame, "columns"):
            raise InputError(f"from_frame needs a table with columns, got {type(frame).__name__}.")
        columns = feature_columns(list(frame.columns), bag, features)
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
        """(B,) ids."""
        return self.ids

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
        if isinstance(key, (int, np.integer, str)):
            b = place_of(key if isinstance(key, str) else int(key), self.ids)
            return self.X[self.offsets[b] : self.offsets[b + 1]]
        chosen = np.arange(len(self))[key]
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        take = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Bags(self.X[take], offsets, self.names[chosen])

    def split(self, values: Any) -> list[Array]:
        """(N, ...) values per instance as one array per bag.

        Examples
        --------
        >>> [part.tolist() for part in Bags.from_list([[[1.0], [2.0]], [[3.0]]]).split([0, 1, 1])]
        [[0, 1], [1]]
        """
        return np.split(per_instance(values, len(self.X)), self.offsets[1:-1])

    def in_input_order(self, values: Any) -> Array:
        """(N, ...) values per stored instance, put back in the row order of the caller's table."""
        found = per_instance(values, len(self.X))
        if self.rows is None:
            return found
        restored = np.empty_like(found)
        restored[self.rows] = found
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
