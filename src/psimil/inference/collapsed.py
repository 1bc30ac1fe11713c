"""The bound with q(v) maximised out, as a function of the kernel: closed form with closed-form adjoints.

With theta and pi fixed, F = |R^-1 V'kappa|^2 / 2 - sum log R_ii + sum_n rho_n(q_n), q_n = |v_n|^2, where rho holds
what depends on single instances: -theta (k_nn - q) / 2 of the full residual, and minus Jensen's log Z.
An ascent step of F is an ascent step of the bound (docs/derivations.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.blas import add_gram
from psimil.foundations.linalg import solve_lower, symmetric
from psimil.foundations.threads import ordered_map
from psimil.inference.local_pass import Local
from psimil.inference.log_z import jensen
from psimil.inference.posterior import Posterior, global_update
from psimil.inference.problem import Chunk, Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class Collapsed:
    """F, its gradient by the log parameters of the kernel, and the q(v) that attains it."""

    value: float
    gradient: Array
    gp: SparseGP
    posterior: Posterior


def collapsed_bound(gp: SparseGP, local: Local, problem: Problem, *, log_z: bool = True) -> Collapsed:
    """F and dF / d log parameters at the kernel of ``gp``, for fixed theta and pi.

    Parameters
    ----------
    local : theta and pi of the last pass.
    log_z : whether to subtract Jensen's estimate of log Z.
    """
    w = problem.instance_weights
    theta, kappa = w * local.theta, w * (local.pi - 0.5)
    dtype, M = problem.X.dtype, len(gp.Z)
    Z = gp.Z.astype(dtype)
    kept: dict[int, tuple[Array, Array, Array]] = {}

    def forward(chunk: Chunk) -> tuple[Array, Array, float]:
        rows = slice(chunk.start, chunk.stop)
        X = problem.X[rows]
        K = gp.kernel.gram(X, Z)
        V = gp.features(X, K)
        value, slope = _separable(gp, X, V, theta[rows], w[rows], problem if log_z else None)
        if problem.cache:
            kept[chunk.start] = K, V, slope
        gram = add_gram(np.zeros((gp.size, gp.size), dtype=dtype), V * np.sqrt(theta[rows]).astype(dtype)[:, None])
        return gram, kappa[rows].astype(dtype) @ V, value

    gram, V_kappa, value = np.zeros((gp.size, gp.size)), np.zeros(gp.size), 0.0
    for chunk_gram, chunk_kappa, chunk_value in ordered_map(forward, problem.chunks):
        gram += chunk_gram
        V_kappa += chunk_kappa
        value += chunk_value
    posterior = global_update(symmetric(gram), V_kappa)
    m, R = posterior.m, posterior.R
    value += 0.5 * float(V_kappa @ m) - float(np.log(np.diag(R)).sum())

    inner = (posterior.S + np.outer(m, m))[:, :M]
    L_inverse = solve_lower(gp.L, np.eye(M))
    B, a = (inner @ L_inverse).astype(dtype), (m[:M] @ L_inverse).astype(dtype)
    L_inverse = L_inverse.astype(dtype)

    def backward(chunk: Chunk) -> tuple[Array, Array]:
        rows = slice(chunk.start, chunk.stop)
        X = problem.X[rows]
        if problem.cache:
            K, V, slope = kept.pop(chunk.start)
        else:
            K = gp.kernel.gram(X, Z)
            V = gp.features(X, K)
            _, slope = _separable(gp, X, V, theta[rows], w[rows], problem if log_z else None)
        # dF/dK_xz = kappa a' - Theta V (S + m m') L^-1 + 2 diag(rho') V L^-1
        A = (theta[rows].astype(dtype)[:, None] * V) @ -B
        A += kappa[rows].astype(dtype)[:, None] * a
        moved = np.zeros((M, M))
        if slope.any():
            scaled = slope.astype(dtype)[:, None] * V[:, :M]
            A += (2.0 * scaled) @ L_inverse
            moved = V[:, :M].T @ scaled
        gradient = gp.kernel.gram_adjoint(X, Z, A, K)
        by_diagonal = _diagonal_slope(gp, X, theta[rows], w[rows], problem if log_z else None)
        if by_diagonal is not None:
            gradient = gradient + gp.kernel.diagonal_adjoint(X, by_diagonal)
        return gradient, moved

    gradient, moved = np.zeros(len(gp.kernel.log_parameters)), np.zeros((M, M))
    for chunk_gradient, chunk_moved in ordered_map(backward, problem.chunks):
        gradient += chunk_gradient
        moved += chunk_moved
    # dF/dK_zz = L^-T [ (I - S - m m') / 2 - V' diag(rho') V ] L^-1
    core = 0.5 * (np.eye(M) - inner[:M]) - moved
    L_inverse = L_inverse.astype(np.float64)
    gradient += gp.kernel.gram_adjoint(gp.Z, gp.Z, L_inverse.T @ core @ L_inverse)
    return Collapsed(value, gradient, gp, posterior)


def _separable(gp: SparseGP, X: Array, V: Array, theta: Array, w: Array, log_z: Problem | None) -> tuple[float, Array]:
    """sum_n rho_n(q_n) and rho'_n (n,)."""
    value, slope = 0.0, np.zeros(len(X))
    if gp.residual == "full":
        value -= 0.5 * float(theta @ gp.residual_variance(X, V))
        slope += 0.5 * theta
    if log_z is not None:
        r, dr = jensen(log_z.density, gp.prior_variance(X, V))
        value -= float(w @ r)
        if gp.residual == "projected":
            slope -= w * dr
    return value, slope


def _diagonal_slope(gp: SparseGP, X: Array, theta: Array, w: Array, log_z: Problem | None) -> Array | None:
    """(n,) derivative of F by k(x_n, x_n), None when it does not depend on it."""
    if gp.residual == "projected":
        return None
    slope = -0.5 * theta if gp.residual == "full" else np.zeros(len(X))
    if log_z is not None:
        slope = slope - w * jensen(log_z.density, np.asarray(gp.kernel.diagonal(X)) + gp.bias**2)[1]
    return slope
