"""Elements of a DICOM header as raw bytes, and their values as text and numbers.

pydicom takes eight times as long for a header, reads nested sequences by recursion, and quotes values in its warnings
and its log. Here a header is walked with a stack, nothing but the wanted elements is kept, and what cannot be read
counts as absent.
"""

from __future__ import annotations

import math
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
ITEM, SEQUENCE_END = 0xFFFEE000, 0xFFFEE0DD
PIXELS = (0x7FE00008, 0x7FE00009, 0x7FE00010)
LONG = frozenset((b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"))
TEXT_INTEGERS = frozenset((0x00200013, 0x00280008))  # InstanceNumber, NumberOfFrames: IS, all others are binary
SHARED, PER_FRAME = 0x52009229, 0x52009230  # functional groups of all frames and of each
GROUPED = {
    0x00200032: 0x00209113, 0x00200037: 0x00209116,  # position and orientation of the plane
    0x00280030: 0x00289110, 0x00180050: 0x00289110,  # pixel spacing and slice thickness
    0x00281053: 0x00289145, 0x00281052: 0x00289145,  # rescale slope and intercept
}  # fmt: skip
SEQUENCES = frozenset((SHARED, PER_FRAME, *GROUPED.values()))  # known as such where the file does not say it

LENGTHS = {order: (Struct(f"{order}H"), Struct(f"{order}L")) for order in "<>"}
ITEM_HEADER = Struct("<HHL")


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
    shared, frames : those of the functional groups of a multi-frame file.

    Examples
    --------
    >>> values = {0x00280010: b"\x00\x02", 0x00280008: b"35", 0x00280030: b"0.5\\0.25", 0x00080060: b"CT \0"}
    >>> elements = Elements(values)
    >>> elements.whole(0x00280010), elements.whole(0x00280008), elements.numbers(0x00280030, 2)
    (512, 35, (0.5, 0.25))
    >>> elements.text(0x00080060), elements.number(0x00280010), elements.whole(0x00280011)
    ('CT', None, None)
    """

    values: dict[int, bytes] = field(repr=False)
    little: bool = True
    pixels: tuple[int, int] | None = field(default=None, repr=False)
    shared: tuple[Elements, ...] = field(default=(), repr=False)
    frames: tuple[Elements, ...] = field(default=(), repr=False)

    def text(self, tag: int) -> str:
        """Text of an element without padding; empty when absent."""
        return self.values.get(tag, b"").decode("ascii", "replace").strip(" \0")

    def whole(self, tag: int, *, signed: bool = False) -> int | None:
        """Whole number, binary or in text; None when absent or not one."""
        if tag in TEXT_INTEGERS:
            number = self.number(tag)
            return None if number is None or not math.isfinite(number) or number != int(number) else int(number)
        value = self.values.get(tag, b"")
        return (
            int.from_bytes(value, "little" if self.little else "big", signed=signed) if len(value) in (2, 4) else None
        )

    def number(self, tag: int) -> float | None:
        """Decimal number, which may be NaN; None when absent or not one."""
        try:
            return float(self.text(tag).split("\\")[0])
        except ValueError:
            return None

    def numbers(self, tag: int, n: int) -> tuple[float, ...] | None:
        """The n decimal numbers of an element; None when they are not n finite numbers."""
        try:
            numbers = tuple(float(word) for word in self.text(tag).split("\\"))
        except ValueError:
            return None
        return numbers if len(numbers) == n and all(map(math.isfinite, numbers)) else None


def read_meta(data: bytes) -> tuple[Elements, int]:
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
    place = 132
    while data[place : place + 2] == b"\x02\x00":
        if place + 12 > len(data):
            raise MoreBytes
        tag = 0x00020000 | int.from_bytes(data[place + 2 : place + 4], "little")
        _, length, place = _vr_and_length(data, place, True, "<")
        if tag in (META_CLASS, META_SYNTAX):
            values[tag] = data[place : place + min(length, MAX_VALUE)]
        place += length
    if place > len(data):
        raise MoreBytes
    return Elements(values), place


def read_elements(data: bytes, start: int, syntax: str, wanted: Collection[int]) -> Elements:
    r"""Wanted elements up to the pixel data: those at the top level, and those of functional groups.

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
    >>> elements = read_elements(rows + pixels, 0, "1.2.840.10008.1.2.1", {0x00280010})
    >>> elements.values, elements.pixels
    ({2621456: b'@\x00'}, (22, 4))
    """
    explicit = _is_vr(data[start + 4 : start + 6]) if not syntax else syntax != IMPLICIT
    order = ">" if syntax == BIG else "<"
    tag_struct = Struct(f"{order}HH")
    values: dict[int, bytes] = {}
    groups: dict[int, list[dict[int, bytes]]] = {SHARED: [], PER_FRAME: []}
    levels: list[tuple[int, bool, int]] = []  # end of each open sequence, whether it is explicit, and its tag
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
            elif tag == ITEM and len(levels) == 1:
                groups.get(levels[0][2], []).append({})
            continue
        vr, length, place = _vr_and_length(data, place, explicit, order)
        if tag in PIXELS and not levels:
            shared, frames = (
                tuple(Elements(item, order == "<") for item in groups[key]) for key in (SHARED, PER_FRAME)
            )
            return Elements(values, order == "<", (place, length) if tag == PIXELS[2] else None, shared, frames)
        if length == UNDEFINED and vr in (b"OB", b"OW", b"OF"):
            place = _after_fragments(data, place)
        elif length == UNDEFINED or vr == b"SQ" or (vr in (b"", b"UN") and tag in SEQUENCES):
            if len(levels) == MAX_DEPTH:
                raise InputError(f"header nested deeper than {MAX_DEPTH} levels.")
            levels.append((UNDEFINED << 32 if length == UNDEFINED else place + length, explicit, tag))
            explicit = explicit and vr != b"UN"
        else:
            if tag in wanted and length <= MAX_VALUE:
                home = values if not levels else _group(groups, [level[2] for level in levels], tag)
                home[tag] = data[place : place + length]
            place += length
    raise InputError(f"header has more than {MAX_ELEMENTS} elements.")


def _group(groups: dict[int, list[dict[int, bytes]]], path: list[int], tag: int) -> dict[int, bytes]:
    """Where an element inside sequences is kept: with its frame if it is in its functional group, else nowhere."""
    if len(path) != 2 or path[1] != GROUPED.get(tag) or not groups.get(path[0]) or tag in groups[path[0]][-1]:
        return {}
    return groups[path[0]][-1]


def _vr_and_length(data: bytes, place: int, explicit: bool, order: str) -> tuple[bytes, int, int]:
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
        group, element, length = ITEM_HEADER.unpack_from(data, place)
        place += 8
        if (group << 16 | element) != ITEM:
            return place
        place += length
    raise MoreBytes
