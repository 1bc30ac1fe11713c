"""Model files: safetensors with JSON metadata, written atomically and checked strictly. No code runs on load."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from psimil.files.atomic import atomic_write
from psimil.files.learned_facts import check_factor, is_number
from psimil.files.paths import as_path
from psimil.files.schema import (
    check_tensors,
    model_from,
    model_tensors,
    parameters_from,
    parameters_json,
)
from psimil.foundations.errors import InputError, MissingFile, ModelFileError
from psimil.inference.trained import TrainedModel
from psimil.model.labels import ZERO_ONE, Classes
from psimil.version import VERSION

Array = NDArray[Any]

FORMAT = 4  # 1 had no feature_names and classes; 1 and 2 took instances of a bag for independent; 3 had no context
MAX_BYTES = 2**30
MAX_HEADER = 2**22
MAX_TENSORS = 64
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Parameters
    ----------
    parameters : constructor parameters of the estimator.
    feature_fingerprint : names what made the features, or None.
    training_counts : numbers of bags, positive bags and instances it was trained on.
    library_version : version of psimil that wrote the file; "" before it is written.
    feature_names : D names of the features, or None.
    classes : the labels of negative and of positive bags.
    """

    model: TrainedModel
    parameters: dict[str, Any]
    feature_fingerprint: str | None
    training_counts: dict[str, int]
    library_version: str = ""
    feature_names: tuple[str, ...] | None = None
    classes: Classes = ZERO_ONE


def save_model(path: str | os.PathLike[str], file: ModelFile) -> None:
    """Write a model file; what was at ``path`` before stays intact until the new file is complete."""
    target = as_path(path)
    tensors, facts = model_tensors(file.model)
    header = {
        "format": FORMAT,
        "library": VERSION,
        "parameters": parameters_json(file.parameters),
        "model": facts,
        "feature_fingerprint": file.feature_fingerprint,
        "training_counts": file.training_counts,
        "feature_names": None if file.feature_names is None else list(file.feature_names),
        "classes": list(file.classes),
    }
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    data = _reproducible(save_tensors(tensors, metadata={"psimil": text, "sha256": _digest(tensors, text)}))
    atomic_write(target, lambda stream: _write(stream, data))


def load_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file; anything that does not follow the schema is refused."""
    data = _read(as_path(path))
    try:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > min(MAX_HEADER, len(data) - 8):
            raise ValueError(f"header of {size} bytes in a file of {len(data)}")
        entries = json.loads(data[8 : 8 + size])
        if len(entries) > MAX_TENSORS:
            raise ValueError(f"{len(entries)} tensors, above the limit of {MAX_TENSORS}")
        metadata = entries["__metadata__"]
        text = metadata["psimil"]
        header = json.loads(text)
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"model file is not valid: {_first_line(error)}.") from None
    if not isinstance(header, dict) or type(header.get("format")) is not int or header["format"] < 1:
        raise ModelFileError("model file is not valid: no format version.")
    if header["format"] > FORMAT:
        raise ModelFileError(f"model file: made by version {header['format']}, this is version {FORMAT}.")
    if metadata.get("sha256") != _digest(tensors, text):
        raise ModelFileError("model file: checksum differs: file is damaged or was changed.")
    if header["format"] == 1:
        header = {"feature_names": None, "classes": [0, 1], **header}
    if header["format"] < FORMAT and isinstance(header.get("model"), dict):
        absent = {"joint": False, "novelty": None, "referral": None, "chains": None} if header["format"] < 3 else {}
        later = {"coupling": 0.0, "context": False, "context_evidence": None}
        header["model"] = {**later, **absent, **header["model"]}
    expected = {"format", "library", "parameters", "model", "feature_fingerprint", "training_counts"}
    expected |= {"feature_names", "classes"}
    if set(header) != expected:
        raise ModelFileError(f"model file: header keys differ: {', '.join(sorted(set(header) ^ expected))}.")
    check_tensors(tensors, header["model"])
    _check_counts(header)
    model = model_from(tensors, header["model"])
    try:
        check_factor(model.gp)
    except InputError as error:
        raise ModelFileError(f"model file: {error}") from None
    _check_names(header, model.n_features)
    return ModelFile(
        model,
        parameters_from(header["parameters"]),
        header["feature_fingerprint"],
        header["training_counts"],
        header["library"],
        None if header["feature_names"] is None else tuple(header["feature_names"]),
        Classes(*header["classes"]),
    )


def _check_counts(header: dict[str, Any]) -> None:
    """Refuse training counts, versions and fingerprints of the wrong kind."""
    counts, names = header["training_counts"], ("bags", "positive", "instances")
    if not isinstance(counts, dict) or set(counts) != set(names):
        raise ModelFileError("model file: the training counts are incomplete or unknown.")
    if not all(type(value) is int and value >= 0 for value in counts.values()):
        raise ModelFileError("model file: the training counts must be integers >= 0.")
    if not counts["positive"] <= counts["bags"] <= counts["instances"]:
        raise ModelFileError("model file: the training counts exclude each other.")
    if not isinstance(header["library"], str) or not isinstance(header["feature_fingerprint"], (str, type(None))):
        raise ModelFileError("model file: library version and feature fingerprint must be text.")


def _check_names(header: dict[str, Any], n_features: int) -> None:
    """Refuse names of features and classes that no model can have."""
    names, classes = header["feature_names"], header["classes"]
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ModelFileError("model file: the names of the features are not text.")
        if len(names) != n_features or len(set(names)) < len(names):
            raise ModelFileError(f"model file: {n_features} features need as many different names.")
    if not isinstance(classes, list) or len(classes) != 2 or classes[0] == classes[1]:
        raise ModelFileError("model file: classes are not two different labels.")
    if len({isinstance(label, str) for label in classes}) > 1 or not all(
        isinstance(label, (bool, str)) or is_number(label) for label in classes
    ):
        raise ModelFileError("model file: classes are not two numbers or two texts.")


def _read(path: Path) -> bytes:
    if not path.exists():
        raise MissingFile(f"model file {path.name} does not exist. Check the path.")
    if not path.is_file():
        raise ModelFileError(f"model file {path.name} is not a file.")
    if path.stat().st_size > MAX_BYTES:
        raise ModelFileError(f"model file {path.name} is above the limit of {MAX_BYTES} bytes.")
    data = path.read_bytes()
    looks_ours = int.from_bytes(data[:8], "little") <= MAX_HEADER  # a header of 66 944 bytes begins like a pickle, too
    if data[:4] == _ZIP or (data[:1] == _PICKLE and len(data) > 1 and data[1] <= 5 and not looks_ours):
        raise ModelFileError(
            "model file is a Python pickle; such files can run code and are not loaded. "
            "Convert with the program that made it, then save with PsiVGPMIL.save."
        )
    return data


def _reproducible(data: bytes) -> bytes:
    """The same file with its header in one fixed order: safetensors shuffles the metadata."""
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def _write(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)


def _digest(tensors: dict[str, Array], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}:{tensor.dtype.str}:{tensor.shape}:".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
