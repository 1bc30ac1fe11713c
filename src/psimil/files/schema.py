"""The schema of a model file: which tensors and facts it holds, and what each must satisfy."""

from __future__ import annotations

import math
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.files.learned_facts import (
    above_zero,
    chains_from,
    evidence_from,
    is_number,
    recalibration_from,
    referral_from,
    share,
    without_draws,
)
from psimil.foundations.errors import InputError, ModelFileError
from psimil.inference.sparse_gp import Posterior, Scaling, SparseGP
from psimil.inference.trained import TrainedModel
from psimil.model.context import PARTS
from psimil.model.custom_density import LostDensity
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT
from psimil.model.kernels import RBF, Constant, Kernel, Linear, Matern32, Matern52, Sum
from psimil.paper.published import ClippedGammaMixture, UnitSparseGP
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.moments import Calibration
from psimil.predictive.novelty import Novelty

Array = NDArray[Any]

KERNELS = {c.__name__: c for c in (RBF, Matern32, Matern52, Linear, Constant)}
DENSITIES = {
    c.__name__: c
    for c in (
        HyperbolicSecant,
        GammaMixture,
        ClippedGammaMixture,
        StudentT,
        SmoothLaplace,
    )
}
FACTS = {
    "kernel", "jitter", "bias", "residual", "aggregate", "calibration", "threshold", "instance_threshold",
    "dtype", "expectation", "seed", "joint", "novelty", "referral", "chains", "coupling", "context",
    "context_evidence",
}  # fmt: skip
LARGEST_CALIBRATION = 1e6  # a fit stays within exp(6) and 50


