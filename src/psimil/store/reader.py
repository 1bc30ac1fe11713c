"""Stored bags: a store opened as Bags whose features stay on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.data.bagtable import BagTable
from psimil.files.paths import as_path
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.bag_checks import per_instance
from psimil.model.bag_order import linked
from psimil.model.bags import Bags
from psimil.model.features import as_real, column_order, listed
from psimil.model.labels import UNKNOWN, ZERO_ONE, Classes
from psimil.store.digest import BlockCheck, changed
from psimil.store.manifest import (
    DTYPES,
    FEATURES,
    IDS,
    INSTANCE_LABELS,
    LABEL_DTYPE,
    LABELS,
    OFFSET_DTYPE,
    OFFSETS,
    TEXT,
    Manifest,
    Segment,
    read_manifest,
)
from psimil.store.rows import FileRows, SegmentedRows


@dataclass(frozen=True, eq=False)
class StoredBags(Bags):
    """Bags of a store, usable wherever Bags are; :func:`open_store` makes them.

    ``X`` is a read-only ``np.memmap`` (N, D), or :class:`psimil.store.rows.SegmentedRows` after an append; before it is
    handed out, its checksums are compared, once in a process. ``stream`` compares those of what it reads. Slices, masks
    and index arrays give ordinary Bags in memory.

    Parameters
    ----------
    y : (B,) bag labels, -1 for unknown, or None when none is known.
    y_instances : (N,) instance labels, -1 for unknown, or None when none is known.
    classes : what the source called negative and positive bags.
    path : folder of the store.
    checks : of the features of each segment.

    Examples
    --------
    >>> from psimil.store.writer import StoreWriter
    >>> with StoreWriter("store", 1) as writer:
    ...     writer.add([[1.0], [2.0]], 1, "a")
    ...     writer.add([[3.0]], 0, "b")
    >>> bags = open_store("store")
    >>> bags.ids.tolist(), bags.y.tolist(), bags[1].tolist(), type(bags[:1]).__name__
    (['a', 'b'], [1, 0], [[3.0]], 'Bags')
    """

    y: NDArray[np.int64] | None = None
    y_instances: NDArray[np.int8] | None = None
    classes: Classes = ZERO_ONE
    path: Path = Path()
    checks: tuple[BlockCheck, ...] = ()

    def __post_init__(self) -> None:
        """Nothing: values were checked when they were written, the rest when the store was opened."""

    def __getattribute__(self, name: str) -> Any:
        """Attributes; the features after their checks."""
        if name == "X":
            for check, segment in zip(self.checks, self._parts, strict=False):
                check.whole(segment)
        return object.__getattribute__(self, name)

    @property
    def n_features(self) -> int:
        """D."""
        return int(self._mapped.shape[1])

    @property
    def _mapped(self) -> Any:
        """(N, D) rows that nobody has checked."""
        return object.__getattribute__(self, "X")

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The maps of files among these rows; none after ``dataclasses.replace(store, X=...)``."""
        parts = getattr(self._mapped, "parts", (self._mapped,))
        return parts if all(getattr(segment, "filename", None) for segment in parts) else ()

    @property
    def stream(self) -> Any:
        """(N, D) rows read from the files, slice by slice."""
        if not self._parts:
            return self._mapped
        segments = [FileRows(segment, check) for segment, check in zip(self._parts, self.checks, strict=True)]
        return segments[0] if len(segments) == 1 else SegmentedRows(segments)

    def table(self) -> BagTable:
        """Bags, labels and names of the features as the commands take them."""
        known = None if self.y_instances is None else self.y_instances.astype(np.int64)
        return BagTable(self, self.y, known, self.classes)

    def in_order(self, positions: Any = None) -> StoredBags:
        """The same bags with an order; no feature is read. Rows stay where they are, so positions must agree with them.

        Parameters
        ----------
        positions : (N,) along each bag, as of :meth:`psimil.model.bags.Bags.in_order`, all rising or all falling within
            a bag.
        """
        if positions is not None:
            positions = as_real(per_instance(positions, len(self.X)), "positions")
            falling = positions[self.offsets[1:] - 1] < positions[self.offsets[:-1]]
            positions = np.where(np.repeat(falling, self.sizes), -positions, positions)
        order, links = linked(self.offsets, positions)
        if (wrong := order != np.arange(len(order))).any():
            bag = self.names[self.bag_index[np.argmax(wrong)]]
            raise InputError(
                f"the rows of bag {bag} of {self.path.name} are not in the order of their positions, and a store keeps "
                "them as they are. Sort them by position and import the data again."
            )
        return replace(self, links=links)

    def with_features(self, names: Sequence[str]) -> Bags:
        """Refused: the features of a store have one order."""
        column_order(names, self.feature_names or (), "the bags")
        raise InputError(
            f"the features of {self.path.name} are not those of the model in the same order, {listed(names)}. "
            f"Import the data again with --features in this order."
        )


class _Loaded(NamedTuple):
    X: Array
    sizes: Array
    labels: Array
    known: Array | None
    ids: Array


