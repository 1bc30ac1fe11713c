"""The manifest of a store: what it holds, in which segments, with the name, size and checksum of every file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile
from psimil.model.labels import ZERO_ONE, Classes, is_label
from psimil.store.digest import BLOCK, Digest

MANIFEST = "manifest.json"
FEATURES, OFFSETS, LABELS, INSTANCE_LABELS = "features.bin", "offsets.bin", "labels.bin", "instance_labels.bin"
IDS = "ids.json"
DTYPES: Mapping[str, str] = {"float32": "<f4", "float64": "<f8"}
OFFSET_DTYPE, LABEL_DTYPE = "<i8", "i1"
SEGMENT = re.compile(r"part-\d{4,9}", re.ASCII)
FORMAT, VERSION = "psimil store", 2  # 1, which had no classes, is still written for labels 0 and 1
TEXT, WHOLE = "text", "whole numbers"
MAX_BYTES, MAX_COUNT = 256 << 20, 1 << 48
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

SCHEMA: Mapping[str, tuple[type, ...]] = {
    "format": (str,),
    "version": (int,),
    "generation": (int,),
    "dtype": (str,),
    "features": (int,),
    "feature_names": (list, type(None)),
    "classes": (list,),
    "ids": (str,),
    "finite": (bool,),
    "bags": (int,),
    "instances": (int,),
    "parts": (list,),
    "checksum": (str,),
}
SEGMENT_SCHEMA: Mapping[str, tuple[type, ...]] = {"name": (str,), "bags": (int,), "instances": (int,), "files": (dict,)}
FILE_SCHEMA: Mapping[str, tuple[type, ...]] = {"bytes": (int,), "sha256": (str,), "blocks": (list,)}


@dataclass(frozen=True)
class Segment:
    """Bags that were written together: a folder that never changes."""

    name: str
    bags: int
    instances: int
    files: Mapping[str, Digest]


@dataclass(frozen=True)
class Manifest:
    """What a store holds.

    Parameters
    ----------
    dtype : "float32" or "float64".
    features : D.
    ids : "text" or "whole numbers".
    parts : in the order of their bags.
    feature_names : D names, or None when the source had none.
    generation : how often the store was written to.
    classes : what the source called negative and positive bags.

    Examples
    --------
    >>> manifest = Manifest("float32", 8, "text", ())
    >>> manifest.bags, manifest.instances, manifest.size
    (0, 0, 0)
    """

    dtype: str
    features: int
    ids: str
    parts: tuple[Segment, ...]
    feature_names: tuple[str, ...] | None = None
    generation: int = 1
    classes: Classes = ZERO_ONE

    @property
    def bags(self) -> int:
        """B."""
        return sum(segment.bags for segment in self.parts)

    @property
    def instances(self) -> int:
        """N."""
        return sum(segment.instances for segment in self.parts)

    @property
    def size(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(digest.bytes for segment in self.parts for digest in segment.files.values())

    def encoded(self) -> bytes:
        """The content of manifest.json."""
        parts = [
            asdict(segment) | {"files": {name: asdict(digest) for name, digest in sorted(segment.files.items())}}
            for segment in self.parts
        ]
        facts: dict[str, Any] = {
            "format": FORMAT,
            "version": 1 if self.classes == ZERO_ONE else VERSION,
            "generation": self.generation,
            "dtype": self.dtype,
            "features": self.features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            **({} if self.classes == ZERO_ONE else {"classes": list(self.classes)}),
            "ids": self.ids,
            "finite": True,  # every value was checked when it was written
            "bags": self.bags,
            "instances": self.instances,
            "parts": parts,
        }
        facts["checksum"] = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return (json.dumps(facts, indent=1) + "\n").encode()


def expected_bytes(n_bags: int, n_instances: int, n_features: int, dtype: str) -> dict[str, int]:
    """Bytes of each file whose size follows from the counts of a segment.

    Examples
    --------
    >>> expected_bytes(2, 10, 3, "float32")
    {'features.bin': 120, 'offsets.bin': 24, 'labels.bin': 2, 'instance_labels.bin': 10}
    """
    return {
        FEATURES: n_instances * n_features * int(DTYPES[dtype][2:]),
        OFFSETS: 8 * (n_bags + 1),
        LABELS: n_bags,
        INSTANCE_LABELS: n_instances,
    }


def is_store(path: str | Path) -> bool:
    """Whether a folder holds a store, whole or damaged.

    Examples
    --------
    >>> is_store("no-such-folder")
    False
    """
    return (as_path(path) / MANIFEST).is_file()


def read_manifest(path: str | Path) -> Manifest:
    """The checked manifest of a store.

    Raises
    ------
    MissingFile
        When the folder is no store.
    InputError
        When the manifest is damaged, foreign, or of another version.

    Examples
    --------
    >>> read_manifest("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: no-such-folder is not a store: it has no manifest.json. ...
    """
    path = as_path(path)
    try:
        with (path / MANIFEST).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFile(
            f"{path.name} is not a store: it has no {MANIFEST}. Make one with psimil data import."
        ) from None
    except OSError as error:
        raise InputError(
            f"{MANIFEST} of the store cannot be read: {(error.strerror or str(error)).lower()}."
        ) from error
    return decoded(content)


def decoded(content: bytes) -> Manifest:
    """The manifest in the content of manifest.json.

    Examples
    --------
    >>> decoded(b"{}")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: manifest.json of the store is damaged: it lacks bags, ...
    """
    try:
        value = json.loads(content) if len(content) <= MAX_BYTES else _refuse("it is too large")
    except (ValueError, RecursionError):
        _refuse("it is not JSON" if content else "it is empty")
    if isinstance(value, dict) and value.get("format") == FORMAT and isinstance(value.get("version"), int):
        if value["version"] > VERSION:
            raise InputError(f"the store has version {value['version']}; this psimil reads {VERSION}. Update psimil.")
    if isinstance(value, dict) and value and value.get("version") != VERSION:
        value = {"classes": list(ZERO_ONE), **value}
    facts = _fields(value, SCHEMA, "it")
    if facts["format"] != FORMAT or facts["version"] not in (1, VERSION):
        _refuse("it is not of a psimil store")
    if facts["dtype"] not in DTYPES or facts["ids"] not in (TEXT, WHOLE) or not facts["finite"]:
        _refuse("dtype, ids or finite have an unknown value")
    D, names = _count(facts["features"], "features"), facts["feature_names"]
    if names is not None and (len(names) != D or not all(isinstance(name, str) for name in names)):
        _refuse(f"it has {D} features but other feature_names")
    parts = tuple(_segment(segment, D, facts["dtype"]) for segment in facts["parts"])
    if not parts or len({segment.name for segment in parts}) < len(parts):
        _refuse("its parts are none or not distinct")
    manifest = Manifest(
        facts["dtype"],
        D,
        facts["ids"],
        parts,
        None if names is None else tuple(names),
        _count(facts["generation"], "generation"),
        _classes(facts["classes"]),
    )
    if (manifest.bags, manifest.instances) != (facts["bags"], facts["instances"]):
        _refuse("its counts are not those of its parts")
    if manifest.encoded() != content:
        raise InputError(f"{MANIFEST} of the store was changed: its checksum differs. Import the data again.")
    return manifest


def _classes(value: list[Any]) -> Classes:
    if len(value) != 2 or not all(map(is_label, value)) or len({isinstance(label, str) for label in value}) > 1:
        _refuse("its classes are not two labels")
    if value[0] == value[1]:
        _refuse("its classes are the same")
    return Classes(*value)


def _segment(value: Any, n_features: int, dtype: str) -> Segment:
    facts = _fields(value, SEGMENT_SCHEMA, "a part")
    name, bags, instances = facts["name"], _count(facts["bags"], "bags"), _count(facts["instances"], "instances")
    if not SEGMENT.fullmatch(name):
        _refuse("a part has a name that is none")
    files = {file: _digest(record, f"{name}/{file}") for file, record in facts["files"].items()}
    if set(files) - {INSTANCE_LABELS} != {FEATURES, OFFSETS, LABELS, IDS}:
        _refuse(f"{name} lacks files or has unknown ones")
    for file, size in expected_bytes(bags, instances, n_features, dtype).items():
        if file in files and files[file].bytes != size:
            _refuse(f"{name}/{file} should have {size} bytes for its counts, not {files[file].bytes}")
    return Segment(name, bags, instances, files)


def _digest(value: Any, what: str) -> Digest:
    facts = _fields(value, FILE_SCHEMA, what)
    size, blocks = _count(facts["bytes"], f"{what} bytes"), facts["blocks"]
    n_blocks = -(-size // BLOCK) if size > BLOCK else 0
    if len(blocks) != n_blocks or not all(
        isinstance(h, str) and SHA256.fullmatch(h) for h in (facts["sha256"], *blocks)
    ):
        _refuse(f"the checksums of {what} are none")
    return Digest(size, facts["sha256"], tuple(blocks))


def _fields(value: Any, schema: Mapping[str, tuple[type, ...]], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(f"{what} is not an object")
    for verb, names in (("lacks", set(schema) - set(value)), ("has unknown", set(value) - set(schema))):
        if names:
            _refuse(f"{what} {verb} {', '.join(sorted(names))}")
    for name, kinds in schema.items():
        if type(value[name]) not in kinds:
            _refuse(f"{what} has {name} of the wrong kind")
    found: dict[str, Any] = value
    return found


def _count(value: int, what: str) -> int:
    if not 1 <= value <= MAX_COUNT:
        _refuse(f"{what} is out of range")
    return value


def _refuse(reason: str) -> NoReturn:
    raise InputError(f"{MANIFEST} of the store is damaged: {reason[:300]}. Import the data again.")
