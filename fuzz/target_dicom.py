"""DICOM bytes to a slice in Hounsfield units."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from dicom_bytes import BIG, DEFLATED, ENHANCED, IMPLICIT, PLAIN, RLE, Element, encode, image, take_apart
from mutator import changed_bytes
from target import MAX_BYTES, Target

from psimil.ct.dicom.folder import Limits
from psimil.ct.dicom.headers import Header
from psimil.ct.dicom.sandbox import Sandbox
from psimil.ct.scans.identity import Hasher
from psimil.ct.scans.series import read_series
from psimil.ct.scans.windows import WINDOWS, apply_windows

LIMITS = Limits(side=512, frames=64, file_bytes=1 << 20, multiframe_bytes=4 << 20, scan_bytes=64 << 20)
DECODED = 200  # one in so many compressed images is given to the child process; the others are black
TEXTS = (b"0", b"1", b"-1024", b"nan", b"inf", b"1e308", b"-1e308", b"1e-320", b"0.5\\0.5", b"1\\0\\0\\0\\1\\0", b"")
TEXTS += (b"1e308\\1e308\\1e308", b"MONOCHROME1", b"MONOCHROME2", b"RGB", b"MR", b"ORIGINAL\\LOCALIZER", b"\xff" * 9)
TEXTS += (b"1" * 400, b"1_0", b" 7 ", b"\0", b"x" * 5000, b"1.2.840.10008.5.1.4.1.1.2.1", b"3", b"64", b"-3", b"1e5")
WHOLES = (0, 1, 2, 7, 8, 9, 12, 16, 17, 32, 255, 512, 513, 4097, 32767, 32768, 65535)
SYNTAXES = (IMPLICIT, PLAIN, BIG, DEFLATED, RLE, b"1.2.840.10008.1.2.4.50", b"1.2.840.10008.1.2.4.90", b"1.2.3", b"")
WORDS = (b"DICM", b"\xfe\xff\x00\xe0", b"\xfe\xff\x0d\xe0", b"\xfe\xff\xdd\xe0", b"\xe0\x7f\x10\x00OW", b"\xff" * 4)
WORDS += (b"SQ\0\0", b"UN\0\0", b"OB\0\0\xff\xff\xff\xff", b"MZ", *SYNTAXES, *TEXTS[:9])


class SparingSandbox(Sandbox):
    """A sandbox that decodes few images, as each exchange with the child costs more than all the rest."""

    asked = 0

    def decode(self, header: Header, frame: bytes) -> Any:
        """Pixels of a compressed image, most often zeros."""
        SparingSandbox.asked += 1
        if SparingSandbox.asked % DECODED == 0:
            return super().decode(header, frame)
        return np.zeros((header.rows, header.columns), f"<{'iu'[not header.signed]}{header.bits_allocated // 8}")


def target(folder: Path) -> Target:
    """Reads one file as ``psimil ct`` does, up to the windows that the network sees."""
    path, sandbox, hasher = folder / "slice.dcm", SparingSandbox(), Hasher(b"0" * 32)

    def run(data: bytes) -> str:
        path.write_bytes(data)
        scan = read_series(path, hasher=hasher, limits=LIMITS, sandbox=sandbox)
        small = apply_windows(scan.hu[:1], WINDOWS, size=8)
        assert scan.hu.min() >= -1024 and scan.hu.max() <= 3071, "Hounsfield units out of range"
        assert np.isfinite(scan.positions).all(), "positions are not finite"
        assert np.isfinite(scan.spacing).all(), "spacing is not finite"
        assert small.min() >= 0 and small.max() <= 1, "windows out of range"
        return f"scan of {'one slice' if len(scan) == 1 else 'several slices'}, {min(len(scan.notes), 3)} notes"

    return Target("dicom", run, seeds, change, WORDS, bombs, lambda: sandbox.__exit__(None, None, None))


@cache
def seeds() -> list[bytes]:
    """Images in every encoding, and some that are refused."""
    padded = {0x00280120: ("US", struct.pack("<H", 7)), 0x00280121: ("US", struct.pack("<H", 9))}
    nested = {0x00081140: ("SQ", encode([(0x00081155, "UI", b"1.2")], item=True))}
    fragments = [b"", struct.pack("<16L", 2, 64, 73, *[0] * 13) + b"\xc1\x01" * 4 + b"\0\xc1\x02" * 3]
    packed = b"".join(b"\xfe\xff\x00\xe0" + struct.pack("<L", len(f)) + f for f in fragments)
    many = [[(0x00209113, "SQ", encode([(0x00200032, "DS", b"0\\0\\%d" % z)], item=True))] for z in (5, 0)]
    frames = b"".join(encode(group, item=True) for group in many)
    return [
        image(),
        *(image(syntax=syntax) for syntax in (IMPLICIT, BIG, DEFLATED)),
        image(syntax=RLE, pixels=packed + b"\xfe\xff\xdd\xe0\0\0\0\0"),
        image(more=padded),
        image(more=nested),
        image(more={0x00280004: ("CS", b"MONOCHROME1"), 0x00280103: ("US", b"\0\0")}),
        image(more={0x00280101: ("US", b"\x0c\0"), 0x00280103: ("US", b"\0\0"), 0x00281052: ("DS", b"0")}),
        image(more={0x00280100: ("US", b"\x08\0"), 0x00280101: ("US", b"\x08\0")}, pixels=bytes(range(64))),
        image(
            more={
                0x00080016: ("UI", ENHANCED), 0x00280008: ("IS", b"2"), 0x52009230: ("SQ", frames),
                0x52009229: ("SQ", encode([(0x00281052, "DS", b"-1000")], item=True)),
            },
            pixels=bytes(256),
        ),
        image(more={0x00200032: ("DS", b""), 0x00280010: ("US", b"\0\0")}),
        b"\0" * 128 + b"DICM",
    ]  # fmt: skip


def change(data: bytes, rng: Random) -> bytes:
    """Another file: an element changed, added, taken away or moved, or any bytes."""
    apart = take_apart(data) if rng.randrange(3) else None
    if apart is None:
        return changed_bytes(data, rng, WORDS, rng.choice(seeds()) if not rng.randrange(8) else b"")
    head, elements, deflated = apart
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change_element(elements, rng)
    rest = encode(elements)
    return head + (zlib.compress(rest, 1, wbits=-15) if deflated else rest)[: MAX_BYTES - len(head)]


def _change_element(elements: list[Element], rng: Random) -> None:
    if not elements:
        return
    place = rng.randrange(len(elements))
    tag, vr, value = elements[place]
    match rng.randrange(7):
        case 0:
            del elements[place]
        case 1:
            elements.insert(rng.randrange(len(elements) + 1), (tag, vr, value))
        case 2:
            elements[place] = (rng.choice((tag + 1, elements[rng.randrange(len(elements))][0])), vr, value)
        case 3:
            elements[place] = (tag, rng.choice(("UN", "SQ", "US", "UL", "DS", "OB", "LO")), value)
        case 4:
            elements[place] = (tag, vr, changed_bytes(value, rng, WORDS))
        case _ if vr in ("US", "SS", "OW"):
            elements[place] = (tag, vr, struct.pack("<H", rng.choice(WHOLES)) * (len(value) // 2 or 1))
        case _:
            elements[place] = (tag, vr, rng.choice(TEXTS))


def bombs() -> dict[str, bytes]:
    """Headers and fragments that make much work of few bytes."""
    fragments = image(syntax=RLE, pixels=b"\xfe\xff\x00\xe0\0\0\0\0" * 120_000)
    zeros = zlib.compress(bytes(60 << 20), 9, wbits=-15)
    return {
        "many empty fragments": fragments,
        "many empty elements": image(before=b"\x09\x00\x01\x00LO\0\0" * 120_000),
        "many open sequences": image(
            before=b"\x09\x00\x01\x00SQ\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff" * 9999
        ),
        "deflated zeros": image(syntax=DEFLATED)[:-4] + zeros,
    }
