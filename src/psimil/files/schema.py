"""The schema of a model file: which tensors and facts it holds, and what each must satisfy."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError, ModelFileError
from psimil.foundations.hamiltonian import Chains
from psimil.model.context import PARTS
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT
from psimil.model.kernels import RBF, Columns, Constant, Kernel, Linear, Matern32, Matern52, Sum
from psimil.model.scaling import Scaling
from psimil.model.shared_labels import MOST_SHARING
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.published import ClippedGammaMixture, UnitSparseGP
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.moments import Calibration
from psimil.predictive.novelty import Novelty
from psimil.predictive.referral import Referral
from psimil.predictive.thresholds import InstanceRecalibration
from psimil.predictive.trained import TrainedModel

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
CHOICES = {
    "residual": ("projected", "full", "unit"),
    "aggregate": tuple(AGGREGATES),
    "dtype": ("float64", "float32"),
    "expectation": ("quadrature", "sample"),
    "joint": (True, False),
    "context": (True, False),
}
MOST = {"jitter": 1e300, "bias": 1e6, "coupling": 100.0, "sharing": MOST_SHARING}
OTHERS = {
    "kernel", "calibration", "threshold", "instance_threshold", "seed", "novelty", "referral", "chains",
    "context_evidence",
}  # fmt: skip
LARGEST_CALIBRATION = 1e6  # a fit stays within exp(6) and 50
BROKEN = (InputError, TypeError, KeyError, ValueError, AttributeError, OverflowError, RecursionError)


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
    if model.scaling.directions is not None:
        tensors["feature_directions"] = model.scaling.directions
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
        "sharing": model.sharing,
        "context": model.context,
        "context_evidence": None if model.context_evidence is None else list(model.context_evidence),
    }
    return {name: np.ascontiguousarray(t, dtype=np.float64) for name, t in tensors.items()}, facts


def check_tensors(tensors: dict[str, Array], facts: Any) -> None:
    """Refuse missing or unknown keys, wrong dtypes or shapes, and values no model can have."""
    known = {*CHOICES, *MOST, *OTHERS}
    require(isinstance(facts, dict) and set(facts) == known, "the model's facts are incomplete or unknown.")
    right = "inducing_points" in tensors and tensors["inducing_points"].ndim == 2
    require(right, 'tensor "inducing_points" is missing or not a matrix.')
    M, D = tensors["inducing_points"].shape
    P = M + (1 if facts["bias"] else 0)
    wide = "feature_directions" in tensors
    seen = tensors["feature_directions"].shape[0] if wide and tensors["feature_directions"].ndim == 2 else D
    shapes: dict[str, tuple[int, ...]] = {
        "inducing_points": (M, D), "kernel_factor": (M, M), "posterior_mean": (P,), "precision_factor": (P, P),
        "feature_location": (seen,), "feature_scale": (seen,), **({"feature_directions": (seen, D)} if wide else {}),
    }  # fmt: skip
    if facts["chains"] is not None:
        shapes["draws"] = (*tensors.get("draws", np.empty(0)).shape[:1], P)
    if "recalibration_prob" in tensors:
        shapes |= {name: (tensors["recalibration_prob"].size,) for name in tensors if name.startswith("recalibration_")}
    for name in sorted(set(shapes) ^ set(tensors)):
        require(False, f'tensor "{name}" is {"missing" if name in shapes else "unknown"}.')
    for name, shape in shapes.items():
        tensor = tensors[name]
        require(tensor.dtype == np.float64, f'tensor "{name}" is {tensor.dtype}, expected float64.')
        require(tensor.shape == shape, f'tensor "{name}" is {tensor.shape}, expected {shape}.')
        require(bool(np.isfinite(tensor).all()), f'tensor "{name}" has non-finite values.')
    for name in ("kernel_factor", "precision_factor"):
        right = bool((np.diag(tensors[name]) > 0).all()) and not np.triu(tensors[name], 1).any()
        require(right, f'tensor "{name}" is not the factor of a positive definite matrix.')
    require(bool((tensors["feature_scale"] > 0).all()), 'tensor "feature_scale" must be > 0.')


def model_from(tensors: dict[str, Array], facts: dict[str, Any]) -> TrainedModel:
    """The trained model of checked tensors and facts."""
    try:
        for name, allowed in CHOICES.items():
            require(facts[name] in allowed, f"{name} is {facts[name]!r}.")
        for name, most in MOST.items():
            right = is_finite(facts[name]) and 0 <= facts[name] <= most
            require(right, f"{name} must be a number between 0 and {most}, got {facts[name]}.")
        for name in ("threshold", "instance_threshold"):
            right = is_finite(facts[name]) and 0 < facts[name] < 1
            require(right, f"{name} must be a number between 0 and 1.0, got {facts[name]}.")
        seed, novelty, evidence = facts["seed"], facts["novelty"], facts["context_evidence"]
        require(isinstance(seed, int) and seed >= 0, f"seed must be an integer >= 0, got {seed}.")
        right = novelty is None or (is_finite(novelty) and novelty > 0)
        require(right, f"novelty must be a number > 0, got {novelty!r}.")
        right = isinstance(evidence, list) and len(evidence) == 2 and all(map(is_finite, evidence))
        require(evidence is None or right, "the evidence for context is not two numbers.")
        D = tensors["inducing_points"].shape[1]
        require(not facts["context"] or D % PARTS == 0, f"{D} features are not those of instances in context.")
        calibration = Calibration(**facts["calibration"])
        numbers = list(asdict(calibration).values())
        right = all(map(is_finite, numbers)) and min(calibration.scale, calibration.spread) > 0
        require(right, "the calibration is not increasing.")
        too_large = f"the calibration has numbers above {LARGEST_CALIBRATION:g}."
        require(max(map(abs, numbers)) <= LARGEST_CALIBRATION, too_large)
        unit = facts["residual"] == "unit"
        gp = (UnitSparseGP if unit else SparseGP)(
            kernel_from(facts["kernel"]).resolve(D),
            tensors["inducing_points"],
            tensors["kernel_factor"],
            facts["jitter"],
            facts["bias"],
            "full" if unit else facts["residual"],
        )
        same = ("aggregate", "dtype", "expectation", "seed", "joint", "coupling", "sharing", "context")
        return TrainedModel(
            Scaling(tensors["feature_location"], tensors["feature_scale"], tensors.get("feature_directions")),
            gp,
            Posterior(tensors["posterior_mean"], tensors["precision_factor"]),
            calibration=calibration,
            threshold=float(facts["threshold"]),
            instance_threshold=float(facts["instance_threshold"]),
            recalibration=_recalibration(tensors),
            novelty=None if novelty is None else Novelty(float(novelty)),
            referral=None if facts["referral"] is None else _referral(facts["referral"]),
            chains=None if facts["chains"] is None else _chains(facts["chains"], tensors["draws"]),
            context_evidence=None if evidence is None else (float(evidence[0]), float(evidence[1])),
            **{name: facts[name] for name in same},
        )
    except ModelFileError:
        raise
    except BROKEN as error:
        raise ModelFileError(f"model file: {error}") from None


def require(right: bool, message: str) -> None:
    """Refuse a model file that is not right."""
    if not right:
        raise ModelFileError(f"model file: {message}")


def _chains(facts: Any, draws: Array) -> Chains:
    chains = Chains(draws, **facts)
    right = all(map(is_finite, without_draws(chains).values())) and len(draws) >= 2
    require(right, "the draws of the posterior are incomplete.")
    right = (
        min(chains.r_hat, chains.effective_sample_size) > 0 and chains.divergences >= 0 and 0 <= chains.acceptance <= 1
    )
    require(right, "the draws of the posterior have diagnostics out of range.")
    return chains


def _referral(facts: Any) -> Referral:
    referral = Referral(**facts)
    shares = (referral.share, referral.kept_error, referral.error)
    right = (
        all(map(is_finite, (referral.margin, *shares))) and referral.margin >= 0 and all(0 <= x <= 1 for x in shares)
    )
    require(right, "the referral has numbers out of range.")
    return referral


def _recalibration(tensors: dict[str, Array]) -> InstanceRecalibration | None:
    if "recalibration_prob" not in tensors:
        return None
    log_odds, prob = tensors["recalibration_log_odds"], tensors["recalibration_prob"]
    right = prob.size > 0 and not (np.diff(log_odds) < 0).any() and not (np.diff(prob) < 0).any()
    require(right, "the recalibration of instances does not increase.")
    require(prob[0] >= 0 and prob[-1] <= 1, "the recalibration of instances has probabilities outside 0 and 1.")
    return InstanceRecalibration(log_odds, prob)


def without_draws(chains: Chains) -> dict[str, float]:
    """What tells whether to trust the draws, without them."""
    return {field.name: getattr(chains, field.name) for field in fields(chains) if field.name != "v"}


def is_finite(value: Any) -> bool:
    """Whether a value of a JSON file is a finite number.

    Examples
    --------
    >>> is_finite(1.5), is_finite(True), is_finite(float("inf"))
    (True, False, False)
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """A kernel as JSON.

    Examples
    --------
    >>> kernel_json(RBF(2.0, 1.0))
    {'kind': 'RBF', 'variance': 2.0, 'lengthscale': 1.0}
    """
    if isinstance(kernel, Sum):
        return {"kind": "Sum", "left": kernel_json(kernel.left), "right": kernel_json(kernel.right)}
    if isinstance(kernel, Columns):
        return {"kind": "Columns", "kernel": kernel_json(kernel.kernel), "start": kernel.start, "stop": kernel.stop}
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
    if kind == "Columns" and set(values) == {"kernel", "start", "stop"}:
        if not (type(values["start"]) is type(values["stop"]) is int):
            raise InputError("the columns of a kernel are not whole numbers.")
        return Columns(kernel_from(values["kernel"]), values["start"], values["stop"])
    if not isinstance(kind, str) or kind not in KERNELS:
        raise InputError(f"unknown kernel {kind!r}.")
    if not is_finite(values["variance"]) or any(name.startswith("_") for name in values):
        raise InputError(f"the parameters of kernel {kind} are not numbers.")
    if isinstance(values.get("lengthscale"), list):
        values["lengthscale"] = tuple(values["lengthscale"])
    return KERNELS[kind](**values)
