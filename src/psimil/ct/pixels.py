"""Hounsfield units of one image from its stored values."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.elements import DEFLATED, UNDEFINED
from psimil.ct.headers import Header
from psimil.ct.payload import NATIVE
from psimil.ct.scan import HIGHEST_HU, LOWEST_HU
from psimil.foundations.errors import InputError

MODALITIES = frozenset("CR CT DX ES IO KO MG MR NM OT PR PT PX RF RTDOSE RTPLAN RTSTRUCT SC SEG SR US XA XC".split())
LIKE_AIR = -500  # padding above is worth a note: it may be tissue
INT16 = np.iinfo(np.int16)


def check_image(header: Header, modalities: Collection[str] = ("CT",)) -> None:
    """Refuse an image that cannot be turned to Hounsfield units; only its header is looked at.

    Parameters
    ----------
    header : of the image.
    modalities : that are accepted.

    Raises
    ------
    InputError
        With the reason; the message does not name the slice yet.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.folder import SliceFile
    >>> check_image(Header(SliceFile(Path("a"), 1, 9), modality="MR"))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: modality is MR, expected CT (--allow-modality). In Python, ...
    """
    if header.modality not in modalities:
        found = f"is {header.modality}" if header.modality in MODALITIES else "is another or missing"
        wanted = f"{' or '.join(sorted(modalities))} (--allow-modality)"
        raise InputError(f"modality {found}, expected {wanted}. In Python, name it in modalities.")
    if header.samples != 1 or header.photometric not in ("", "MONOCHROME1", "MONOCHROME2"):
        raise InputError("colour image, expected Hounsfield units in one channel.")
    if header.bits_allocated not in (8, 16) or not 0 < header.bits_stored <= header.bits_allocated:
        bits = f"{header.bits_stored} of {header.bits_allocated} bits per pixel are used"
        raise InputError(f"{bits}, expected 8 or 16 bits per pixel.")
    for name, value in (("RescaleSlope", header.slope), ("RescaleIntercept", header.intercept)):
        if value is None or not math.isfinite(value) or (name == "RescaleSlope" and value == 0):
            shown = "missing" if value is None else f"{value:g}"
            raise InputError(f"{name} is {shown}; cannot convert to Hounsfield units.")
    if header.syntax in NATIVE:
        _check_length(header)


def _check_length(header: Header) -> None:
    if header.pixel_length == UNDEFINED:
        raise InputError("pixel data has no length although it is not compressed.")
    room = header.pixel_length if header.syntax == DEFLATED else header.file.size - header.pixel_place
    expected, found = header.frame_bytes * header.frames, min(header.pixel_length, room)
    if found < expected:
        raise InputError(f"pixel data has {max(found, 0)} of {expected} bytes.")


def to_hu(stored: NDArray[Any], header: Header, out: NDArray[np.int16]) -> tuple[str, ...]:
    """Turn stored values to Hounsfield units in [-1024, 3071]; padding becomes -1024.

    Parameters
    ----------
    stored : (rows, columns) whole numbers; they may be overwritten, and may share their memory with ``out``.
    header : whose image passed :func:`check_image`.
    out : (rows, columns) result.

    Returns
    -------
    notes : what was mended.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.folder import SliceFile
    >>> header = Header(SliceFile(Path("a"), 1, 9), slope=1.0, intercept=-1024.0, padding=-2000, signed=True)
    >>> out = np.empty((1, 3), np.int16)
    >>> to_hu(np.array([[-2000, 1054, 9000]], np.int16), header, out), out.tolist()
    ((), [[-1024, 30, 3071]])
    """
    slope, intercept = header.slope, header.intercept
    assert slope is not None and intercept is not None  # check_image saw to that
    notes: list[str] = []
    padded = _padded(stored, header)
    if header.photometric == "MONOCHROME1":
        top = -1 if header.signed else 2**header.bits_stored - 1
        stored = top - stored.astype(np.int32)
        notes.append("MONOCHROME1 inverted")
    if not header.signed and header.bits_stored == 12 and slope == 1 and intercept > -100:
        wrapped = stored >= 3096  # 12-bit values that ran over: 4096 - 1000 and above are negative
        if wrapped.any():
            stored = np.where(wrapped, stored.astype(np.int32) - 4096, stored)
            intercept = 0.0
            notes.append("wrapped 12-bit values mended")
    _rescale(stored, slope, intercept, out)
    if padded is not None:
        if (bright := int(out[padded].max())) > LIKE_AIR:
            notes.append(f"padding of {bright} HU made air")
        out[padded] = LOWEST_HU
    return tuple(notes)


def _padded(stored: NDArray[Any], header: Header) -> NDArray[np.bool_] | None:
    """Pixels outside the scanned field; None when clipping sends them to -1024 anyway."""
    if header.padding is None:
        return None
    assert header.slope is not None and header.intercept is not None
    ends = (header.padding, header.padding if header.padding_limit is None else header.padding_limit)
    if header.photometric != "MONOCHROME1" and max(end * header.slope + header.intercept for end in ends) <= LOWEST_HU:
        return None
    padded: NDArray[np.bool_] = (stored >= min(ends)) & (stored <= max(ends))
    return padded if padded.any() else None


def _rescale(stored: NDArray[Any], slope: float, intercept: float, out: NDArray[np.int16]) -> None:
    """Write ``slope * stored + intercept``, clipped; in 16-bit integers when the numbers allow it."""
    simple = slope == 1 and intercept == int(intercept) and abs(intercept) <= INT16.max
    if simple and stored.dtype in (np.int16, np.uint16):
        range_ = np.iinfo(stored.dtype)
        low, high = LOWEST_HU - int(intercept), HIGHEST_HU - int(intercept)
        if low <= range_.max and high >= range_.min:
            np.clip(stored, max(low, range_.min), min(high, range_.max), out=stored)
            np.add(stored.view(np.int16), np.int16(intercept), out=out)  # modulo 2^16; the sum is in the range
            return
    out[...] = np.clip(np.rint(stored * np.float64(slope) + intercept), LOWEST_HU, HIGHEST_HU)
