"""Random changes of bytes and of JSON values."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from random import Random
from typing import Any

MAX_BYTES = 1 << 16
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
NUMBERS = (b"0", b"1", b"-1", b"2", b"255", b"65535", b"65536", b"2147483648", b"9223372036854775808", b"1" * 400)
NUMBERS += (b"1e308", b"-1e400", b"1e-320", b"nan", b"inf", b"-inf", b"0.5", b"1_000", b"0x10", b"1e5", b"")
BYTES = (0, 1, 10, 13, 32, 34, 44, 127, 128, 254, 255)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1.5, 1e308, -1e308, 5e-324, 2**31, 2**53 + 1, 2**63, -(2**63) - 1,
    10**400, float("nan"), float("inf"), "", "x", "inf", "../x", "\0", "\ud800", "é", "x" * 3000, [], {}, [[[]]], [0],
    ["x"], {"kind": "RBF"}, {"kind": "Sum", "left": {}, "right": {}}, "float64", "kind",
)  # fmt: skip


def changed_bytes(data: bytes, rng: Random, words: Sequence[bytes], other: bytes = b"") -> bytes:
    """``data`` after one to four small changes; ``other`` is an input to take pieces from."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        data = _CHANGES[rng.randrange(len(_CHANGES))](data, rng, words, other)
    return data[:MAX_BYTES]


def _flip(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    place = rng.randrange(len(data) or 1)
    return data[:place] + bytes([(data[place] if data else 0) ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def _byte(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + bytes([rng.choice(BYTES)]) + data[place + rng.randrange(2) :]


def _whole(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    """A binary number of 2, 4 or 8 bytes somewhere."""
    size = rng.choice((2, 4, 8))
    number = rng.choice((0, 1, 2, 255, 4096, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1))
    place = rng.randrange(len(data) + 1)
    packed = (number % (1 << 8 * size)).to_bytes(size, rng.choice(("little", "big")))
    return data[:place] + packed + data[place + size :]


def _cut(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    start, stop = _span(data, rng)
    return data[:start] + data[stop:]


def _end(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _repeat(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    start, stop = _span(data, rng)
    times = rng.choice((1, 1, 2, 10, 100, 1000))
    return data[:start] + data[start:stop] * min(times, 1 + MAX_BYTES // max(1, stop - start)) + data[start:]


def _word(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    word, place = rng.choice(words) if words else b"\0", rng.randrange(len(data) + 1)
    return data[:place] + word + data[place + rng.choice((0, len(word))) :]


def _splice(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    (start, stop), place = _span(other, rng), rng.randrange(len(data) + 1)
    return data[:place] + other[start:stop] + data[place + rng.choice((0, stop - start)) :]


def _number(data: bytes, rng: Random, words: Sequence[bytes], other: bytes) -> bytes:
    """A number that is written in digits becomes another."""
    found = list(NUMBER.finditer(data))
    if not found:
        return _byte(data, rng, words, other)
    where = rng.choice(found)
    return data[: where.start()] + rng.choice(NUMBERS) + data[where.end() :]


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 16, 64, 256, 4096)))


_CHANGES = (_flip, _byte, _whole, _cut, _end, _repeat, _word, _splice, _number)


def changed_json(value: Any, rng: Random, values: Sequence[Any] = VALUES) -> Any:
    """A copy of a JSON value with one to three places changed."""
    box = [copy.deepcopy(value)]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places: list[tuple[Any, Any]] = []
        _collect(box, places)
        holder, key = rng.choice(places)
        _change_at(holder, key, rng.choice(places), rng, values)
    return box[0]


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    """Every list or dictionary in the value with each of its keys; flat, as nesting may be deep."""
    waiting = [value]
    while waiting and len(places) < 2000:
        holder = waiting.pop()
        if isinstance(holder, (list, dict)):
            keys = range(len(holder)) if isinstance(holder, list) else list(holder)
            places += [(holder, key) for key in keys]
            waiting += [holder[key] for key in keys]


def _change_at(holder: Any, key: Any, elsewhere: tuple[Any, Any], rng: Random, values: Sequence[Any]) -> None:
    top = isinstance(holder, list) and len(holder) == 1
    match rng.randrange(8):
        case 0 if not top:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("x", "", "kind", "another"))] = holder.pop(key)
        case 2 if not top and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case 3:
            holder[key] = copy.deepcopy(elsewhere[0][elsewhere[1]])
        case 4:
            deep: Any = holder[key]
            for _ in range(rng.choice((1, 2, 40, 400))):
                deep = [deep] if rng.randrange(2) else {"left": deep}
            holder[key] = deep
        case 5 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            near = rng.choice((1, -1, 2, 0.5)) if abs(holder[key]) < 2**53 else 0
            holder[key] = rng.choice((holder[key] + near, -holder[key], str(holder[key])))
        case _:
            holder[key] = copy.deepcopy(rng.choice(values))
