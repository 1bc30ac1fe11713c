"""Names and sizes of the files of a store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from psimil.files.paths import as_path

MANIFEST = "manifest.json"
FEATURES, OFFSETS, LABELS, INSTANCE_LABELS = "features.bin", "offsets.bin", "labels.bin", "instance_labels.bin"
IDS = "ids.json"
DTYPES: Mapping[str, str] = {"float32": "<f4", "float64": "<f8"}
OFFSET_DTYPE, LABEL_DTYPE = "<i8", "i1"
PART = re.compile(r"part-\d{4,9}", re.ASCII)


def part_name(number: int) -> str:
    """Name of the folder of a part.

    Examples
    --------
    >>> part_name(7)
    'part-0007'
    """
    return f"part-{number:04d}"


def part_numbers(root: Path) -> list[int]:
    """Numbers of the parts in a folder, named by its manifest or not, ascending.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     (Path(directory) / part_name(3)).mkdir()
    ...     part_numbers(Path(directory))
    [3]
    """
    return sorted(int(path.name[5:]) for path in root.iterdir() if PART.fullmatch(path.name))


def expected_bytes(n_bags: int, n_instances: int, n_features: int, dtype: str) -> dict[str, int]:
    """Bytes of each file whose size follows from the counts of a part.

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