def model_tensors(model: TrainedModel) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors and the JSON facts of a trained model."""
    gp, q = model.gp, model.posterior
    tensors = {
        "inducing_points": gp.Z,
        "kernel_factor": gp.L,
        "posterior_mean": q.m,
        "precision_factor": q.R,
        "feature_location": model.scaling.location,
        "feature_scale": model.scaling.scale,
    }
    if model.chains is not None:
        tensors["draws"] = model.chains.v
    if model.recalibration is not None:
        tensors["recalibration_log_odds"] = model.recalibration.log_odds
        tensors["recalibration_prob"] = model.recalibration.prob
    facts = {
        "kernel": kernel_json(gp.kernel),
        "jitter": gp.jitter,
        "bias": gp.bias,
        "residual": "unit" if isinstance(gp, UnitSparseGP) else gp.residual,
        "aggregate": model.aggregate,
        "calibration": asdict(model.calibration),
        "threshold": model.threshold,
        "instance_threshold": model.instance_threshold,
        "dtype": model.dtype,
        "expectation": model.expectation,
        "seed": model.seed,
        "joint": model.joint,
        "novelty": None if model.novelty is None else model.novelty.square,
        "referral": None if model.referral is None else asdict(model.referral),
        "chains": None if model.chains is None else without_draws(model.chains),
        "coupling": model.coupling,
        "context": model.context,
        "context_evidence": None if model.context_evidence is None else list(model.context_evidence),
    }
    return {name: np.ascontiguousarray(t, dtype=np.float64) for name, t in tensors.items()}, facts


def check_tensors(tensors: dict[str, Array], facts: Any) -> None:
    """Refuse missing or unknown keys, wrong dtypes or shapes, and values no model can have."""
    if not isinstance(facts, dict) or set(facts) != FACTS:
        raise ModelFileError("model file: the model's facts are incomplete or unknown.")
    if "inducing_points" not in tensors or tensors["inducing_points"].ndim != 2:
        raise ModelFileError('model file: tensor "inducing_points" is missing or not a matrix.')
    M, D = tensors["inducing_points"].shape
    P = M + (1 if facts["bias"] else 0)
    shapes: dict[str, tuple[int, ...]] = {
        "inducing_points": (M, D), "kernel_factor": (M, M), "posterior_mean": (P,), "precision_factor": (P, P),
        "feature_location": (D,), "feature_scale": (D,),
    }  # fmt: skip
    if facts["chains"] is not None:
        shapes["draws"] = (*tensors.get("draws", np.empty(0)).shape[:1], P)
    if "recalibration_prob" in tensors:
        shapes |= {name: (tensors["recalibration_prob"].size,) for name in tensors if name.startswith("recalibration_")}
    for name in sorted(set(shapes) ^ set(tensors)):
        raise ModelFileError(f'model file: tensor "{name}" is {"missing" if name in shapes else "unknown"}.')
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tensor.dtype != np.float64:
            raise ModelFileError(f'model file: tensor "{name}" is {tensor.dtype}, expected float64.')
        if tensor.shape != shape:
            raise ModelFileError(f'model file: tensor "{name}" is {tensor.shape}, expected {shape}.')
        if not np.isfinite(tensor).all():
            raise ModelFileError(f'model file: tensor "{name}" has non-finite values.')
    for name in ("kernel_factor", "precision_factor"):
        if (np.diag(tensors[name]) <= 0).any() or np.triu(tensors[name], 1).any():
            raise ModelFileError(f'model file: tensor "{name}" is not the factor of a positive definite matrix.')
    if (tensors["feature_scale"] <= 0).any():
        raise ModelFileError('model file: tensor "feature_scale" must be > 0.')


def model_from(tensors: dict[str, Array], facts: dict[str, Any]) -> TrainedModel:
    """The trained model of checked tensors and facts."""
    try:
        for name, most in _MOST.items():
            if not is_number(facts[name]) or not 0 <= facts[name] <= most:
                raise InputError(f"{name} must be a number between 0 and {most}, got {facts[name]}.")
        if not isinstance(facts["seed"], int) or facts["seed"] < 0:
            raise InputError(f"seed must be an integer >= 0, got {facts['seed']}.")
        for name, allowed in _CHOICES.items():
            if facts[name] not in allowed:
                raise InputError(f"{name} is {facts[name]!r}.")
        if facts["context"] and len(tensors["feature_scale"]) % PARTS:
            raise InputError(f"{len(tensors['feature_scale'])} features are not those of instances in context.")
        calibration = Calibration(**facts["calibration"])
        numbers = list(asdict(calibration).values())
        if not all(map(is_number, numbers)) or min(calibration.scale, calibration.spread) <= 0:
            raise InputError("the calibration is not increasing.")
        if max(map(abs, numbers)) > LARGEST_CALIBRATION:
            raise InputError(f"the calibration has numbers above {LARGEST_CALIBRATION:g}.")
        kernel = kernel_from(facts["kernel"])
        unit = facts["residual"] == "unit"
        gp = (UnitSparseGP if unit else SparseGP)(
            kernel.resolve(tensors["inducing_points"].shape[1]),
            tensors["inducing_points"],
            tensors["kernel_factor"],
            facts["jitter"],
            facts["bias"],
            "full" if unit else facts["residual"],
        )
        return TrainedModel(
            Scaling(tensors["feature_location"], tensors["feature_scale"]),
            gp,
            Posterior(tensors["posterior_mean"], tensors["precision_factor"]),
            facts["aggregate"],
            calibration,
            share(facts["threshold"], "threshold"),
            share(facts["instance_threshold"], "instance_threshold"),
            recalibration_from(tensors),
            facts["dtype"],
            facts["expectation"],
            facts["seed"],
            facts["joint"],
            None if facts["novelty"] is None else Novelty(above_zero(facts["novelty"], "novelty")),
            None if facts["referral"] is None else referral_from(facts["referral"]),
            None if facts["chains"] is None else chains_from(facts["chains"], tensors["draws"]),
            facts["coupling"],
            facts["context"],
            None if facts["context_evidence"] is None else evidence_from(facts["context_evidence"]),
        )
    except _BROKEN as error:
        raise ModelFileError(f"model file: {error}") from None


_BROKEN = (InputError, TypeError, KeyError, ValueError, AttributeError, OverflowError, RecursionError)
_MOST = {"jitter": 1e300, "bias": 1e6, "coupling": 100.0}
_CHOICES = {
    "residual": ("projected", "full", "unit"),
    "aggregate": tuple(AGGREGATES),
    "dtype": ("float64", "float32"),
    "expectation": ("quadrature", "sample"),
    "joint": (True, False),
    "context": (True, False),
}


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """A kernel as JSON.

    Examples
    --------
    >>> kernel_json(RBF(2.0, 1.0))
    {'kind': 'RBF', 'variance': 2.0, 'lengthscale': 1.0}
    """
    if isinstance(kernel, Sum):
        return {"kind": "Sum", "left": kernel_json(kernel.left), "right": kernel_json(kernel.right)}
    if type(kernel).__name__ not in KERNELS:
        raise InputError(f"a model with kernel {type(kernel).__name__} cannot be saved.")
    values = {f.name: getattr(kernel, f.name) for f in fields(kernel) if not f.name.startswith("_")}  # type: ignore[arg-type]
    return {"kind": type(kernel).__name__} | {
        k: list(map(float, v)) if np.ndim(v) else (None if v is None else float(v)) for k, v in values.items()
    }


def kernel_from(facts: Any) -> Kernel:
    """The kernel of its JSON; its own constructor checks the values.

    Examples
    --------
    >>> kernel_from({"kind": "Linear", "variance": 3.0})
    Linear(variance=3.0)
    """
    values = dict(facts)
    kind = values.pop("kind")
    if kind == "Sum" and set(values) == {"left", "right"}:
        return Sum(kernel_from(values["left"]), kernel_from(values["right"]))
    if not isinstance(kind, str) or kind not in KERNELS:
        raise InputError(f"unknown kernel {kind!r}.")
    if not is_number(values["variance"]) or any(name.startswith("_") for name in values):
        raise InputError(f"the parameters of kernel {kind} are not numbers.")
    if isinstance(values.get("lengthscale"), list):
        values["lengthscale"] = tuple(values["lengthscale"])
    return KERNELS[kind](**values)


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
    if not isinstance(parameters, dict):
        raise ModelFileError("model file: parameters are not a table.")
    try:
        decoded = {name: _parameter(value) for name, value in parameters.items()}
    except _BROKEN as error:
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
    if not all(map(is_number, values.values())):
        raise InputError(f"the parameters of density {kind} are not numbers.")
    return DENSITIES[kind](**values)
