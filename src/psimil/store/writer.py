"""Writing of a store: bags of any number in bounded memory, and all of them appear at once or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.datasets.labelled import check_bags
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least, unmasked
from psimil.model.bags import Bags
from psimil.model.features import as_real
from psimil.model.labels import UNKNOWN, ZERO_ONE, Classes
from psimil.store.manifest import DTYPES, TEXT, WHOLE, Manifest
from psimil.store.reader import open_store
from psimil.store.segment import SegmentWriter
from psimil.store.transaction import Transaction

ID_LENGTH = 1000


class StoreWriter:
    """A store to fill with bags; it is there, or the bags are added to it, when the ``with`` block ends well.

    Parameters
    ----------
    path : folder of the store.
    n_features : D.
    dtype : "float32" or "float64" on disk; None takes float32, or what the store has.
    feature_names : D names, or None.
    classes : what the source calls negative and positive bags; None takes those of the store, or 0 and 1.
    bag_column : column of the source by which its bags were made, where one was named; parts of several have none.
    append : add to the store that is there.
    overwrite : replace the store that is there; it is kept until the new one is complete.

    Raises
    ------
    OutputError
        When something is in the way, another process is writing, or the disk is full; an old store is kept.
    InputError
        When a bag breaks a rule; nothing is written.

    Examples
    --------
    >>> with StoreWriter("store", n_features=2) as writer:
    ...     writer.add([[1.0, 2.0], [3.0, 4.0]], label=1, id="scan 1")
    >>> with StoreWriter("store", n_features=2, append=True) as writer:
    ...     writer.add_many(Bags.from_list([[[5.0, 6.0]]], ids=["scan 2"]), [0])
    >>> open_store("store").ids.tolist()
    ['scan 1', 'scan 2']
    """

    def __init__(
        self,
        path: str | Path,
        n_features: int,
        *,
        dtype: str | None = None,
        feature_names: Sequence[str] | None = None,
        classes: Classes | None = None,
        bag_column: str | None = None,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        at_least(1, whole=True, n_features=n_features)
        if isinstance(feature_names, str):
            raise InputError("feature_names must be a sequence of names, got str. Write [name] for one.")
        names = None if feature_names is None else tuple(map(str, feature_names))
        if names is not None and len(names) != n_features:
            raise InputError(f"{n_features} features but {len(names)} names of features.")
        if dtype is not None and dtype not in DTYPES:
            raise InputError(f'dtype must be "float32" or "float64", got {dtype!r}.')
        self._segment: SegmentWriter | None = None
        self._work = Transaction(path, append=append, overwrite=overwrite)
        try:
            earlier = self._work.earlier
            self._generation = 1 if earlier is None else earlier.generation + 1
            self._old = earlier if append else None
            self._seen: set[Any] = set() if self._old is None else set(open_store(path).names.tolist())
            self._ids = None if self._old is None else self._old.ids
            self._names = _fitting_names(self._old, n_features, names)
            self._classes = _fitting_classes(self._old, classes)
            self._bag_column = bag_column if self._old is None or self._old.bag_column == bag_column else None
            with self._work.explained():
                self._segment = SegmentWriter(self._work.new_segment(), n_features, _fitting_dtype(self._old, dtype))
        except BaseException:
            self.discard()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._segment is not None:
                self.finish()
        finally:
            self.discard()

    def add(self, X: Any, label: Any = UNKNOWN, id: Any = None, y_instances: ArrayLike | None = None) -> None:
        """One more bag.

        Parameters
        ----------
        X : (n, D) features.
        label : 0, 1, or -1 for unknown.
        id : text or a whole number that no other bag has; None takes the number of the bag.
        y_instances : (n,) 0, 1, or -1 for unknown; None when none is known.
        """
        segment = self._open_segment()
        name = self._new_id(len(self._seen) if id is None else id)
        values = as_real(X, f"bag {name}")
        if values.ndim != 2:
            raise InputError(f"bag {name} has shape {values.shape}, expected (instances, features).")
        if values.shape[1] != segment.n_features:
            raise InputError(f"bag {name} has {values.shape[1]} features, expected {segment.n_features}.")
        if len(values) == 0:
            raise InputError(f"bag {name} has 0 instances. Remove it or add instances.")
        if label not in (0, 1, UNKNOWN):
            raise InputError(f"label of bag {name} is {label}; labels must be 0, 1 or -1 (unknown).")
        known = None if y_instances is None else _known(y_instances, len(values), f"bag {name}")
        with self._work.explained():
            segment.append(values, int(label), name, known)

    def add_many(self, bags: Bags, y: ArrayLike | None = None, y_instances: ArrayLike | None = None) -> None:
        """All of the bags, with labels y (B,) and y_instances (N,) in their order, or None."""
        check_bags(bags)
        labels = np.full(len(bags), UNKNOWN) if y is None else np.asarray(unmasked(y, "labels"))
        if labels.shape != (len(bags),):
            raise InputError(f"{len(bags)} bags but labels of shape {labels.shape}.")
        known = None if y_instances is None else _known(y_instances, len(bags.X), "y_instances")
        for X, label, name, start in zip(bags, labels.tolist(), bags.names.tolist(), bags.offsets, strict=False):
            self.add(X, label, name, None if known is None else known[start : start + len(X)])

    def plan(self, ids: Sequence[Any], sizes: ArrayLike) -> None:
        """All bags of this writer, ids (B,) and instances (B,), before :meth:`place` gives their rows in any order."""
        segment, counts = self._open_segment(), np.asarray(unmasked(sizes, "sizes"))
        if counts.shape != (len(ids),) or (len(ids) and counts.dtype.kind not in "iu"):
            raise InputError(f"sizes must be {len(ids)} whole numbers, one for each id, got {sizes!r}.")
        if (counts < 1).any():
            empty = ids[int(np.argmin(counts))]
            raise InputError(f"bag {empty} has {counts.min()} instances. Remove it or add instances.")
        segment.plan([self._new_id(identifier) for identifier in ids], counts)

    def place(self, rows: Array, X: Array, y_instances: Array | None = None) -> None:
        """Rows X (n, D) of planned bags: ``rows`` (n,) numbers them through all planned bags."""
        segment = self._open_segment()
        if X.shape != (len(rows), segment.n_features):
            raise InputError(f"features have shape {X.shape}, expected ({len(rows)}, {segment.n_features}).")
        with self._work.explained():
            segment.place(rows, X, y_instances)

    def label(self, y: Array) -> None:
        """Labels (B,) of the planned bags: 0, 1, or -1 for unknown."""
        segment = self._open_segment()
        if y.shape != (len(segment.ids),) or not np.isin(y, (0, 1, UNKNOWN)).all():
            raise InputError(f"labels must be 0, 1 or -1 (unknown), one for each of {len(segment.ids)} bags.")
        segment.label(y)

    def finish(self) -> Manifest:
        """Complete the store; nothing can be added after that."""
        segment = self._open_segment()
        if not segment.ids:
            raise InputError("0 bags for the store. Give at least 1 bag.")
        with self._work.explained():
            parts = (*(() if self._old is None else self._old.parts), segment.complete())
        ids = self._ids or TEXT
        known = (self._names, self._generation, self._classes, self._bag_column)
        manifest = Manifest(segment.dtype, segment.n_features, ids, parts, *known)
        self._work.commit(manifest)
        self._segment = None  # it belongs to the store now
        self._work.close()
        return manifest

    def discard(self) -> None:
        """Leave nothing behind of what was not finished."""
        if self._segment is not None:
            self._segment.discard()
            self._segment = None
        self._work.close()

    def _open_segment(self) -> SegmentWriter:
        if self._segment is None:
            raise InputError("the store is finished. Append with a new StoreWriter.")
        return self._segment

    def _new_id(self, identifier: Any) -> str | int:
        """The id as it is stored, taken from now on."""
        if isinstance(identifier, (int, np.integer)) and not isinstance(identifier, (bool, np.bool_)):
            name: str | int = str(identifier) if self._ids == TEXT else int(identifier)
        elif isinstance(identifier, str) and 0 < len(identifier) <= ID_LENGTH and identifier.isprintable():
            name = str(identifier)
        else:
            raise InputError(
                f"bag id {str(identifier)[:40]!r} is neither a whole number nor printable text of at most {ID_LENGTH} "
                "characters."
            )
        self._ids = self._ids or (TEXT if isinstance(name, str) else WHOLE)
        if isinstance(name, str) != (self._ids == TEXT):
            raise InputError(f'bag id "{name}" is text, but the ids of the store are whole numbers.')
        if isinstance(name, int) and not -(1 << 63) <= name < 1 << 63:
            raise InputError(f"bag id {name} is beyond 64 bits. Give it as text.")
        if name in self._seen:
            raise InputError(f"bag {name} is in the store already. Give every bag its own id.")
        self._seen.add(name)
        return name


def _fitting_dtype(old: Manifest | None, dtype: str | None) -> str:
    if old is None:
        return dtype or "float32"
    if dtype not in (None, old.dtype):
        raise InputError(f"the store has {old.dtype}; {dtype} cannot be appended. Leave dtype out.")
    return old.dtype


def _fitting_names(old: Manifest | None, n_features: int, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if old is None:
        return names
    if old.features != n_features:
        raise InputError(f"the store has {old.features} features, got {n_features}.")
    if old.feature_names is None or names is None:
        return old.feature_names
    for there, here in zip(old.feature_names, names, strict=True):
        if there != here:
            raise InputError(f'the store has feature "{there}" where the data has "{here}".')
    return names


def _fitting_classes(old: Manifest | None, classes: Classes | None) -> Classes:
    if old is None or classes is None:
        return classes or (ZERO_ONE if old is None else old.classes)
    if old.classes != classes:
        there, here = (f"{pair.negative!r} and {pair.positive!r} (positive)" for pair in (old.classes, classes))
        raise InputError(f"the labels of the store are {there}, those of the data {here}. Give them alike.")
    return old.classes


def _known(values: ArrayLike, n: int, what: str) -> NDArray[np.int8]:
    """(n,) instance labels."""
    known = np.asarray(unmasked(values, what))
    if known.shape != (n,):
        raise InputError(f"{what}: {n} instances but instance labels of shape {known.shape}.")
    wrong = known[~np.isin(known, (0, 1, UNKNOWN))]
    if len(wrong):
        raise InputError(f"{what}: an instance label is {wrong[0]}; instance labels must be 0, 1 or -1 (unknown).")
    return known.astype(np.int8)
