"""Tensors and a JSON header in one safetensors file, with a checksum over both, written atomically."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.foundations.errors import MissingFile, ModelFileError

Tensors = dict[str, NDArray[Any]]

FORMAT = 1
MAX_BYTES = 2**30
MAX_HEADER = 2**22


def write_tensors(path: str | os.PathLike[str], kind: str, tensors: Tensors, header: dict[str, Any]) -> None:
    """Write tensors and a JSON header atomically, with a checksum over both."""
    text = json.dumps({"format": FORMAT, "kind": kind} | header, sort_keys=True, allow_nan=False)
    sealed = json.dumps({"header": text, "sha256": digest(tensors, text)}, sort_keys=True)
    data = save_tensors(tensors, metadata={"psimil": sealed})  # one entry: safetensors shuffles several
    atomic_write(as_path(path), lambda stream: stream.write(data))


def read_tensors(path: str | os.PathLike[str], kind: str) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and the header that :func:`write_tensors` wrote; damaged and foreign files are refused."""
    data = _bytes(as_path(path), kind)
    try:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > min(MAX_HEADER, len(data) - 8):
            raise ValueError("the header is cut short")
        sealed = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["psimil"])
        text, checksum = sealed["header"], sealed["sha256"]
        header = json.loads(text)
        tensors = load_tensors(data)
        version, found = header.pop("format"), header.pop("kind")
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(f"{kind}: the file is damaged or is something else.") from None
    if checksum != digest(tensors, text):
        raise ModelFileError(f"{kind}: checksum differs: the file is damaged or was changed.")
    if found != kind or type(version) is not int or version < 1:
        raise ModelFileError(f"{kind}: the file holds something else.")
    if version > FORMAT:
        raise ModelFileError(f"{kind}: made by format {version}, this is format {FORMAT}. Update psimil.")
    return tensors, header


def digest(tensors: Mapping[str, NDArray[Any]], text: str) -> str:
    """SHA-256 in hexadecimal of a text and of names, dtypes, shapes and bytes of tensors.

    Examples
    --------
    >>> digest({"a": np.zeros(2)}, "x") == digest({"a": np.zeros((2, 1))}, "x")
    False
    """
    running = hashlib.sha256(f"{len(text)}:{text}".encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        running.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        running.update(array.data.cast("B") if array.size else b"")
    return running.hexdigest()


def _bytes(path: Path, kind: str) -> bytes:
    if not path.exists():
        raise MissingFile(f"{kind}: {path.name} does not exist. Check the path.")
    if not path.is_file():
        raise ModelFileError(f"{kind}: {path.name} is not a file.")
    if path.stat().st_size > MAX_BYTES:
        raise ModelFileError(f"{kind}: {path.name} is above the limit of {MAX_BYTES} bytes.")
    return path.read_bytes()
