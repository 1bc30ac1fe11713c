"""Model files: safetensors with JSON metadata, written atomically and checked strictly. No code runs on load."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from psimil.files.paths import as_path
from psimil.files.schema import (
    BROKEN,
    DENSITIES,
    check_tensors,
    is_finite,
    kernel_from,
    kernel_json,
    model_from,
    model_tensors,
    require,
)
from psimil.files.sealed import MODEL, seal, unseal
from psimil.foundations.errors import InputError, ModelFileError
from psimil.model.custom_density import LostDensity
from psimil.model.kernels import Kernel
from psimil.model.labels import ZERO_ONE, Classes
from psimil.model.sparse_gp import SparseGP
from psimil.predictive.trained import TrainedModel
from psimil.version import VERSION

FORMAT = 6  # 1 had no names and classes, and as 2 independent instances; 3 no context, 4 no sharing, 5 no bag_column
MAX_TENSORS = 64
PROBES = 4
FACTOR_ERROR = 1e-9  # of K_zz: a factor leaves some 1e-14, on another processor, too


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
    bag_column : by which a table's bags were made, where it was named.
    """

    model: TrainedModel
    parameters: dict[str, Any]
    feature_fingerprint: str | None
    training_counts: dict[str, int]
    library_version: str = ""
    feature_names: tuple[str, ...] | None = None
    classes: Classes = ZERO_ONE
    bag_column: str | None = None


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
        "bag_column": file.bag_column,
    }
    seal(target, tensors, header)


def load_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file; anything that does not follow the schema is refused."""
    tensors, header = unseal(path, MODEL, FORMAT, max_tensors=MAX_TENSORS)
    if header["format"] == 1:
        header = {"feature_names": None, "classes": [0, 1], **header}
    if header["format"] < 6:
        header = {"bag_column": None, **header}
    if header["format"] < 5 and isinstance(header.get("model"), dict):
        absent = {"joint": False, "novelty": None, "referral": None, "chains": None} if header["format"] < 3 else {}
        later = {"coupling": 0.0, "sharing": 0.0, "context": False, "context_evidence": None}
        header["model"] = {**later, **absent, **header["model"]}
    expected = {"format", "library", "parameters", "model", "feature_fingerprint", "training_counts"}
    expected |= {"feature_names", "classes", "bag_column"}
    require(set(header) == expected, f"header keys differ: {', '.join(sorted(set(header) ^ expected))}.")
    check_tensors(tensors, header["model"])
    _check_counts(header)
    model = model_from(tensors, header["model"])
    _check_factor(model.gp)
    _check_names(header, model.n_features)
    return ModelFile(
        model,
        parameters_from(header["parameters"]),
        header["feature_fingerprint"],
        header["training_counts"],
        header["library"],
        None if header["feature_names"] is None else tuple(header["feature_names"]),
        Classes(*header["classes"]),
        header["bag_column"],
    )


def _check_counts(header: dict[str, Any]) -> None:
    """Refuse training counts, versions and fingerprints of the wrong kind."""
    counts = header["training_counts"]
    right = isinstance(counts, dict) and set(counts) == {"bags", "positive", "instances"}
    require(right, "the training counts are incomplete or unknown.")
    right = all(type(value) is int and value >= 0 for value in counts.values())
    require(right, "the training counts must be integers >= 0.")
    right = counts["positive"] <= counts["bags"] <= counts["instances"]
    require(right, "the training counts exclude each other.")
    right = isinstance(header["library"], str) and isinstance(header["feature_fingerprint"], (str, type(None)))
    require(right, "library version and feature fingerprint must be text.")


def _check_names(header: dict[str, Any], n_features: int) -> None:
    """Refuse names of features, classes and bags that no model can have."""
    names, classes = header["feature_names"], header["classes"]
    require(isinstance(header["bag_column"], (str, type(None))), "the column of the bags is not text.")
    if names is not None:
        right = isinstance(names, list) and all(isinstance(name, str) for name in names)
        require(right, "the names of the features are not text.")
        right = len(names) == n_features == len(set(names))
        require(right, f"{n_features} features need as many different names.")
    right = isinstance(classes, list) and len(classes) == 2 and classes[0] != classes[1]
    require(right, "classes are not two different labels.")
    right = len({isinstance(label, str) for label in classes}) == 1
    right = right and all(isinstance(label, (bool, str)) or is_finite(label) for label in classes)
    require(right, "classes are not two numbers or two texts.")


def _check_factor(gp: SparseGP) -> None:
    """Refuse a factor L that is not that of K_zz + jitter I, by its product with a few random vectors."""
    x = np.random.default_rng().standard_normal((len(gp.Z), PROBES))  # unknown to who made the file
    K = gp.kernel.gram(gp.Z, gp.Z)
    error = gp.L @ (gp.L.T @ x) - K @ x - gp.jitter * x
    size = np.linalg.norm(K) + gp.jitter
    right = bool(np.linalg.norm(error) <= FACTOR_ERROR * size * np.linalg.norm(x))
    require(right, "the kernel's factor does not belong to kernel and inducing points.")


def parameters_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters as JSON; a density of the user's own is kept by name only."""
    encoded: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Kernel):
            encoded[name] = kernel_json(value)
        elif type(value) in DENSITIES.values() and is_dataclass(value):
            encoded[name] = {"kind": type(value).__name__, **{f.name: getattr(value, f.name) for f in fields(value)}}
        elif isinstance(value, float) and math.isinf(value):
            encoded[name] = "inf"
        elif isinstance(value, np.generic):
            encoded[name] = value.item()
        elif value is None or isinstance(value, (bool, int, float, str)):
            encoded[name] = value
        else:
            encoded[name] = {"kind": "custom", "name": str(getattr(value, "name", type(value).__name__))}
    return encoded


def parameters_from(parameters: Any) -> dict[str, Any]:
    """Constructor parameters from JSON; of a density of the user's own the name comes back."""
    require(isinstance(parameters, dict), "parameters are not a table.")
    try:
        decoded = {name: _parameter(value) for name, value in parameters.items()}
    except BROKEN as error:
        raise ModelFileError(f"model file: parameters: {error}") from None
    return {k: v for k, v in decoded.items() if k == "density" or not isinstance(v, LostDensity)}


def _parameter(value: Any) -> Any:
    if isinstance(value, list):
        raise InputError("a list is not a parameter.")
    if not isinstance(value, dict):
        return np.inf if value == "inf" else value
    values = dict(value)
    kind = values.get("kind")
    if kind == "custom":
        return LostDensity(str(values.get("name")))
    if kind not in DENSITIES:
        return kernel_from(values)
    del values["kind"]
    if not all(map(is_finite, values.values())):
        raise InputError(f"the parameters of density {kind} are not numbers.")
    return DENSITIES[kind](**values)
