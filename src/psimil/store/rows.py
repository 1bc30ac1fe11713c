"""The feature rows of several parts as one matrix that stays on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from psimil.foundations.arrays import Array
from psimil.store.digest import BlockCheck


class SegmentedRows:
    """(N, D) rows in several arrays, one after another; what is asked for is read, and nothing else.

    Parameters
    ----------
    parts : (n_i, D) arrays of one dtype, usually on disk.

    Examples
    --------
    >>> rows = SegmentedRows([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    >>> rows.shape, rows[1:].tolist(), rows[[2, 0]].tolist(), np.asarray(rows).tolist()
    ((3, 1), [[2.0], [3.0]], [[3.0], [1.0]], [[1.0], [2.0], [3.0]])
    """

    ndim = 2

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *(len(segment) for segment in parts)])
        self.dtype = self.parts[0].dtype

    def __len__(self) -> int:
        """N."""
        return int(self._starts[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return len(self), int(self.parts[0].shape[1])

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return len(self) * self.shape[1] * self.itemsize

    def astype(self, dtype: Any) -> Array:
        """All rows in memory, in another type."""
        return np.asarray(self, dtype=dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All rows in memory."""
        if copy is False:
            raise ValueError("rows in several parts cannot be one array without a copy.")
        out = np.empty(self.shape, dtype=self.dtype if dtype is None else dtype)
        for segment, start in zip(self.parts, self._starts, strict=False):
            out[start : start + len(segment)] = segment
        return out

    def __getitem__(self, key: Any) -> Array:
        """Rows for a slice, a mask or row numbers, one row for an integer; after a comma, columns."""
        if isinstance(key, tuple):
            rows, *columns = key
            numbers: Array = (
                self[rows][(..., *columns)] if isinstance(rows, (int, np.integer)) else self[rows][:, *columns]
            )
            return numbers
        if isinstance(key, (int, np.integer)):
            row: Array = self._taken(np.array([range(len(self))[int(key)]]))[0]
            return row
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return self._range(start, stop) if step == 1 else self._taken(np.arange(start, stop, step))
        chosen = np.asarray(key)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask of shape {chosen.shape} for {len(self)} rows.")
            return self._taken(np.flatnonzero(chosen))
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise IndexError("rows are chosen by a slice, a mask or a list of row numbers.")
        chosen = np.where(chosen < 0, chosen + len(self), chosen).astype(np.int64)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"a row number is out of range for {len(self)} rows.")
        return self._taken(chosen)

    def _range(self, start: int, stop: int) -> Array:
        pieces = [
            segment[max(0, start - first) : max(0, stop - first)]
            for segment, first in zip(self.parts, self._starts, strict=False)
            if start < first + len(segment) and first < stop
        ]
        if len(pieces) == 1:
            return np.asarray(pieces[0])
        return np.concatenate(pieces) if pieces else np.empty((0, self.shape[1]), self.dtype)

    def _taken(self, rows: Array) -> Array:
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        home = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(home):
            here = home == number
            out[here] = self.parts[number][rows[here] - self._starts[number]]
        return out


class FileRows:
    """(N, D) rows of a file that are read when they are asked for, and not kept, as mapped pages would be.

    Parameters
    ----------
    mapped : the rows as a memory map.
    check : of the blocks of the file; None trusts it.

    Examples
    --------
    >>> np.arange(6.0).tofile("rows")
    >>> FileRows(np.memmap("rows", np.float64, "r", shape=(3, 2)))[1:].tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    """

    ndim = 2

    def __init__(self, mapped: Any, check: BlockCheck | None = None) -> None:
        self._check = check
        self._file, self._offset = str(mapped.filename), mapped.offset
        self.dtype, self.shape = mapped.dtype, (int(mapped.shape[0]), int(mapped.shape[1]))

    def __len__(self) -> int:
        """N."""
        return self.shape[0]

    def __getitem__(self, key: slice) -> Array:
        """Rows of a slice without steps."""
        start, stop, _ = key.indices(len(self))
        row = self.shape[1] * self.dtype.itemsize
        count = max(0, stop - start) * self.shape[1]
        if self._check is not None:
            self._check.before(self._offset + start * row, self._offset + max(start, stop) * row)
        numbers = np.fromfile(self._file, self.dtype, count, offset=self._offset + start * row)
        return numbers.reshape(-1, self.shape[1])
