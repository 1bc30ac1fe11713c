"""Facts of a model file that out-of-bag bags and chains left: what they must satisfy."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.inference.sampled import Chains
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.thresholds import InstanceRecalibration
from psimil.predictive.referral import Referral

Array = NDArray[Any]

PROBES = 4
FACTOR_ERROR = 1e-9  # of K_zz: a factor leaves some 1e-14, on another processor, too


def without_draws(chains: Chains) -> dict[str, float]:
    """What tells whether to trust the draws, without them."""
    return {field.name: getattr(chains, field.name) for field in fields(chains) if field.name != "v"}


def chains_from(facts: Any, draws: Array) -> Chains:
    """Chains from the facts of a file and draws (S, M)."""
    found = Chains(draws, **facts)
    if not all(map(is_number, without_draws(found).values())) or len(draws) < 2:
        raise InputError("the draws of the posterior are incomplete.")
    if min(found.r_hat, found.effective_sample_size) <= 0 or found.divergences < 0 or not 0 <= found.acceptance <= 1:
        raise InputError("the draws of the posterior have diagnostics out of range.")
    return found


def referral_from(facts: Any) -> Referral:
    """The referral from the facts of a file.

    Examples
    --------
    >>> referral_from({"margin": 1.0, "share": 0.1, "kept_error": 0.0, "error": 0.02}).margin
    1.0
    """
    found = Referral(**facts)
    shares = (found.share, found.kept_error, found.error)
    if not all(map(is_number, (found.margin, *shares))) or found.margin < 0 or not all(0 <= x <= 1 for x in shares):
        raise InputError("the referral has numbers out of range.")
    return found


def evidence_from(facts: Any) -> tuple[float, float]:
    """log p(T) with and without context from the facts of a file.

    Examples
    --------
    >>> evidence_from([-31.0, -35.0])
    (-31.0, -35.0)
    """
    if not isinstance(facts, list) or len(facts) != 2 or not all(map(is_number, facts)):
        raise InputError("the evidence for context is not two numbers.")
    return float(facts[0]), float(facts[1])


def recalibration_from(tensors: dict[str, Array]) -> InstanceRecalibration | None:
    """The recalibration of instances from the tensors of a file, if they hold one."""
    if "recalibration_prob" not in tensors:
        return None
    log_odds, prob = tensors["recalibration_log_odds"], tensors["recalibration_prob"]
    if prob.size == 0 or (np.diff(log_odds) < 0).any() or (np.diff(prob) < 0).any():
        raise InputError("the recalibration of instances does not increase.")
    if prob[0] < 0 or prob[-1] > 1:
        raise InputError("the recalibration of instances has probabilities outside 0 and 1.")
    return InstanceRecalibration(log_odds, prob)


def check_factor(gp: SparseGP) -> None:
    """Refuse a factor L that is not that of K_zz + jitter I, by its product with a few random vectors.

    Examples
    --------
    >>> from psimil.model.kernels import RBF
    >>> gp = SparseGP.build(RBF(1.0, 1.0), np.array([[0.0], [1.0]]))
    >>> check_factor(SparseGP(gp.kernel, gp.Z, 2.0 * gp.L, gp.jitter))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the kernel's factor does not belong to kernel and inducing points.
    """
    x = np.random.default_rng().standard_normal((len(gp.Z), PROBES))  # unknown to who made the file
    K = gp.kernel.gram(gp.Z, gp.Z)
    error = gp.L @ (gp.L.T @ x) - K @ x - gp.jitter * x
    size = np.linalg.norm(K) + gp.jitter
    if not np.linalg.norm(error) <= FACTOR_ERROR * size * np.linalg.norm(x):
        raise InputError("the kernel's factor does not belong to kernel and inducing points.")


def share(value: Any, name: str) -> float:
    """A number above 0 and below 1.

    Examples
    --------
    >>> share(0.5, "threshold")
    0.5
    """
    if not is_number(value) or not 0 < value < 1:
        raise InputError(f"{name} must be a number between 0 and 1.0, got {value}.")
    return float(value)


def above_zero(value: Any, name: str) -> float:
    """A number > 0.

    Examples
    --------
    >>> above_zero(2, "novelty")
    2.0
    """
    if not is_number(value) or value <= 0:
        raise InputError(f"{name} must be a number > 0, got {value!r}.")
    return float(value)


def is_number(value: Any) -> bool:
    """Whether a value of a JSON file is a finite number.

    Examples
    --------
    >>> is_number(1.5), is_number(True), is_number(float("inf"))
    (True, False, False)
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
