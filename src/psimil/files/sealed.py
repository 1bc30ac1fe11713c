"""The seal of all files of tensors: safetensors with a JSON header, a checksum over both, and no code that runs."""

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

FORMAT = 2  # 1 is the seal of 1.0.0, which is read
MODEL = "model file"
MAX_BYTES = 2**30
MAX_HEADER = 2**22
MAX_TENSORS = 4096
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
_BROKEN = (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def seal(path: str | os.PathLike[str], tensors: Tensors, header: dict[str, Any], *, allow_nan: bool = False) -> None:
    """Write tensors and a JSON header atomically, with a checksum over both; equal content gives equal bytes."""
    text = json.dumps(header, sort_keys=True, allow_nan=allow_nan)
    data = save_tensors(tensors, metadata={"psimil": text, "sha256": checksum(tensors, text)})
    size = int.from_bytes(data[:8], "little")  # safetensors shuffles the metadata: put its header in order
    ordered = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    ordered += b" " * (-len(ordered) % 8)
    content = b"".join((len(ordered).to_bytes(8, "little"), ordered, data[8 + size :]))
    atomic_write(as_path(path), lambda stream: stream.write(content))


def unseal(
    path: str | os.PathLike[str],
    kind: str,
    newest: int,
    *,
    max_bytes: int | None = None,
    max_tensors: int = MAX_TENSORS,
) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and the header that :func:`seal` wrote; damaged and foreign files are refused.

    Parameters
    ----------
    kind : what the file should be; the header of a model has none.
    newest : largest "format" of the header that this version knows.
    max_bytes, max_tensors : that it may have; MAX_BYTES when None.
    """
    data = _bytes(as_path(path), kind, max_bytes or MAX_BYTES)
    try:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > min(MAX_HEADER, len(data) - 8):
            raise ValueError(f"header of {size} bytes in a file of {len(data)}")
        entries = json.loads(data[8 : 8 + size])
        if len(entries) > max_tensors:
            raise ValueError(f"{len(entries)} tensors, above the limit of {max_tensors}")
        metadata = entries["__metadata__"]
        text, start, expected = metadata["psimil"], metadata["psimil"], metadata.get("sha256")
        if expected is None:  # files of 1.0.0 that held no model
            text, expected = (json.loads(text)[name] for name in ("header", "sha256"))
            start = f"{len(text)}:{text}"
        header, tensors = json.loads(text), load_tensors(data)
        if (actual := header.get("kind", MODEL)) != kind:
            raise ValueError(f"a {str(actual)[:80]}")
    except _BROKEN as error:
        why = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise ModelFileError(f"{kind} is not valid: the file is damaged or is something else: {why}.") from None
    if type(header.get("format")) is not int or header["format"] < 1:
        raise ModelFileError(f"{kind} is not valid: no format version.")
    if header["format"] > newest:
        raise ModelFileError(f"{kind}: made by version {header['format']}, this is version {newest}.")
    if expected != checksum(tensors, start):
        raise ModelFileError(f"{kind}: checksum differs: file is damaged or was changed.")
    return tensors, header


def write_tensors(path: str | os.PathLike[str], kind: str, tensors: Tensors, header: dict[str, Any]) -> None:
    """Seal tensors and a header with the name of their kind, which :func:`read_tensors` asks for."""
    seal(path, tensors, {"format": FORMAT, "kind": kind} | header)


def read_tensors(path: str | os.PathLike[str], kind: str) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and the header that :func:`write_tensors` wrote; damaged and foreign files are refused."""
    tensors, header = unseal(path, kind, FORMAT)
    return tensors, {name: value for name, value in header.items() if name not in ("format", "kind")}


def checksum(tensors: Mapping[str, NDArray[Any]], text: str) -> str:
    """SHA-256 in hexadecimal of a text and of names, dtypes, shapes and bytes of tensors.

    Examples
    --------
    >>> checksum({"a": np.zeros(2)}, "x") == checksum({"a": np.zeros((2, 1))}, "x")
    False
    """
    running = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        running.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        running.update(array.data.cast("B") if array.size else b"")
    return running.hexdigest()


def _bytes(path: Path, kind: str, max_bytes: int) -> bytes:
    if not path.exists():
        raise MissingFile(f"{kind} {path.name} does not exist. Check the path.")
    if not path.is_file():
        raise ModelFileError(f"{kind} {path.name} is not a file.")
    if path.stat().st_size > max_bytes:
        raise ModelFileError(f"{kind} {path.name} is above the limit of {max_bytes} bytes.")
    data = path.read_bytes()
    looks_ours = int.from_bytes(data[:8], "little") <= MAX_HEADER  # a header of 66 944 bytes begins like a pickle, too
    if data[:4] == _ZIP or (data[:1] == _PICKLE and len(data) > 1 and data[1] <= 5 and not looks_ours):
        raise ModelFileError(
            f"{kind} is a Python pickle; such files can run code and are not loaded. "
            "Convert with the program that made it, then save with psimil."
        )
    return data
