"""Top-level elements of a DICOM file as raw bytes.

pydicom reads nested sequences by recursion and quotes values in its warnings and its log. Here a header is walked with
a stack, nothing but the wanted elements is kept, and values stay bytes until :mod:`psimil.ct.headers` reads them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from struct import Struct

from psimil.foundations.errors import InputError

MAX_DEPTH = 32
MAX_ELEMENTS = 1 << 19  # of a header; one of 2048 frames has some 10^5
MAX_VALUE = 1 << 12  # bytes of a wanted value; technical values are short
UNDEFINED = 0xFFFFFFFF
IMPLICIT, BIG = "1.2.840.10008.1.2", "1.2.840.10008.1.2.2"
DEFLATED = "1.2.840.10008.1.2.1.99"
META_CLASS, META_SYNTAX = 0x00020002, 0x00020010
ITEM, ITEM_END, SEQUENCE_END = 0xFFFEE000, 0xFFFEE00D, 0xFFFEE0DD
PIXELS = (0x7FE00008, 0x7FE00009, 0x7FE00010)
LONG = frozenset((b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"))

LENGTHS = {order: (Struct(f"{order}H"), Struct(f"{order}L")) for order in "<>"}
FRAGMENT = Struct("<HHL")


class MoreBytes(Exception):
    """The header goes on after the bytes at hand."""


@dataclass(frozen=True)
class Elements:
    r"""Wanted elements of a data set.

    Parameters
    ----------
    values : bytes of each wanted element that is there, by tag.
    little : whether numbers are little-endian.
    pixels : offset and length of the pixel data (length 0xFFFFFFFF when encapsulated); None when there are none.

    Examples
    --------
    >>> Elements({0x00280010: b"\x00\x02"}, True, None)
    Elements(little=True)
    """

    values: dict[int, bytes] = field(repr=False)
    little: bool
    pixels: tuple[int, int] | None = field(repr=False)


def read_meta(data: bytes) -> tuple[dict[int, bytes], int]:
    """Elements of the file meta information, and where the data set begins.

    Examples
    --------
    >>> read_meta(b"not DICOM")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: not a DICOM file (no DICM marker).
    """
    if data[128:132] != b"DICM":
        raise InputError("not a DICOM file (no DICM marker).")
    values: dict[int, bytes] = {}
    place, short = 132, Struct("<HH2sH")
    while data[place : place + 2] == b"\x02\x00":
        if place + 12 > len(data):
            raise MoreBytes
        _, element, vr, length = short.unpack_from(data, place)
        place += 8
        if vr in LONG:
            length = int.from_bytes(data[place : place + 4], "little")
            place += 4
        if 0x00020000 | element in (META_CLASS, META_SYNTAX):
            values[0x00020000 | element] = data[place : place + min(length, MAX_VALUE)]
        place += length
    if place > len(data):
        raise MoreBytes
    return values, place


def read_elements(data: bytes, start: int, syntax: str, wanted: Collection[int]) -> Elements:
    r"""Wanted top-level elements up to the pixel data.

    Parameters
    ----------
    data : the file up to some point.
    start : where the data set begins.
    syntax : UID of the transfer syntax; unknown ones are explicit and little-endian. Empty when the file has none.
    wanted : tags to keep.

    Raises
    ------
    MoreBytes
        When ``data`` ends before the pixel data.
    InputError
        When sequences are nested deeper than 32 levels, or there are more than 2^19 elements.

    Examples
    --------
    >>> rows = bytes.fromhex("2800 1000 5553 0200 4000")
    >>> pixels = bytes.fromhex("e07f 1000 4f57 0000 04000000 01020304")
    >>> found = read_elements(rows + pixels, 0, "1.2.840.10008.1.2.1", {0x00280010})
    >>> found.values, found.pixels
    ({2621456: b'@\x00'}, (22, 4))
    """
    explicit = _is_vr(data[start + 4 : start + 6]) if not syntax else syntax != IMPLICIT
    order = ">" if syntax == BIG else "<"
    tag_struct = Struct(f"{order}HH")
    values: dict[int, bytes] = {}
    levels: list[tuple[int, bool]] = []  # end of each open sequence and whether it is explicit
    place, end = start, len(data)
    for _ in range(MAX_ELEMENTS):
        while levels and place >= levels[-1][0]:
            explicit = levels.pop()[1]
        if place + 12 > end:
            raise MoreBytes
        group, element = tag_struct.unpack_from(data, place)
        tag = group << 16 | element
        if group == 0xFFFE:
            place += 8
            if tag == SEQUENCE_END and levels:
                explicit = levels.pop()[1]
            continue
        vr, length, place = _opened(data, place, explicit, order)
        if tag in PIXELS and not levels:
            return Elements(values, order == "<", (place, length) if tag == PIXELS[2] else None)
        if length == UNDEFINED and vr in (b"OB", b"OW", b"OF"):
            place = _after_fragments(data, place)
        elif length == UNDEFINED or vr == b"SQ":
            if len(levels) == MAX_DEPTH:
                raise InputError(f"header nested deeper than {MAX_DEPTH} levels.")
            levels.append((UNDEFINED << 32 if length == UNDEFINED else place + length, explicit))
            explicit = explicit and vr != b"UN"
        else:
            if not levels and tag in wanted and length <= MAX_VALUE:
                values[tag] = data[place : place + length]
            place += length
    raise InputError(f"header has more than {MAX_ELEMENTS} elements.")


def _opened(data: bytes, place: int, explicit: bool, order: str) -> tuple[bytes, int, int]:
    """Value representation (empty when implicit), length, and place of the value of an element."""
    vr, (short, long) = data[place + 4 : place + 6], LENGTHS[order]
    if not explicit or not _is_vr(vr):
        return b"", long.unpack_from(data, place + 4)[0], place + 8
    if vr in LONG:
        return vr, long.unpack_from(data, place + 8)[0], place + 12
    return vr, short.unpack_from(data, place + 6)[0], place + 8


def _is_vr(code: bytes) -> bool:
    """Whether two bytes are capital letters; some writers switch to implicit elements inside an explicit file."""
    return code.isalpha() and code.isupper()


def _after_fragments(data: bytes, place: int) -> int:
    """Where an element of encapsulated fragments ends, e.g. the picture in an icon; these are little-endian."""
    while place + 8 <= len(data):
        group, element, length = FRAGMENT.unpack_from(data, place)
        place += 8
        if (group << 16 | element) != ITEM:
            return place
        place += length
    raise MoreBytes
