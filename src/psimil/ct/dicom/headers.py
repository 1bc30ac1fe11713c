"""The technical part of a DICOM header: some thirty elements that are needed, and nothing about a person."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from psimil.ct.dicom.elements import DEFLATED, META_CLASS, META_SYNTAX, Elements, MoreBytes, read_elements, read_meta
from psimil.ct.dicom.folder import LIMITS, Limits, SliceFile, open_file
from psimil.foundations.errors import InputError

FIRST_BYTES = 1 << 14  # most headers end before
ALLOCATED, STORED, PADDING, PADDING_LIMIT = 0x00280100, 0x00280101, 0x00280120, 0x00280121
MULTIFRAME_CLASSES = "1.2.840.10008.5.1.4.1.1.2."
INFLATED_AT_A_TIME = 1 << 20
PROGRAMS = (b"MZ", b"\x7fELF")
SHARP_WORDS = ("BONE", "EDGE", "LUNG", "SHARP", "DETAIL", "ULTRA")
SHARP_NUMBER = re.compile(r"\b[BHJTU][A-Z]?(?:[6-9]\d)|\bFC(?:3\d|8\d)")  # Siemens, Canon


def _read(tag: int, value: Callable[[Elements, int], Any], default: Any = None, *, shown: bool = False) -> Any:
    """A field of a header that an element has; ``value`` reads it, and gives None where ``default`` is to stand."""
    return field(default=default, repr=shown, metadata={"tag": tag, "value": value})


def _upper(elements: Elements, tag: int) -> str:
    return elements.text(tag).upper()


def _some(n: int) -> Callable[[Elements, int], tuple[float, ...] | None]:
    return lambda elements, tag: elements.numbers(tag, n)


@dataclass(frozen=True)
class Header:
    """What is kept of the header of one image; UIDs and the path are never shown.

    Parameters
    ----------
    file : where it comes from.
    frame : number in a multi-frame file, from 1; None when the file has one image.
    pixel_place, pixel_length : of the pixel data in the file (after inflation when deflated).
    orientation : (6,) cosines of rows and columns; position : (3,) of the first pixel, millimetres.
    sharp : whether the kernel is one for bone; None when it is unknown.
    notes : what is odd about the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> Header(SliceFile(Path("a"), 3, 1000), rows=512, columns=512).words
    'file 3'
    """

    file: SliceFile = field(repr=False)
    sop_class: str = _read(0x00080016, Elements.text, "")
    sop_instance: str = _read(0x00080018, Elements.text, "")
    study: str = _read(0x0020000D, Elements.text, "")
    series: str = _read(0x0020000E, Elements.text, "")
    frame_of_reference: str = _read(0x00200052, Elements.text, "")
    syntax: str = field(default="", repr=False)
    modality: str = _read(0x00080060, _upper, "")
    image_type: tuple[str, ...] = _read(
        0x00080008, lambda elements, tag: tuple(word.strip().upper() for word in elements.text(tag).split("\\")), ()
    )
    photometric: str = _read(0x00280004, _upper, "")
    rows: int = _read(0x00280010, Elements.whole, 0, shown=True)
    columns: int = _read(0x00280011, Elements.whole, 0, shown=True)
    frames: int = _read(0x00280008, Elements.whole, 1, shown=True)
    frame: int | None = None
    samples: int = _read(0x00280002, lambda elements, tag: elements.whole(tag) or None, 1, shown=True)
    bits_allocated: int = 16
    bits_stored: int = 16
    signed: bool = _read(0x00280103, lambda elements, tag: elements.whole(tag) == 1, False, shown=True)
    little: bool = True
    slope: float | None = _read(0x00281053, Elements.number, shown=True)
    intercept: float | None = _read(0x00281052, Elements.number, shown=True)
    padding: int | None = None
    padding_limit: int | None = None
    position: tuple[float, ...] | None = _read(0x00200032, _some(3))
    orientation: tuple[float, ...] | None = _read(0x00200037, _some(6), shown=True)
    instance_number: int | None = _read(0x00200013, Elements.whole)
    thickness: float | None = _read(0x00180050, Elements.number, shown=True)
    spacing: tuple[float, ...] | None = _read(0x00280030, _some(2), shown=True)
    sharp: bool | None = _read(0x00181210, lambda elements, tag: _is_sharp(_upper(elements, tag)), shown=True)
    contrast: bool = _read(0x00180010, lambda elements, tag: bool(elements.text(tag)), False, shown=True)
    burned_in: bool = _read(0x00280301, lambda elements, tag: _upper(elements, tag) == "YES", False, shown=True)
    body_part: str = _read(0x00180015, Elements.text, "")
    pixel_place: int = field(default=0, repr=False)
    pixel_length: int = field(default=0, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Name of the image in messages: that of its file, as slices have other numbers, those of their order."""
        return self.file.words + ("" if self.frame is None else f", frame {self.frame}")

    @property
    def frame_bytes(self) -> int:
        """Bytes of one uncompressed image."""
        return self.rows * self.columns * self.samples * self.bits_allocated // 8


READ = {item.name: (item.metadata["tag"], item.metadata["value"]) for item in fields(Header) if item.metadata}
OF_FRAMES = {name: READ[name] for name in ("position", "orientation", "spacing", "thickness", "slope", "intercept")}
WANTED = frozenset((ALLOCATED, STORED, PADDING, PADDING_LIMIT, *(tag for tag, _ in READ.values())))


