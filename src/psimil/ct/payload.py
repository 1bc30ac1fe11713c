"""Bytes of one image in a DICOM file, uncompressed or as fragments of a codec."""

from __future__ import annotations

import os
import struct

from psimil.ct.elements import BIG, DEFLATED, IMPLICIT, ITEM, UNDEFINED, read_meta
from psimil.ct.folder import open_file
from psimil.ct.headers import Header, inflated
from psimil.ct.limits import LIMITS, Limits
from psimil.foundations.errors import InputError

NATIVE = frozenset(("", IMPLICIT, "1.2.840.10008.1.2.1", BIG, DEFLATED))
ITEM_HEADER = struct.Struct("<HHL")
MAX_FRAGMENTS = 1 << 18


def read_native(header: Header, out: memoryview, limits: Limits = LIMITS) -> None:
    """Fill a buffer with the bytes of an uncompressed image.

    Parameters
    ----------
    header : of the image.
    out : ``header.frame_bytes`` bytes.
    limits : for deflated files.

    Raises
    ------
    InputError
        When the file has fewer bytes.

    Examples
    --------
    >>> from psimil.ct.folder import SliceFile
    >>> from pathlib import Path
    >>> read_native(Header(SliceFile(Path("gone"), 1, 9)), memoryview(bytearray(2)))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: cannot be opened (no such file or directory).
    """
    place = header.pixel_place + header.frame_bytes * ((header.frame or 1) - 1)
    descriptor = open_file(header.file.path)
    try:
        if header.syntax == DEFLATED:
            packed = os.pread(descriptor, limits.file_bytes, 0)
            content = inflated(packed, read_meta(packed)[1], limits)[place : place + len(out)]
            n = len(content)
            out[:n] = content
        else:
            n = _filled(descriptor, out, place)
    finally:
        os.close(descriptor)
    if n < len(out):
        raise InputError(f"pixel data has {n} of {len(out)} bytes.")


def read_encapsulated(header: Header) -> bytes:
    """Compressed bytes of an image, its fragments joined.

    Raises
    ------
    InputError
        When the fragments are damaged, or those of different frames cannot be told apart.

    Examples
    --------
    >>> from psimil.ct.folder import SliceFile
    >>> from pathlib import Path
    >>> read_encapsulated(Header(SliceFile(Path("gone"), 1, 9)))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: cannot be opened (no such file or directory).
    """
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


def _filled(descriptor: int, out: memoryview, place: int) -> int:
    """Bytes that could be read."""
    done = 0
    while done < len(out) and (n := os.preadv(descriptor, [out[done:]], place + done)):
        done += n
    return done


def _fragments(descriptor: int, header: Header) -> list[tuple[int, int]]:
    """Place and length of the offset table and of every fragment."""
    if header.pixel_length != UNDEFINED:
        raise InputError("compressed pixel data is not encapsulated.")
    found: list[tuple[int, int]] = []
    place = header.pixel_place
    try:
        while True:
            group, element, length = ITEM_HEADER.unpack(os.pread(descriptor, 8, place))
            if (group << 16 | element) != ITEM:
                break
            if len(found) == MAX_FRAGMENTS:
                raise InputError(f"compressed pixel data has more than {MAX_FRAGMENTS} fragments.")
            found.append((place + 8, length))
            place += 8 + length
    except struct.error:
        raise InputError("compressed pixel data is cut short.") from None
    if len(found) < 2:
        raise InputError("compressed pixel data has no fragment.")
    return found


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
