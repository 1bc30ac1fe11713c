"""Pixels of one image: its bytes in the file, uncompressed or as fragments of a codec, and its Hounsfield units."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.dicom.elements import BIG, DEFLATED, IMPLICIT, ITEM, ITEM_HEADER, UNDEFINED, read_meta
from psimil.ct.dicom.folder import LIMITS, Limits, open_file
from psimil.ct.dicom.headers import Header, inflated
from psimil.ct.dicom.sandbox import Sandbox
from psimil.foundations.errors import InputError

LOWEST_HU, HIGHEST_HU = -1024, 3071
NATIVE = frozenset(("", IMPLICIT, "1.2.840.10008.1.2.1", BIG, DEFLATED))
MAX_FRAGMENTS = 1 << 18
MODALITIES = frozenset("CR CT DX ES IO KO MG MR NM OT PR PT PX RF RTDOSE RTPLAN RTSTRUCT SC SEG SR US XA XC".split())
LIKE_AIR = -500  # padding above is worth a note: it may be tissue
INT16 = np.iinfo(np.int16)


def readable(headers: Iterable[Header], modalities: Collection[str]) -> tuple[list[Header], list[str]]:
    """Headers whose images can be turned to Hounsfield units, and a line for each of the others.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.dicom.folder import SliceFile
    >>> good, (line,) = readable([Header(SliceFile(Path("a"), 1, 9), modality="MR")], ["CT"])
    >>> line.partition(": ")[2]
    'modality is MR, expected CT (--allow-modality). In Python, name it in modalities.'
    """
    good, refused = [], []
    for header in headers:
        try:
            _check_image(header, modalities)
            good.append(header)
        except InputError as error:
            refused.append(f"{header.words}: {error}")
    return good, refused


def _check_image(header: Header, modalities: Collection[str]) -> None:
    """Refuse an image that cannot be turned to Hounsfield units; the message does not name the slice yet."""
    if header.modality not in modalities:
        shown = f"is {header.modality}" if header.modality in MODALITIES else "is another or missing"
        wanted = f"{' or '.join(sorted(modalities))} (--allow-modality)"
        raise InputError(f"modality {shown}, expected {wanted}. In Python, name it in modalities.")
    if header.samples != 1 or header.photometric not in ("", "MONOCHROME1", "MONOCHROME2"):
        raise InputError("colour image, expected Hounsfield units in one channel.")
    if header.bits_allocated not in (8, 16) or not 0 < header.bits_stored <= header.bits_allocated:
        bits = f"{header.bits_stored} of {header.bits_allocated} bits per pixel are used"
        raise InputError(f"{bits}, expected 8 or 16 bits per pixel.")
    for name, value in (("RescaleSlope", header.slope), ("RescaleIntercept", header.intercept)):
        if value is None or not math.isfinite(value) or (name == "RescaleSlope" and value == 0):
            shown = "missing" if value is None else f"{value:g}"
            raise InputError(f"{name} is {shown}; cannot convert to Hounsfield units.")
    if header.spacing is not None and min(header.spacing) <= 0:
        raise InputError("PixelSpacing is not above 0 mm.")
    if header.syntax in NATIVE:
        _check_length(header)


def _check_length(header: Header) -> None:
    if header.pixel_length == UNDEFINED:
        raise InputError("pixel data has no length although it is not compressed.")
    room = header.pixel_length if header.syntax == DEFLATED else header.file.size - header.pixel_place
    expected, present = header.frame_bytes * header.frames, min(header.pixel_length, room)
    if present < expected:
        raise InputError(f"pixel data has {max(present, 0)} of {expected} bytes.")


def read_stored(header: Header, room: NDArray[np.int16], sandbox: Sandbox, limits: Limits = LIMITS) -> NDArray[Any]:
    """(rows, columns) stored values of an image.

    Parameters
    ----------
    header : that is :func:`readable`.
    room : (rows, columns) where uncompressed values of 16 bits are put.
    sandbox : decodes compressed images.
    limits : for deflated files.

    Raises
    ------
    InputError
        When the file has fewer bytes, or they are damaged.
    """
    if header.syntax not in NATIVE:
        return sandbox.decode(header, _encapsulated(header))
    kind = "i" if header.signed else "u"
    if header.bits_allocated == 8:
        small = np.empty(room.shape, f"{kind}1")
        _read_native(header, small.data.cast("B"), limits)
        return small
    stored = room.view(f"{kind}2")
    _read_native(header, stored.data.cast("B"), limits)
    return stored if header.little == np.little_endian else stored.byteswap(inplace=True)


def _read_native(header: Header, out: memoryview, limits: Limits) -> None:
    """Fill a buffer of ``header.frame_bytes`` bytes with an uncompressed image."""
    place = header.pixel_place + header.frame_bytes * ((header.frame or 1) - 1)
    descriptor = open_file(header.file.path)
    try:
        if header.syntax == DEFLATED:
            packed = os.pread(descriptor, limits.file_bytes, 0)
            content = inflated(packed, read_meta(packed)[1], limits)[place : place + len(out)]
            n = len(content)
            out[:n] = content
        else:
            n = _read_into(descriptor, out, place)
    finally:
        os.close(descriptor)
    if n < len(out):
        raise InputError(f"pixel data has {n} of {len(out)} bytes.")


def _encapsulated(header: Header) -> bytes:
    """Compressed bytes of an image, its fragments joined."""
    descriptor = open_file(header.file.path)
    try:
        (table_place, table_length), *fragments = _fragments(descriptor, header)
        if header.frames > 1:
            table = os.pread(descriptor, table_length, table_place)
            fragments = _of_frame(fragments, table, table_place + table_length, header)
        content = b"".join(os.pread(descriptor, length, place) for place, length in fragments)
    finally:
        os.close(descriptor)
    if len(content) < sum(length for _, length in fragments) or not content:
        raise InputError("compressed pixel data is cut short.")
    return content


def _read_into(descriptor: int, out: memoryview, place: int) -> int:
    """Bytes that could be read."""
    done = 0
    while done < len(out) and (n := os.preadv(descriptor, [out[done:]], place + done)):
        done += n
    return done


def _fragments(descriptor: int, header: Header) -> list[tuple[int, int]]:
    """Place and length of the offset table and of every fragment."""
    if header.pixel_length != UNDEFINED:
        raise InputError("compressed pixel data is not encapsulated.")
    fragments: list[tuple[int, int]] = []
    place = header.pixel_place
    try:
        while True:
            group, element, length = ITEM_HEADER.unpack(os.pread(descriptor, 8, place))
            if (group << 16 | element) != ITEM:
                break
            if len(fragments) == MAX_FRAGMENTS:
                raise InputError(f"compressed pixel data has more than {MAX_FRAGMENTS} fragments.")
            fragments.append((place + 8, length))
            place += 8 + length
    except struct.error:
        raise InputError("compressed pixel data is cut short.") from None
    if len(fragments) < 2:
        raise InputError("compressed pixel data has no fragment.")
    return fragments


def _of_frame(fragments: list[tuple[int, int]], table: bytes, first: int, header: Header) -> list[tuple[int, int]]:
    """Fragments of one frame, by the offset table or one fragment per frame."""
    index = (header.frame or 1) - 1
    if len(fragments) == header.frames:
        return [fragments[index]]
    starts = [first + int.from_bytes(table[i : i + 4], "little") for i in range(0, len(table), 4)]
    if len(starts) != header.frames:
        raise InputError("compressed frames cannot be told apart; write the file with an offset table.")
    end = starts[index + 1] if index + 1 < header.frames else UNDEFINED << 32
    return [(place, length) for place, length in fragments if starts[index] <= place - 8 < end]


def to_hu(stored: NDArray[Any], header: Header, out: NDArray[np.int16]) -> tuple[str, ...]:
    """Turn stored values to Hounsfield units in [-1024, 3071]; padding becomes -1024.

    Parameters
    ----------
    stored : (rows, columns) whole numbers; they may be overwritten, and may share their memory with ``out``.
    header : that is :func:`readable`.
    out : (rows, columns) result.

    Returns
    -------
    notes : what was mended.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.dicom.folder import SliceFile
    >>> header = Header(SliceFile(Path("a"), 1, 9), slope=1.0, intercept=-1024.0, padding=-2000, signed=True)
    >>> out = np.empty((1, 3), np.int16)
    >>> to_hu(np.array([[-2000, 1054, 9000]], np.int16), header, out), out.tolist()
    ((), [[-1024, 30, 3071]])
    """
    slope, intercept = header.slope, header.intercept
    assert slope is not None and intercept is not None  # it is readable
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
