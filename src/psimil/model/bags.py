"""Bags of instances: one flat feature matrix and offsets, sliceable bag by bag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.bag_checks import (
    as_ids,
    check_index,
    different_ids,
    feature_columns,
    in_order_of_appearance,
    matrices,
    per_instance,
    permutation,
    place_of,
    row_ids,
    whole_offsets,
)
from psimil.model.bag_order import checked_links, linked
from psimil.model.features import as_real, checked_names, column_names, column_order

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
    feature_names : D names, all different; None when the features have none.
    links : (N,) how closely each instance is linked to the next of its bag: 1, or 0 at gaps and at the last; None where
        bags have no order. :meth:`in_order` makes them.

    Attributes
    ----------
    numbered : whether ids are mere positions that nobody gave.

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
    feature_names: tuple[str, ...] | None = None
    links: Array | None = None
    numbered: bool = field(default=False, init=False, repr=False)

    if TYPE_CHECKING:

        def __init__(
            self, X: Any, offsets: Any, ids: Any = None, rows: Any = None, feature_names: Any = None, links: Any = None
        ) -> None: ...

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
        names = checked_names(self.feature_names, X.shape[1])
        self._set(numbered=self.ids is None, feature_names=names, rows=permutation(self.rows, len(X)))
        self._set(X=X, offsets=offsets, ids=ids, links=checked_links(self.links, offsets))
        self._check_finite()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

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
                f"instance {n - self.offsets[b]}, feature {d if self.feature_names is None else self.feature_names[d]}."
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
        arrays, columns = matrices(bags, names)
        offsets = np.cumsum([0] + [len(array) for array in arrays])
        X = np.concatenate(arrays) if arrays else np.empty((0, 0))
        return cls(X, offsets, None if ids is None else names, feature_names=columns)

    @classmethod
    def from_arrays(cls, X: Any, bag_ids: Any) -> Bags:
        """Bags from (N, D) rows and the id of each row's bag, in any order; bags come as their ids first appear.

        Parameters
        ----------
        X : (N, D) rows; a table with columns gives its features their names.
        bag_ids : (N,) the id of each row's bag.

        Examples
        --------
        >>> bags = Bags.from_arrays([[1.0], [2.0], [3.0]], ["b", "a", "b"])
        >>> bags.ids.tolist(), bags["b"].tolist()
        (['b', 'a'], [[1.0], [3.0]])
        """
        check_index(X, bag_ids)
        names, X = column_names(X), as_real(X, "features")
        if X.ndim != 2:
            raise InputError(f"features have shape {X.shape}, expected (instances, features).")
        ids, bag = in_order_of_appearance(row_ids(bag_ids, len(X)))
        order = np.argsort(bag, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(bag, minlength=len(ids)))])
        return cls(X[order], offsets, ids, order, names)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, bag: str = "bag", features: Sequence[str] | None = None) -> Bags:
        """Bags from a table with one row per instance.

        Parameters
        ----------
        frame : table with a column of bag ids; a lazy one is collected.
        bag : that column.
        features : names of the feature columns; None takes all but ``bag``, "label" and "instance_label".

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"bag": ["b", "a", "b"], "label": [1, 0, 1], "size": [0.5, 0.1, 0.7]})
        >>> bags = Bags.from_frame(frame)
        >>> bags.ids.tolist(), bags["b"].tolist(), bags.feature_names
        (['b', 'a'], [[0.5], [0.7]], ('size',))
        """
        frame = frame.collect() if hasattr(frame, "collect") else frame
        if not hasattr(frame, "columns"):
            raise InputError(f"from_frame needs a table with columns, got {type(frame).__name__}.")
        return cls.from_arrays(frame[feature_columns(list(frame.columns), bag, features)], frame[bag].to_numpy())

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
    def n_instances(self) -> int:
        """N."""
        return int(self.offsets[-1])

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
        return map(self.stream.__getitem__, map(slice, self.offsets[:-1], self.offsets[1:]))

    @overload
    def __getitem__(self, key: int | np.integer[Any] | str) -> Array: ...
    @overload
    def __getitem__(self, key: slice | Sequence[Any] | Array) -> Bags: ...
    def __getitem__(self, key: Any) -> Any:
        """One bag's (n, D) features for an integer or an id in text; Bags for slices, masks and index arrays."""
        if isinstance(key, (int, np.integer, str)):
            b = place_of(key if isinstance(key, str) else int(key), self.ids)
            return np.asarray(self.stream[self.offsets[b] : self.offsets[b + 1]])
        chosen = np.arange(len(self))[key]
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        take = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        links = None if self.links is None else self.links[take]
        found = Bags(self.X[take], offsets, self.names[chosen], None, self.feature_names, links)
        found._set(numbered=self.numbered)
        return found

    def in_order(self, positions: Any = None) -> Bags:
        """The same bags with an order: that of their rows, or of positions (N,) along each bag, row by row as given.

        An instance is linked to the next one unless something is missing between them: a step of more than 1.5 times
        the usual one of the bag.

        Examples
        --------
        >>> bags = Bags.from_list([[[1.0], [2.0], [3.0], [4.0]]]).in_order([10.0, 5.0, 0.0, 30.0])
        >>> bags.X.ravel().tolist(), bags.links.tolist()
        ([3.0, 2.0, 1.0, 4.0], [1.0, 1.0, 0.0, 0.0])
        """
        X, rows = self.X, self.rows
        if positions is None:
            links = linked(self.offsets)[1]
        else:
            found = per_instance(positions, len(X))
            order, links = linked(self.offsets, found if rows is None else found[rows])
            X, rows = X[order], order if rows is None else rows[order]
        ordered = Bags(X, self.offsets, self.ids, rows, self.feature_names, links)
        ordered._set(numbered=self.numbered)
        return ordered

    def with_features(self, names: Sequence[str]) -> Bags:
        """The same bags with these of their named features, in this order.

        Examples
        --------
        >>> bags = Bags([[1.0, 2.0]], [0, 1], feature_names=["size", "mass"])
        >>> bags.with_features(["mass"]).X.tolist()
        [[2.0]]
        """
        order = column_order(names, self.feature_names or (), "the bags")
        found = Bags(self.X[:, order], self.offsets, self.ids, self.rows, names, self.links)
        found._set(numbered=self.numbered)
        return found

    def split(self, values: Any) -> list[Array]:
        """(N, ...) values per instance as one array per bag.

        Examples
        --------
        >>> [part.tolist() for part in Bags.from_list([[[1.0], [2.0]], [[3.0]]]).split([0, 1, 1])]
        [[0, 1], [1]]
        """
        return np.split(per_instance(values, self.n_instances), self.offsets[1:-1])

    def in_input_order(self, values: Any) -> Array:
        """(N, ...) values per stored instance, put back in the row order of the caller's table."""
        found = per_instance(values, self.n_instances)
        if self.rows is None:
            return found
        restored = np.empty_like(found)
        restored[self.rows] = found
        return restored