def read_headers(file: SliceFile, limits: Limits = LIMITS) -> tuple[Header, ...]:
    """A header for each image of a file, all within the limits; pixels are not read.

    Parameters
    ----------
    file : to read.
    limits : sizes above which it is refused.

    Raises
    ------
    InputError
        When it is no DICOM image or above a limit, or the groups of its frames do not fit; the message does not name
        the slice yet.

    Examples
    --------
    >>> from pathlib import Path
    >>> Path("other").touch()
    >>> read_headers(SliceFile(Path("other"), 1, 0))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: not a DICOM file (no DICM marker).
    """
    if file.size > limits.multiframe_bytes:
        raise InputError(f"file is above the limit of {limits.multiframe_bytes >> 20} MB.")
    descriptor = open_file(file.path)
    try:
        data, elements, meta = _read_to_pixels(descriptor, file.size, limits)
    finally:
        os.close(descriptor)
    header = _header(file, elements, meta, data[:4])
    _check(header, limits)
    if header.frames == 1 and not header.sop_class.startswith(MULTIFRAME_CLASSES):
        return (header,)
    return _of_frames(header, elements)


def _check(header: Header, limits: Limits) -> None:
    if header.frames == 1 and header.file.size > limits.file_bytes:
        raise InputError(f"file is above the limit of {limits.file_bytes >> 20} MB for one slice.")
    if header.rows > limits.side or header.columns > limits.side:
        size = f"{header.rows} x {header.columns} pixels"
        limit = f"{limits.side} x {limits.side} (--max-pixels)"
        raise InputError(f"{size} is above the limit {limit}. In Python, raise limits.side.")
    if header.frames > limits.frames:
        raise InputError(f"{header.frames} frames are above the limit of {limits.frames}.")
    if header.rows < 1 or header.columns < 1 or header.frames < 1:
        raise InputError(f"{header.rows} x {header.columns} pixels in {header.frames} frames: there is no image.")


def _of_frames(header: Header, elements: Elements) -> tuple[Header, ...]:
    """A header for each frame of a multi-frame file, from the groups that all frames share and from its own."""
    own = [_values(frame, OF_FRAMES) for frame in elements.frames]
    if own and len(own) != header.frames:
        raise InputError(f"{len(own)} groups describe {header.frames} frames.")
    if not own:  # the position in the header cannot be that of every frame
        header, own = replace(header, position=None), [{}] * header.frames
    shared = _values(elements.shared[0], OF_FRAMES) if elements.shared else {}
    return tuple(replace(header, frame=number, **(shared | values)) for number, values in enumerate(own, start=1))


def _values(elements: Elements, wanted: Mapping[str, tuple[int, Callable[[Elements, int], Any]]]) -> dict[str, Any]:
    """What elements say, by field of a header; what they do not say is left out."""
    return {name: value for name, (tag, read) in wanted.items() if (value := read(elements, tag)) is not None}


def inflated(data: bytes, start: int, limits: Limits = LIMITS) -> bytes:
    """The file with its deflated data set inflated, if that stays within the limit of one slice.

    Examples
    --------
    >>> packed = zlib.compress(bytes(5000), wbits=-15)
    >>> len(inflated(b"meta" + packed, 4))
    5004
    >>> inflated(b"meta" + packed, 4, Limits(file_bytes=1000))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: decompressed size above 0 MB.
    """
    packed = data[start:]
    try:
        if _inflated_size(packed, limits.file_bytes) > limits.file_bytes:
            raise InputError(f"decompressed size above {limits.file_bytes >> 20} MB.")
        return data[:start] + zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limits.file_bytes + 1)
    except zlib.error:
        raise InputError("its deflated content is damaged.") from None


def _inflated_size(packed: bytes, limit: int) -> int:
    """Bytes after inflation, counted up to the limit without keeping them."""
    stream, total = zlib.decompressobj(-zlib.MAX_WBITS), 0
    while total <= limit and (n := len(stream.decompress(packed, INFLATED_AT_A_TIME))):
        total += n
        packed = stream.unconsumed_tail
    return total


def _read_to_pixels(descriptor: int, size: int, limits: Limits) -> tuple[bytes, Elements, Elements]:
    """Bytes at hand, elements and file meta information; more bytes are fetched until the pixel data is reached."""
    n = FIRST_BYTES
    while True:
        data = os.pread(descriptor, n, 0)
        try:
            meta, start = read_meta(data)
            syntax = meta.text(META_SYNTAX)
            if syntax == DEFLATED:
                if size > limits.file_bytes:
                    raise InputError(f"decompressed size above {limits.file_bytes >> 20} MB.")
                data = inflated(os.pread(descriptor, size, 0), start, limits)
            return data, read_elements(data, start, syntax, WANTED), meta
        except MoreBytes:
            if n >= min(size, limits.file_bytes) or len(data) > n:
                return data, Elements({}), Elements({})
            n *= 8


def _header(file: SliceFile, elements: Elements, meta: Elements, beginning: bytes) -> Header:
    if elements.pixels is None:
        raise InputError("no pixel data; file is cut short or not an image.")
    values = _values(elements, READ)
    values["sop_class"] = values["sop_class"] or meta.text(META_CLASS)
    allocated, signed = elements.whole(ALLOCATED) or 0, values["signed"]
    return Header(
        file,
        **values,
        syntax=meta.text(META_SYNTAX),
        bits_allocated=allocated,
        bits_stored=elements.whole(STORED) or allocated,
        little=elements.little,
        padding=elements.whole(PADDING, signed=signed),
        padding_limit=elements.whole(PADDING_LIMIT, signed=signed),
        pixel_place=elements.pixels[0],
        pixel_length=elements.pixels[1],
        notes=("begins like an executable program; the preamble was ignored",) * beginning.startswith(PROGRAMS),
    )


def _is_sharp(kernel: str) -> bool | None:
    """Whether a reconstruction kernel is one for bone; None when it has no name."""
    if not kernel:
        return None
    return any(word in kernel for word in SHARP_WORDS) or SHARP_NUMBER.search(kernel) is not None
