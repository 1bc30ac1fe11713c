"""Small DICOM files written by hand, and taken apart again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

Element = tuple[int, str, bytes]

IMPLICIT, PLAIN, BIG = b"1.2.840.10008.1.2", b"1.2.840.10008.1.2.1", b"1.2.840.10008.1.2.2"
DEFLATED, RLE = b"1.2.840.10008.1.2.1.99", b"1.2.840.10008.1.2.5"
CT, ENHANCED = b"1.2.840.10008.5.1.4.1.1.2", b"1.2.840.10008.5.1.4.1.1.2.1"
LONG = frozenset(("OB", "OW", "SQ", "UN", "UT"))
BINARY = frozenset(("US", "SS", "OW"))
PIXELS = 0x7FE00010
ELEMENTS: Mapping[int, tuple[str, bytes]] = {
    0x00080008: ("CS", b"ORIGINAL\\PRIMARY\\AXIAL"),
    0x00080016: ("UI", CT),
    0x00080018: ("UI", b"2.25.1"),
    0x00080060: ("CS", b"CT"),
    0x00180050: ("DS", b"5"),
    0x0020000D: ("UI", b"2.25.2"),
    0x0020000E: ("UI", b"2.25.3"),
    0x00200013: ("IS", b"1"),
    0x00200032: ("DS", b"-1\\-1\\0"),
    0x00200037: ("DS", b"1\\0\\0\\0\\1\\0"),
    0x00200052: ("UI", b"2.25.4"),
    0x00280002: ("US", b"\1\0"),
    0x00280004: ("CS", b"MONOCHROME2"),
    0x00280010: ("US", b"\x08\0"),
    0x00280011: ("US", b"\x08\0"),
    0x00280030: ("DS", b"0.5\\0.5"),
    0x00280100: ("US", b"\x10\0"),
    0x00280101: ("US", b"\x10\0"),
    0x00280103: ("US", b"\1\0"),
    0x00281052: ("DS", b"-1024"),
    0x00281053: ("DS", b"1"),
}


def image(
    *,
    syntax: bytes = PLAIN,
    more: Mapping[int, tuple[str, bytes]] | None = None,
    pixels: bytes | None = None,
    before: bytes = b"",
) -> bytes:
    """A CT image of 8 x 8 pixels; ``more`` sets elements, ``before`` is put in front of the data set."""
    values = {**ELEMENTS, **(more or {})}
    values[PIXELS] = ("OW", struct.pack("<64h", *range(0, 2048, 32)) if pixels is None else pixels)
    elements = [(tag, vr, value) for tag, (vr, value) in sorted(values.items())]
    content = before + encode(elements, syntax)
    if syntax == DEFLATED:
        content = zlib.compress(content, 1, wbits=-15)
    meta = encode([(0x00020002, "UI", CT), (0x00020010, "UI", syntax)])
    return bytes(128) + b"DICM" + encode([(0x00020000, "UL", struct.pack("<L", len(meta)))]) + meta + content


def encode(elements: Iterable[Element], syntax: bytes = PLAIN, *, item: bool = False) -> bytes:
    """Bytes of elements, as an item of a sequence if asked; pixels of a compressed syntax have no length."""
    order, parts = ">" if syntax == BIG else "<", []
    for tag, vr, given in elements:
        value = given + (b"" if len(given) % 2 == 0 else b"\0" if vr in ("UI", "OB", "OW") else b" ")
        if order == ">" and vr in BINARY:
            value = b"".join(value[i : i + 2][::-1] for i in range(0, len(value), 2))
        length = 0xFFFFFFFF if tag == PIXELS and syntax == RLE else len(value)
        parts.append(struct.pack(f"{order}HH", tag >> 16 & 0xFFFF, tag & 0xFFFF))
        if syntax == IMPLICIT:
            parts.append(struct.pack("<L", length))
        elif vr in LONG:
            parts.append(vr.encode() + b"\0\0" + struct.pack(f"{order}L", length))
        else:
            parts.append(vr.encode() + struct.pack(f"{order}H", min(length, 0xFFFF)))
        parts.append(value)
    content = b"".join(parts)
    return b"\xfe\xff\x00\xe0" + struct.pack("<L", len(content)) + content if item else content


def take_apart(data: bytes) -> tuple[bytes, list[Element], bool] | None:
    """Preamble with meta information, the elements after it, and whether these were deflated; None if not explicit."""
    place = 132
    while data[place : place + 2] == b"\x02\0" and place + 8 <= len(data):
        place += 8 + int.from_bytes(data[place + 6 : place + 8], "little")
    head, rest = data[:place], data[place:]
    deflated = DEFLATED in head
    if deflated:
        try:
            rest = zlib.decompressobj(-15).decompress(rest, 1 << 16)
        except zlib.error:
            return None
    elements: list[Element] = []
    while len(rest) >= 12:
        group, number, code = struct.unpack_from("<HH2s", rest)
        if not (code.isalpha() and code.isupper()):
            break
        start, length = 8, int.from_bytes(rest[6:8], "little")
        if code.decode() in LONG:
            start, length = 12, int.from_bytes(rest[8:12], "little")
        elements.append((group << 16 | number, code.decode(), rest[start : start + length]))
        rest = rest[start + length :]
    return (head, elements, deflated) if elements else None
