"""A store: its manifest and the files beside it."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from mutator import changed_bytes, changed_json
from target import MAX_BYTES, Target

from psimil.store import StoreWriter, open_store

# An input holds the files of a store: for each the length in 4 bytes, little-endian, then the content.
FILES = ("manifest.json", "part-0001/features.bin", "part-0001/offsets.bin", "part-0001/labels.bin")
FILES += ("part-0001/instance_labels.bin", "part-0001/ids.json")
WORDS = (
    b'"checksum"',
    b'"parts"',
    b'"blocks"',
    b"part-0001",
    b"part-0002",
    b"../part-0001",
    b"float64",
    b"whole numbers",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    2,
    3,
    1.0,
    2**48,
    2**48 + 1,
    2**63,
    "",
    "text",
    "whole numbers",
    [],
    {},
)
VALUES += (
    "float32",
    "float64",
    "part-0002",
    "part-1",
    "../x",
    "\ud800",
    "a\nb",
    ["a"],
    ["a", "b"],
    ["a", "a"],
    "0" * 64,
)


def target(folder: Path) -> Target:
    """Opens a store, every second time with all checksums verified, and reads its rows."""
    store = folder / "store"
    (store / "part-0001").mkdir(parents=True, exist_ok=True)
    there: dict[str, bytes] = {}

    def run(data: bytes) -> str:
        for name, content in zip(FILES, unpacked(data), strict=True):
            if there.get(name) != content:
                (store / name).write_bytes(content)
                there[name] = content
        bags = open_store(store, verify=bool(len(data) % 2))
        assert len(bags) == len(bags.ids) and bags.offsets[-1] == len(bags.X)
        assert bags.stream[: len(bags.X)].shape == bags[:1].X.shape[:0] + bags.X.shape
        return f"store of {'1 bag' if len(bags) == 1 else 'bags'}{'' if bags.y is None else ' with labels'}"

    return Target("stores", run, lambda: seeds(folder / "made"), change, WORDS, bombs)


@cache
def seeds(folder: Path) -> list[bytes]:
    """Stores with text and whole numbers as ids, in both precisions."""
    found = []
    for ids, dtype, known in ((["a", "b"], "float32", [0, 1]), ([1, 2], "float64", None)):
        shutil.rmtree(folder, ignore_errors=True)
        with StoreWriter(folder, 2, dtype=dtype, feature_names=["f", "g"] if known else None) as writer:
            writer.add([[1, 2], [3, 4]], 1, ids[0], known)
            writer.add([[5, 6]], 0, ids[1])
        files = [folder / name for name in FILES]
        found.append(packed([file.read_bytes() if file.exists() else b"" for file in files]))
    shutil.rmtree(folder)
    return [*found, b""]


def packed(contents: list[bytes]) -> bytes:
    """An input of the contents of the files."""
    return b"".join(len(content).to_bytes(4, "little") + content for content in contents)


def unpacked(data: bytes) -> list[bytes]:
    """The contents of the files in an input."""
    contents = []
    for _ in FILES:
        size = int.from_bytes(data[:4], "little")
        contents.append(data[4 : 4 + size])
        data = data[4 + size :]
    return contents


def change(data: bytes, rng: Random) -> bytes:
    """Another store; most have the checksums that they should have."""
    contents = unpacked(data)
    which = rng.choice((0, 0, 0, 1, 2, 3, 4, 5, 5))
    if which == 0 and rng.randrange(4):
        contents[0] = _changed_manifest(contents[0], rng)
    elif which == 5 and rng.randrange(2):
        contents[5] = _changed_ids(contents[5], rng)
    else:
        contents[which] = changed_bytes(contents[which], rng, WORDS)
    if rng.randrange(6):
        contents[0] = sealed(contents, counts=bool(rng.randrange(2)))
    return packed(contents)[:MAX_BYTES]


def sealed(contents: list[bytes], *, counts: bool) -> bytes:
    """The manifest with the right checksums, and with the right sizes if ``counts``."""
    try:
        facts = json.loads(contents[0])
        files = facts["parts"][0]["files"]
        for name, content in zip(FILES[1:], contents[1:], strict=True):
            record = files.get(name.partition("/")[2])
            if isinstance(record, dict):
                record["sha256"] = hashlib.sha256(content).hexdigest()
                record["bytes"] = len(content) if counts else record["bytes"]
        facts.pop("checksum", None)
        facts["checksum"] = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return (json.dumps(facts, indent=1) + "\n").encode()
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return contents[0]


def _changed_manifest(content: bytes, rng: Random) -> bytes:
    try:
        return (json.dumps(changed_json(json.loads(content), rng, VALUES), indent=1) + "\n").encode()
    except (ValueError, RecursionError):
        return changed_bytes(content, rng, WORDS)


def _changed_ids(content: bytes, rng: Random) -> bytes:
    try:
        return json.dumps(changed_json(json.loads(content), rng, VALUES)).encode()
    except (ValueError, RecursionError):
        return b"[]"


def bombs() -> dict[str, bytes]:
    """Manifests that are large or deep."""
    names = json.dumps({"format": "psimil store", "version": 1, "feature_names": ["f"] * 300_000})
    return {
        "many names": packed([names.encode(), *[b""] * 5]),
        "deep manifest": packed([b"[" * 1_000_000, *[b""] * 5]),
        "many digits": packed([b"1" * 1_000_000, *[b""] * 5]),
    }
