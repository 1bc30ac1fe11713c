"""A head CT series in memory: Hounsfield units of its slices, in order along the slice normal."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

LOWEST_HU, HIGHEST_HU = -1024, 3071


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
    notes : what was mended or is odd, one line each. Slices are named by the place of their file in its folder.

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
