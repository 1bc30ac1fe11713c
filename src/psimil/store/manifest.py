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
FORMAT, VERSION = "psimil store", 3  # 1 had no classes, 1 and 2 no bag_column; both are written where they say it all
TEXT, WHOLE = "text", "whole numbers"
MAX_BYTES, MAX_COUNT = 256 << 20, 1 << 48
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
BROKEN = (KeyError, TypeError, ValueError, AttributeError)


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
    bag_column : column of the source by which its bags were made, where one was named.

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
    bag_column: str | None = None

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
            "version": VERSION if self.bag_column is not None else 1 if self.classes == ZERO_ONE else 2,
            "generation": self.generation,
            "dtype": self.dtype,
            "features": self.features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            **({} if self.classes == ZERO_ONE else {"classes": list(self.classes)}),
            **({} if self.bag_column is None else {"bag_column": self.bag_column}),
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
    >>> decoded(b'{"format": "psimil store", "version": 2}')
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: manifest.json of the store is damaged: it lacks 'features'. ...
    """
    try:
        facts = json.loads(content) if len(content) <= MAX_BYTES else _refuse("it is too large")
    except (ValueError, RecursionError):
        _refuse("it is not JSON" if content else "it is empty")
    version = facts.get("version") if isinstance(facts, dict) and facts.get("format") == FORMAT else None
    if type(version) is int and version > VERSION:
        raise InputError(f"the store has version {version}; this psimil reads {VERSION}. Update psimil.")
    if version not in range(1, VERSION + 1):
        _refuse("it is not of a psimil store")
    try:
        manifest = _manifest(facts)
    except InputError:
        raise
    except BROKEN as error:
        missing = f"it lacks {error}" if isinstance(error, KeyError) else "it has a value of the wrong kind"
        _refuse(missing)
    if manifest.encoded() != content:  # nothing in it is unknown, and everything as it was written
        raise InputError(f"{MANIFEST} of the store was changed: its checksum differs. Import the data again.")
    return manifest


def _manifest(facts: dict[str, Any]) -> Manifest:
    """Of facts that were not looked at; one of BROKEN where something is missing or of another kind."""
    D, dtype, ids, names = (facts[name] for name in ("features", "dtype", "ids", "feature_names"))
    classes = facts["classes"] if facts["version"] == 2 else facts.get("classes", ZERO_ONE)
    bag_column = facts["bag_column"] if facts["version"] == VERSION else None
    if dtype not in DTYPES or ids not in (TEXT, WHOLE):
        _refuse("dtype or ids have an unknown value")
    _count(D, "features")
    if names is not None and (len(names) != D or not all(isinstance(name, str) for name in names)):
        _refuse(f"it has {D} features but other feature_names")
    parts = tuple(_segment(segment, D, dtype) for segment in facts["parts"])
    if not parts or len({segment.name for segment in parts}) < len(parts):
        _refuse("its parts are none or not distinct")
    if not all(map(is_label, classes)) or len({isinstance(label, str) for label in classes}) > 1:
        _refuse("its classes are not two labels")
    if not isinstance(bag_column, (str, type(None))):
        _refuse("its bag_column is not text")
    names, generation = None if names is None else tuple(names), _count(facts["generation"], "generation")
    manifest = Manifest(dtype, D, ids, parts, names, generation, Classes(*classes), bag_column)
    if manifest.classes.negative == manifest.classes.positive:
        _refuse("its classes are the same")
    return manifest


def _segment(value: Any, n_features: int, dtype: str) -> Segment:
    name, bags, instances = value["name"], _count(value["bags"], "bags"), _count(value["instances"], "instances")
    if not SEGMENT.fullmatch(name):
        _refuse("a part has a name that is none")
    files = {file: _digest(record, f"{name}/{file}") for file, record in value["files"].items()}
    if set(files) - {INSTANCE_LABELS} != {FEATURES, OFFSETS, LABELS, IDS}:
        _refuse(f"{name} lacks files or has unknown ones")
    for file, size in expected_bytes(bags, instances, n_features, dtype).items():
        if file in files and files[file].bytes != size:
            _refuse(f"{name}/{file} should have {size} bytes for its counts, not {files[file].bytes}")
    return Segment(name, bags, instances, files)


def _digest(value: Any, what: str) -> Digest:
    size, sha256, blocks = _count(value["bytes"], f"{what} bytes"), value["sha256"], value["blocks"]
    n_blocks = -(-size // BLOCK) if size > BLOCK else 0
    if len(blocks) != n_blocks or not all(SHA256.fullmatch(digest) for digest in (sha256, *blocks)):
        _refuse(f"the checksums of {what} are none")
    return Digest(size, sha256, tuple(blocks))


def _count(value: Any, what: str) -> int:
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        _refuse(f"{what} is out of range")
    return value


def _refuse(reason: str) -> NoReturn:
    raise InputError(f"{MANIFEST} of the store is damaged: {reason[:300]}. Import the data again.")
