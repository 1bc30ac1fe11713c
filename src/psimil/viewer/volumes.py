"""Scans in Hounsfield units, read from their DICOM files when a slice of them is asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    from psimil.ct.dicom.headers import Header
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
    >>> Volumes({}, lambda series: None).header("a1") is None
    True
    """

    def __init__(
        self, series: Mapping[str, Series], read: Callable[[Series], Scan], max_bytes: int = MAX_BYTES
    ) -> None:
        self._series, self._read, self._max_bytes = series, read, max_bytes
        self._scans: OrderedDict[str, Scan | None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of series."""
        return len(self._series)

    @property
    def nbytes(self) -> int:
        """Bytes of the scans in memory."""
        return sum(scan.hu.nbytes for scan in self._scans.values() if scan is not None)

    def header(self, series: str) -> Header | None:
        """Header of the slices of a series, which share size and orientation, or None when the folder has none."""
        slices = self._series[series].slices if series in self._series else ()
        return slices[0] if slices else None

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
        hu: NDArray[np.int16] = scan.hu[number]
        return hu

    def _scan(self, series: str) -> Scan | None:
        with self._lock:  # one scan is read at a time: many at once would not fit in memory
            if series in self._scans:
                self._scans.move_to_end(series)
                return self._scans[series]
            self._make_room(series)
            try:
                self._scans[series] = self._read(self._series[series])
            except (InputError, OSError, KeyError):
                self._scans[series] = None
            return self._scans[series]

    def _make_room(self, series: str) -> None:
        header = self.header(series)
        wanted = 0 if header is None else 2 * self._series[series].n_slices * header.rows * header.columns
        while self._scans and self.nbytes + wanted > self._max_bytes:
            self._scans.popitem(last=False)


def spacing_of(header: Header | None) -> tuple[float, float] | None:
    """Millimetres between rows and between columns of a slice; None where its file does not say or cannot be right."""
    spacing = None if header is None else header.spacing
    if spacing is None or min(spacing) <= 0 or max(spacing) >= FARTHEST:
        return None
    return spacing[0], spacing[1]


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
    from psimil.ct.scans.index import index_folder
    from psimil.ct.scans.series import read_series

    index = index_folder(directory, hasher=hasher, modalities=rules.modalities, limits=rules.limits)
    ids = set(wanted)
    series = [part for study in index.studies for part in study.series if part.usable and part.id in ids]
    read = partial(read_series, skip_bad=True, modalities=rules.modalities, limits=rules.limits)
    return Volumes({part.id: replace(part, problems=(), notes=()) for part in series}, read)
