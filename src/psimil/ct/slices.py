"""A scan after windowing: small images of its slices, and what tables, figures and reports say about them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.scan import Scan, Source
from psimil.ct.windows import Window, apply_windows
from psimil.foundations.errors import InputError


@dataclass(frozen=True, eq=False)
class Slices:
    """The slices of one scan as the network sees them, C windows of size x size pixels, one byte each.

    Parameters
    ----------
    id : opaque, unless real ids were asked for.
    images : (S, C, size, size) in 0..255.
    windows : the C windows.
    positions : (S,) millimetres along the normal, ascending.
    sources, study_uid, series_uid : for the report only.
    thickness : of a slice in millimetres, when known.
    notes : what was mended or is odd.
    burned_in : whether the pixels may show text about the patient.

    Examples
    --------
    >>> from psimil.ct.windows import WINDOWS
    >>> scan = Scan("a1", np.full((2, 4, 4), 40, np.int16), np.array([0.0, 5.0]), (0.5, 0.5))
    >>> slices = Slices.of(scan, WINDOWS, 1)
    >>> slices, slices.images[0].ravel().tolist()
    (Slices('a1', 2 slices), [128, 76, 128])
    """

    id: Any
    images: NDArray[np.uint8]
    windows: tuple[Window, ...]
    positions: NDArray[np.float64]
    sources: tuple[Source, ...] = field(default=(), repr=False)
    study_uid: str = field(default="", repr=False)
    series_uid: str = field(default="", repr=False)
    thickness: float | None = None
    notes: tuple[str, ...] = ()
    burned_in: bool = False

    @classmethod
    def of(cls, scan: Scan, windows: Sequence[Window], size: int) -> Slices:
        """The windowed slices of a scan."""
        return cls(
            scan.id,
            slice_images(scan.hu, windows, size),
            tuple(windows),
            scan.positions,
            scan.sources,
            scan.study_uid,
            scan.series_uid,
            scan.thickness,
            scan.notes,
            scan.burned_in,
        )

    @property
    def size(self) -> int:
        """Pixels along a side."""
        return int(self.images.shape[-1])

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"Slices({self.id!r}, {len(self)} slices)"


def slice_images(hu: NDArray[Any], windows: Sequence[Window], size: int) -> NDArray[np.uint8]:
    """(S, C, size, size) windowed slices in 0..255.

    Examples
    --------
    >>> from psimil.ct.windows import WINDOWS
    >>> slice_images(np.full((1, 4, 4), 40, dtype=np.int16), WINDOWS, 1).ravel().tolist()
    [128, 76, 128]
    """
    images = apply_windows(hu, windows, size=size)
    images *= 255
    return np.rint(images, out=images).astype(np.uint8)


def check_scans(scans: Any, kinds: str = "scans") -> Iterable[Any]:
    """The scans; refused are one scan, one path, or nothing in place of a sequence of scans.

    Examples
    --------
    >>> check_scans("scans/0042", "scans or folders")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: scans must be a sequence of scans or folders, got str. Write [folder] for one.
    """
    path = isinstance(scans, (str, bytes, os.PathLike))
    if path or not (isinstance(scans, Iterable) or hasattr(scans, "__getitem__")):
        one = "folder" if path else "scan"
        raise InputError(f"scans must be a sequence of {kinds}, got {type(scans).__name__}. Write [{one}] for one.")
    found: Iterable[Any] = scans
    return found


def places(scans: Sequence[Any]) -> NDArray[np.float64]:
    """(N,) positions of the slices of all scans, in millimetres where they are known to ascend, by number elsewhere.

    Examples
    --------
    >>> places([np.zeros((2, 4, 4)), np.zeros((1, 4, 4))])
    array([0., 1., 0.])
    """
    known = (scan.positions if isinstance(scan, Scan | Slices) else np.arange(len(scan)) for scan in scans)
    return np.concatenate([np.arange(len(one)) if (np.diff(one) < 0).any() else one for one in known], dtype=float)
