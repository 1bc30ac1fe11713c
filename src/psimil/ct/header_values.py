"""Raw values of DICOM elements as text and numbers; what cannot be read counts as absent."""

from __future__ import annotations

import math
import re

TEXT_INTEGERS = frozenset((0x00200013, 0x00280008))  # InstanceNumber, NumberOfFrames: IS, all others are binary
SHARP_WORDS = ("BONE", "EDGE", "LUNG", "SHARP", "DETAIL", "ULTRA")
SHARP_NUMBER = re.compile(r"\b[BHJTU][A-Z]?(?:[6-9]\d)|\bFC(?:3\d|8\d)")  # Siemens, Canon


def text(values: dict[int, bytes], tag: int) -> str:
    r"""Text of an element without padding; empty when absent.

    Examples
    --------
    >>> text({1: b"CT \x00"}, 1), text({}, 1)
    ('CT', '')
    """
    return values.get(tag, b"").decode("ascii", "replace").strip(" \0")


def whole(values: dict[int, bytes], tag: int, little: bool, *, signed: bool = False) -> int | None:
    r"""Whole number of an element, binary or in text; None when absent or not one.

    Examples
    --------
    >>> whole({1: b"\x00\x02"}, 1, True), whole({0x00280008: b"35"}, 0x00280008, True), whole({}, 1, True)
    (512, 35, None)
    """
    value = values.get(tag, b"")
    if tag in TEXT_INTEGERS:
        found = number(values, tag)
        return None if found is None or not math.isfinite(found) or found != int(found) else int(found)
    return int.from_bytes(value, "little" if little else "big", signed=signed) if len(value) in (2, 4) else None


def number(values: dict[int, bytes], tag: int) -> float | None:
    """Decimal number of an element, which may be NaN; None when absent or not one.

    Examples
    --------
    >>> number({1: b"-1024 "}, 1), number({1: b"much"}, 1)
    (-1024.0, None)
    """
    try:
        return float(text(values, tag).split("\\")[0])
    except ValueError:
        return None


def numbers(values: dict[int, bytes], tag: int, n: int) -> tuple[float, ...] | None:
    r"""The n decimal numbers of an element; None when they are not n finite numbers.

    Examples
    --------
    >>> numbers({1: b"0.5\\0.25"}, 1, 2), numbers({1: b"0.5"}, 1, 2)
    ((0.5, 0.25), None)
    """
    try:
        found = tuple(float(word) for word in text(values, tag).split("\\"))
    except ValueError:
        return None
    return found if len(found) == n and all(map(math.isfinite, found)) else None


def is_sharp(kernel: str) -> bool | None:
    """Whether the name of a reconstruction kernel is that of one for bone; None when there is no name.

    Examples
    --------
    >>> is_sharp("BONEPLUS"), is_sharp("H70h"), is_sharp("STANDARD"), is_sharp("H31s"), is_sharp("")
    (True, True, False, False, None)
    """
    name = kernel.upper()
    if not name:
        return None
    return any(word in name for word in SHARP_WORDS) or SHARP_NUMBER.search(name) is not None
