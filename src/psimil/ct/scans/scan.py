"""A head CT series in memory: its slices in Hounsfield units, and the small windowed images of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.scans.windows import BLOOD, Window, apply_windows
from psimil.foundations.errors import InputError

BUDGET = 2**29  # bytes of all thumbnails; large cohorts get smaller ones
GREY = Window("grey", 127.5, 255)  # shades 0 to 255 as they are


@dataclass(frozen=True)
class Source:
    """What a DICOM report needs to refer to a slice; never shown to people.

    Parameters
    ----------
    sop_class_uid, sop_instance_uid : of the file.
    frame : number of the frame in a multi-frame file, from 1; None for a file with one image.

    Examples
    --------
    >>> Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3", None)
    Source(frame=None)
    """

    sop_class_uid: str = field(repr=False)
    sop_instance_uid: str = field(repr=False)
    frame: int | None


@dataclass(frozen=True, eq=False)
class Scan:
    """One CT series of S slices, ascending along the slice normal: from the feet to the head when axial.

    Parameters
    ----------
    id : opaque, unless real ids were asked for.
    hu : (S, rows, columns) Hounsfield units in [-1024, 3071].
    positions : (S,) millimetres along the normal, ascending.
    spacing : millimetres between rows and between columns.
    sources : (S,) files of the slices; empty for NIfTI.
    study_uid, series_uid : for the report only.
    thickness : of a slice in millimetres, when known.
    burned_in : whether a file says that its pixels show text about the patient.
    orientation : (6,) cosines of rows and columns in the patient's coordinates; None when unknown.
    notes : what was mended or is odd, one line each. Files are named by their place in the folder.
    region : body part, as :func:`psimil.ct.scans.purpose.region_of` names it; empty when unknown.

    Raises
    ------
    InputError
        When the shapes do not fit together.

    Examples
    --------
    >>> Scan("a1", np.zeros((2, 4, 4), np.int16), np.array([0.0, 5.0]), (0.5, 0.5))
    Scan('a1', 2 slices of 4 x 4)
    """

    id: str
    hu: NDArray[np.int16]
    positions: NDArray[np.float64]
    spacing: tuple[float, float]
    sources: tuple[Source, ...] = ()
    study_uid: str = ""
    series_uid: str = ""
    thickness: float | None = None
    notes: tuple[str, ...] = ()
    burned_in: bool = False
    orientation: tuple[float, ...] | None = None
    region: str = ""

    def __post_init__(self) -> None:
        for name, value in (("hu", self.hu), ("positions", self.positions)):
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
                raise InputError(f"{name} must be an array of numbers, got {type(value).__name__}. Use np.asarray.")
        if self.hu.ndim != 3 or 0 in self.hu.shape:
            raise InputError(
                f"hu has shape {self.hu.shape}, expected (slices, rows, columns) with at least one of each."
            )
        if self.positions.shape != (len(self.hu),):
            raise InputError(
                f"positions have shape {self.positions.shape}, expected ({len(self.hu)},), one for each slice."
            )
        spacing = self.spacing if isinstance(self.spacing, (tuple, list, np.ndarray)) else ()
        if len(spacing) != 2 or not all(isinstance(mm, Real) and 0 < mm < np.inf for mm in spacing):
            raise InputError(
                f"spacing must be two numbers > 0, millimetres between rows and columns, got {self.spacing!r}."
            )
        if len(self.sources) not in (0, len(self.hu)):
            raise InputError(f"there are {len(self.sources)} sources for {len(self.hu)} slices; give one each or none.")

    def __len__(self) -> int:
        return len(self.hu)

    def __repr__(self) -> str:
        return f"Scan({self.id!r}, {len(self.hu)} slices of {self.hu.shape[1]} x {self.hu.shape[2]})"


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
    orientation : (6,) cosines of rows and columns in the patient's coordinates; None when unknown.
    region : body part, empty when unknown.

    Examples
    --------
    >>> from psimil.ct.scans.windows import WINDOWS
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
    orientation: tuple[float, ...] | None = None
    region: str = ""

    @classmethod
    def of(cls, scan: Scan, windows: Sequence[Window], size: int) -> Slices:
        """The windowed slices of a scan."""
        known = {f.name: getattr(scan, f.name) for f in fields(cls) if hasattr(scan, f.name)}
        return cls(images=slice_images(scan.hu, windows, size), windows=tuple(windows), **known)

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
    >>> from psimil.ct.scans.windows import WINDOWS
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
    sequence: Iterable[Any] = scans
    return sequence


def places(scans: Sequence[Any]) -> NDArray[np.float64]:
    """(N,) positions of the slices of all scans, in millimetres where they are known to ascend, by number elsewhere.

    Examples
    --------
    >>> places([np.zeros((2, 4, 4)), np.zeros((1, 4, 4))])
    array([0., 1., 0.])
    """
    known = (scan.positions if isinstance(scan, Scan | Slices) else np.arange(len(scan)) for scan in scans)
    return np.concatenate([np.arange(len(one)) if (np.diff(one) < 0).any() else one for one in known], dtype=float)


def thumbnails(slices: Sequence[Slices], side: int = 96) -> NDArray[np.uint8]:
    """(N, h, h) thumbnails of all slices in the blood window, or in the first one where there is no such window.

    Parameters
    ----------
    slices : scans of one size, N slices in all.
    side : pixels along a side at most; slices that are smaller stay as they are.

    Examples
    --------
    >>> from psimil.ct.scans.windows import WINDOWS
    >>> scan = Scan("a1", np.full((2, 4, 4), 80, np.int16), np.array([0.0, 5.0]), (0.5, 0.5))
    >>> thumbnails([Slices.of(scan, WINDOWS, 4)], side=2)[0].tolist()
    [[128, 128], [128, 128]]
    """
    side = min(side, max(1, math.isqrt(BUDGET // sum(map(len, slices)))))
    pictures = []
    for scan in slices:
        names = [window.name for window in scan.windows]
        channel = scan.images[:, names.index(BLOOD.name) if BLOOD.name in names else 0]
        pictures.append(channel if scan.size <= side else slice_images(channel.astype(np.int16), [GREY], side)[:, 0])
    return np.concatenate(pictures)