def open_store(path: str | Path, *, verify: bool = False) -> StoredBags:
    """The bags of a store; features are read when they are used.

    Parameters
    ----------
    path : folder of the store.
    verify : read every file and compare its checksum, see :func:`verify_store`.

    Raises
    ------
    MissingFile
        When the folder is no store.
    InputError
        When a file is missing or cut short, or, now or when its bytes are first used, changed.

    Examples
    --------
    >>> open_store("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: no-such-folder is not a store: it has no manifest.json. ...
    """
    path = as_path(path)
    manifest = verify_store(path) if verify else read_manifest(path)
    parts = [_load(path, segment, manifest) for segment in manifest.parts]
    features = []
    for segment in manifest.parts:
        checks = _checks(path, segment)
        features.append(checks.pop(FEATURES))  # are checked when they are read
        for name, check in checks.items():
            check.before(0, segment.files[name].bytes)
    ids = np.concatenate([segment.ids for segment in parts])
    if len(np.unique(ids)) < len(ids):
        raise InputError(f"{IDS} of the store was changed: an id is there twice. Import the data again.")
    labels = np.concatenate([segment.labels for segment in parts])
    known = None
    if any(segment.known is not None for segment in parts):
        unknown = ([segment.known, np.full(len(segment.X), UNKNOWN, np.int8)] for segment in parts)
        known = np.concatenate([filled if found is None else found for found, filled in unknown])
    return StoredBags(
        parts[0].X if len(parts) == 1 else SegmentedRows([segment.X for segment in parts]),  # type: ignore[arg-type]
        np.concatenate([[0], np.cumsum(np.concatenate([segment.sizes for segment in parts]))]),
        ids,
        y=labels.astype(np.int64) if (labels != UNKNOWN).any() else None,
        y_instances=known,
        classes=manifest.classes,
        feature_names=manifest.feature_names,
        path=path,
        checks=tuple(features),
    )


def verify_store(path: str | Path, progress: Callable[[], object] = lambda: None) -> Manifest:
    """Read every file of a store and compare its checksum.

    Parameters
    ----------
    path : folder of the store.
    progress : called after every 64 MB and every file, :func:`verify_steps` times in all.

    Returns
    -------
    manifest : of the store.

    Raises
    ------
    InputError
        When a file is missing, cut short or changed; the message names it.

    Examples
    --------
    >>> verify_store("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: no-such-folder is not a store: it has no manifest.json. ...
    """
    path = as_path(path)
    manifest = read_manifest(path)
    for segment in manifest.parts:
        _check_sizes(path, segment)
    for segment in manifest.parts:
        for name, check in _checks(path, segment).items():
            try:
                for _ in check.again():
                    progress()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise InputError(f"{segment.name}/{name} of the store cannot be read: {reason}.") from error
    return manifest


def verify_steps(manifest: Manifest) -> int:
    """How often :func:`verify_store` tells its progress.

    Examples
    --------
    >>> verify_steps(Manifest("float32", 1, TEXT, ()))
    0
    """
    return sum(max(1, len(digest.blocks)) for segment in manifest.parts for digest in segment.files.values())


def _check_sizes(root: Path, segment: Segment) -> None:
    for name, digest in segment.files.items():
        file = root / segment.name / name
        if not file.is_file():
            raise InputError(f"{segment.name}/{name} of the store is missing. Import the data again.")
        size = file.stat().st_size
        if size < digest.bytes:
            raise InputError(f"{segment.name}/{name} of the store has {size} of {digest.bytes} bytes; it is cut short.")
        if size > digest.bytes:
            raise changed(f"{segment.name}/{name}", f"it has {size} bytes, expected {digest.bytes}")


def _load(root: Path, segment: Segment, manifest: Manifest) -> _Loaded:
    """The files of one segment; all but the features are read and checked."""
    _check_sizes(root, segment)
    folder = root / segment.name
    X = np.memmap(folder / FEATURES, DTYPES[manifest.dtype], "r", shape=(segment.instances, manifest.features))
    offsets = np.fromfile(folder / OFFSETS, OFFSET_DTYPE)
    if offsets[0] != 0 or offsets[-1] != segment.instances or (offsets[1:] <= offsets[:-1]).any():
        raise changed(f"{segment.name}/{OFFSETS}", "it does not fit the instances")
    labels_of = {
        name: np.fromfile(folder / name, LABEL_DTYPE) for name in (LABELS, INSTANCE_LABELS) if name in segment.files
    }
    for name, labels in labels_of.items():
        if labels.min() < UNKNOWN or labels.max() > 1:
            raise changed(f"{segment.name}/{name}", "it has labels that are not 0, 1 or -1")
    ids = _ids(folder, segment, manifest)
    return _Loaded(X, np.diff(offsets), labels_of[LABELS], labels_of.get(INSTANCE_LABELS), ids)


def _checks(root: Path, segment: Segment) -> dict[str, BlockCheck]:
    """By file."""
    folder = root / segment.name
    return {name: BlockCheck(folder / name, digest, f"{segment.name}/{name}") for name, digest in segment.files.items()}


def _ids(folder: Path, segment: Segment, manifest: Manifest) -> Array:
    try:
        ids = json.loads((folder / IDS).read_bytes())
    except (ValueError, RecursionError) as error:
        raise changed(f"{segment.name}/{IDS}", "it is not JSON") from error
    kind = str if manifest.ids == TEXT else int
    if not isinstance(ids, list) or len(ids) != segment.bags or not all(type(identifier) is kind for identifier in ids):
        raise changed(f"{segment.name}/{IDS}", f"it does not hold {segment.bags} ids ({manifest.ids})")
    if kind is int and not all(-(1 << 63) <= identifier < 1 << 63 for identifier in ids):
        raise changed(f"{segment.name}/{IDS}", "an id is out of range")
    return np.array(ids, dtype=str if kind is str else np.int64)
