"""Writing of one segment of a store: rows go to disk as they come, ids and sizes stay in memory until the end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.features import as_real
from psimil.model.labels import UNKNOWN
from psimil.store.digest import Digest, HashedFile
from psimil.store.manifest import (
    DTYPES,
    FEATURES,
    IDS,
    INSTANCE_LABELS,
    LABEL_DTYPE,
    LABELS,
    OFFSET_DTYPE,
    OFFSETS,
    Segment,
)


class SegmentWriter:
    """A new segment; either bags one after another, or a plan of all bags and then rows in any order.

    Parameters
    ----------
    folder : of the segment; it is made.
    n_features, dtype : D, and "float32" or "float64".

    Examples
    --------
    >>> segment = SegmentWriter(Path("part-0001"), 1, "float32")
    >>> segment.plan(["a", "b"], np.array([1, 2]))
    >>> segment.place(np.array([2, 0]), np.array([[3.0], [1.0]]))
    >>> segment.place(np.array([1]), np.array([[2.0]]))
    >>> written = segment.complete()
    >>> np.fromfile(Path("part-0001") / "features.bin", "<f4").tolist(), written.instances
    ([1.0, 2.0, 3.0], 3)
    """

    def __init__(self, folder: Path, n_features: int, dtype: str) -> None:
        folder.mkdir()
        self.folder, self.n_features, self.dtype = folder, n_features, dtype
        self.ids: list[Any] = []
        self._sizes: list[int] = []
        self._labels: list[int] = []
        self._known = bytearray()  # int8, one byte per instance
        self._features = HashedFile(folder / FEATURES)
        self._rows, self._bad, self._first = 0, 0, (0, 0, 0.0)

    def append(self, X: Array, label: int, identifier: Any, known: Array | None) -> None:
        """One more bag: X (n, D), its label, its id, and known (n,) instance labels or None."""
        self.plan([identifier], np.array([len(X)]), [label])
        self.place(np.arange(self._rows, self._rows + len(X)), X, known)
        if self._bad:
            self._refuse()

    def plan(self, ids: list[Any], sizes: Array, labels: list[int] | None = None) -> None:
        """Further bags, whose rows are to be placed."""
        self.ids += ids
        self._sizes += sizes.tolist()
        self._labels += [UNKNOWN] * len(ids) if labels is None else labels
        self._known += b"\xff" * int(sizes.sum())  # -1 in int8

    def label(self, labels: Array) -> None:
        """Set the labels (B,) of all bags."""
        self._labels = labels.tolist()

    def place(self, rows: Array, X: Array, known: Array | None = None) -> None:
        """Rows X (n, D) at their numbers (n,) in the segment, with known (n,) instance labels or None."""
        if not len(rows):
            return
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows)
            rows, X, known = rows[order], X[order], None if known is None else known[order]
        stored = self._stored(X, rows)
        width = stored.shape[1] * stored.itemsize
        starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):  # runs of rows that follow one another
            self._features.write(stored[start:stop], at=int(rows[start]) * width)
        if known is not None:
            np.frombuffer(self._known, np.int8)[rows] = known
        self._rows += len(rows)

    def complete(self) -> Segment:
        """Put everything on the disk."""
        if self._bad:
            self._refuse()
        if self._rows != len(self._known):
            raise InputError(f"{self._rows} rows were given for {len(self._known)} instances. Give each row once.")
        known = np.frombuffer(self._known, np.int8)
        files = {
            FEATURES: self._features.complete(),
            OFFSETS: self._write(OFFSETS, np.cumsum([0, *self._sizes]).astype(OFFSET_DTYPE).tobytes()),
            LABELS: self._write(LABELS, np.asarray(self._labels, LABEL_DTYPE).tobytes()),
            IDS: self._write(IDS, json.dumps(self.ids).encode()),
        }
        if (known != UNKNOWN).any():
            files[INSTANCE_LABELS] = self._write(INSTANCE_LABELS, bytes(self._known))
        return Segment(self.folder.name, len(self.ids), self._rows, files)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._features.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, data: bytes) -> Digest:
        with HashedFile(self.folder / name) as file:
            file.write(data)
            return file.complete()

    def _stored(self, X: Array, rows: Array) -> Array:
        """(n, D) as it is stored; values that cannot be stored are counted and refused at the end."""
        real = as_real(X, "features")
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(real, dtype=DTYPES[self.dtype])
        finite = np.isfinite(stored)
        if not finite.all():
            n, d = np.argwhere(~finite)[0]
            if not self._bad or rows[n] < self._first[0]:
                self._first = (int(rows[n]), int(d), float(real[n, d]))
            self._bad += int((~finite).sum())
        return stored

    def _refuse(self) -> None:
        row, d, value = self._first
        offsets = np.cumsum([0, *self._sizes])
        b = int(np.searchsorted(offsets, row, side="right")) - 1
        place = f"bag {self.ids[b]}, instance {row - offsets[b]}, feature {d}"
        if np.isfinite(value):
            raise InputError(f"{place} is {value:g}, too large for {self.dtype}. Store the data as float64.")
        raise InputError(f"feature matrix has {self._bad} non-finite values, first at {place}.")
