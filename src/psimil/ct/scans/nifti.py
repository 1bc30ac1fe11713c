"""Head CT in NIfTI files, as an option."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from psimil.ct.dicom.limits import LIMITS, Limits
from psimil.ct.dicom.pixels import HIGHEST_HU, LOWEST_HU
from psimil.ct.scans.identity import Hasher
from psimil.ct.scans.scan import Scan
from psimil.foundations.errors import InputError
from psimil.foundations.extras import install_command


def read_nifti(path: str | Path, *, hasher: Callable[[str], str] | None = None, limits: Limits = LIMITS) -> Scan:
    """Hounsfield units of a NIfTI file, its axial slices from the feet to the head.

    Rows run to the back of the head and columns to the left of the patient, as in DICOM.

    Parameters
    ----------
    path : the file, ``.nii`` or ``.nii.gz``.
    hasher : turns the name of the file to an id; None takes the keyed hash of this user.
    limits : sizes above which it is refused.

    Raises
    ------
    InputError
        When it cannot be read, is no volume, or is above a limit.

    Examples
    --------
    >>> read_nifti("/dev/null")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the NIfTI file is not a regular file.
    """
    path = Path(os.path.realpath(path))
    if not path.exists() or not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError("the NIfTI file is not a regular file.")
    try:
        import nibabel

        canonical: Any = nibabel.as_closest_canonical
    except ImportError:
        raise InputError(f"reading NIfTI needs nibabel. Install it with: {install_command('nifti')}") from None
    try:
        image: Any = nibabel.load(path)
        _check(image.shape, path.stat().st_size, limits)
        image = canonical(image.slicer[..., 0] if len(image.shape) == 4 else image)
        values = np.asarray(image.dataobj, dtype=np.float32)
    except InputError:
        raise
    except Exception:  # nibabel raises many kinds on damaged files, and quotes their names
        raise InputError("the NIfTI file is damaged or cut short.") from None
    hasher = hasher or Hasher.of_user()
    # Axes go right, anterior and superior; DICOM columns go left and rows go posterior.
    values = np.nan_to_num(values, nan=LOWEST_HU, posinf=HIGHEST_HU, neginf=LOWEST_HU)
    hu = np.rint(np.clip(values, LOWEST_HU, HIGHEST_HU)).astype(np.int16)[::-1, ::-1].transpose(2, 1, 0)
    width, height, step = (float(x) for x in image.header.get_zooms()[:3])
    positions = float(image.affine[2, 3]) + step * np.arange(len(hu), dtype=np.float64)
    return Scan(hasher(path.name), np.ascontiguousarray(hu), positions, (height, width), thickness=step)


def _check(shape: tuple[int, ...], size: int, limits: Limits) -> None:
    if len(shape) not in (3, 4) or min(shape) < 1 or (len(shape) == 4 and shape[3] != 1):
        raise InputError(f"the NIfTI file has shape {shape}, expected one volume.")
    voxels = int(np.prod([int(n) for n in shape], dtype=object))
    if max(shape) > limits.side or 4 * voxels > limits.scan_bytes or size > limits.scan_bytes:
        raise InputError(f"the NIfTI file of shape {shape} is above the limit of {limits.scan_bytes >> 20} MB.")
