"""Scans in Hounsfield units, read from their DICOM files when a slice of them is asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    from psimil.ct.scans.cohort import ReadingRules
    from psimil.ct.scans.scan import Scan
    from psimil.ct.scans.study import Series

MAX_BYTES = 256 << 20
FARTHEST = 100.0  # millimetres between pixels above which PixelSpacing is a mistake
TOLERANCE = 0.01  # millimetres by which a slice may have moved since the prediction


class Volumes:
    """The scans of a folder, at most ``max_bytes`` of them in memory; the one in use always is.

    Parameters
    ----------
    series : what can be read, by id.
    read : turns a series to a scan.
    max_bytes : that are kept.

    Examples
    --------
    >>> Volumes({}, lambda series: None).shape("a1") is None
    True
    """

    def __init__(
        self, series: Mapping[str, Series], read: Callable[[Series], Scan], max_bytes: int = MAX_BYTES
    ) -> None:
        self._series, self._read, self._max_bytes = series, read, max_bytes
        self._kept: OrderedDict[str, Scan | None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of series."""
        return len(self._series)

    @property
    def nbytes(self) -> int:
        """Bytes of the scans in memory."""
        return sum(_size(scan) for scan in self._kept.values())

    def shape(self, series: str) -> tuple[int, int] | None:
        """Rows and columns of the slices of a series, or None when the folder does not have it."""
        found = self._series.get(series)
        return None if found is None or not found.slices else (found.slices[0].rows, found.slices[0].columns)

    def orientation(self, series: str) -> tuple[float, ...] | None:
        """(6,) ImageOrientationPatient of a series, whose slices share it; None where the files do not say."""
        return None if self.shape(series) is None else self._series[series].slices[0].orientation

    def spacing(self, series: str) -> tuple[float, float] | None:
        """Millimetres between rows and between columns of a series; None where the files do not say."""
        found = None if self.shape(series) is None else self._series[series].slices[0].spacing
        return (found[0], found[1]) if found is not None and 0 < min(found) and max(found) < FARTHEST else None

    def slice(self, series: str, positions: NDArray[Any], number: int) -> NDArray[np.int16] | None:
        """One slice, or None when the files are not those of the prediction any more.

        Parameters
        ----------
        series : id.
        positions : (S,) of the slices that were predicted, millimetres.
        number : of the slice among them.

        Returns
        -------
        hu : (rows, columns) Hounsfield units.
        """
        scan = self._scan(series)
        if scan is None or len(scan) != len(positions) or not np.allclose(scan.positions, positions, 0, TOLERANCE):
            return None
        found: NDArray[np.int16] = scan.hu[number]
        return found

    def _scan(self, series: str) -> Scan | None:
        with self._lock:  # one scan is read at a time: many at once would not fit in memory
            if series in self._kept:
                self._kept.move_to_end(series)
                return self._kept[series]
            self._make_room(series)
            try:
                self._kept[series] = self._read(self._series[series])
            except (InputError, OSError, KeyError):
                self._kept[series] = None
            return self._kept[series]

    def _make_room(self, series: str) -> None:
        found = self._series.get(series)
        shape = self.shape(series) or (0, 0)
        wanted = 0 if found is None else 2 * found.n_slices * shape[0] * shape[1]
        while self._kept and self.nbytes + wanted > self._max_bytes:
            self._kept.popitem(last=False)


def _size(scan: Scan | None) -> int:
    return 0 if scan is None else scan.hu.nbytes


def volumes_of(directory: Path, wanted: Sequence[str], rules: ReadingRules, hasher: Callable[[str], str]) -> Volumes:
    """The series of a DICOM folder that a prediction is about.

    Parameters
    ----------
    directory : with the files, in sub-folders or not.
    wanted : ids of the series.
    rules : what is accepted.
    hasher : turns UIDs to ids, as for the prediction.

    Raises
    ------
    InputError
        When the folder is not there.
    """
    from dataclasses import replace

    from psimil.ct.scans.index import index_folder
    from psimil.ct.scans.series import read_series

    index = index_folder(directory, hasher=hasher, modalities=rules.modalities, limits=rules.limits)
    found = {part.id: part for study in index.studies for part in study.series if part.usable}
    kept = {name: replace(found[name], problems=(), notes=()) for name in wanted if name in found}

    def read(series: Series) -> Scan:
        return read_series(series, skip_bad=True, modalities=rules.modalities, limits=rules.limits)

    return Volumes(kept, read)
