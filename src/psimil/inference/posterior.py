"""q(v) = N(m, S) in whitened coordinates, and q(f) of instances, Eq. (30)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from psimil.compute.blas import multiply_upper
from psimil.compute.numpy_backend import chunk_rows, ordered_map, scratch, single_threaded_blas
from psimil.foundations.linalg import cholesky, inverse_upper, solve_lower
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class Posterior:
    """q(v) = N(m, S) with S = (R R')^-1: Eqs. (8) and (23) with u = L v.

    Parameters
    ----------
    m : (M,) mean.
    R : (M, M) lower Cholesky factor of the precision.

    Examples
    --------
    >>> Posterior.prior(2).kl
    0.0
    """

    m: Array
    R: Array

    @classmethod
    def prior(cls, size: int) -> Posterior:
        """The prior N(0, I): Eq. (2) with u = L v."""
        return cls(np.zeros(size), np.eye(size))

    @cached_property
    def U(self) -> Array:
        """R^-T (M, M), upper triangular: S = U U'."""
        return inverse_upper(self.R)

    @property
    def S(self) -> Array:
        """(M, M) covariance."""
        return self.U @ self.U.T

    @property
    def kl(self) -> float:
        """KL(q(v) || N(0, I))."""
        trace = np.square(self.U).sum()
        return float(0.5 * (trace + self.m @ self.m - len(self.m)) + np.log(np.diag(self.R)).sum())

    def divergence(self, other: Posterior) -> float:
        """KL(q(v) || other) in nats.

        Examples
        --------
        >>> Posterior.prior(2).divergence(Posterior(np.array([0.0, 2.0]), np.eye(2)))
        2.0
        """
        root = solve_lower(self.R, other.R)  # trace(S_self P_other) is the sum of its squares
        mean = other.R.T @ (self.m - other.m)
        logs = np.log(np.diag(self.R)).sum() - np.log(np.diag(other.R)).sum()
        return float(0.5 * (np.square(root).sum() + mean @ mean - len(mean)) + logs)


def from_natural(precision: Array, linear: Array) -> Posterior:
    """q(v) from its natural parameters: R R' = precision (M, M), m = precision^-1 linear (M,).

    Examples
    --------
    >>> from_natural(np.array([[4.0]]), np.array([2.0])).m
    array([0.5])
    """
    R = cholesky(precision, scale=1.0).L
    return Posterior(cho_solve((R, True), linear, check_finite=False), R)


def global_update(V_theta_V: Array, V_kappa: Array) -> Posterior:
    """Eqs. (26) and (27), whitened: R R' = I + V' Theta V, m = (R R')^-1 V' kappa.

    They are Eqs. (12) and (13) for the hyperbolic secant; Eqs. (54), (55), (61) and (62) derive them.

    Parameters
    ----------
    V_theta_V : (M, M) symmetric.
    V_kappa : (M,).

    Examples
    --------
    >>> global_update(np.eye(1), np.ones(1)).m
    array([0.5])
    """
    precision = V_theta_V.copy()
    precision[np.diag_indices_from(precision)] += 1.0
    return from_natural(precision, V_kappa)


def grown(posterior: Posterior, factor: float) -> Posterior:
    """q(v) after ``factor`` times as much of the same data.

    Examples
    --------
    >>> grown(Posterior(np.array([0.5]), np.array([[np.sqrt(2.0)]])), 3.0).m  # 1 = 2 x 0.5 becomes 3 = 4 x 0.75
    array([0.75])
    """
    identity = np.eye(len(posterior.m))
    precision = posterior.R @ posterior.R.T
    return from_natural(identity + factor * (precision - identity), factor * (precision @ posterior.m))


@single_threaded_blas()
def latent_moments(gp: SparseGP, posterior: Posterior, X: Array) -> tuple[Array, Array]:
    """Mean and variance (N,) of f at X (N, D), Eq. (30): mu = V m, s2 = k~ + |V R^-T|^2.

    When K_zz is well conditioned and there is no residual, one triangular product K_xz (L^-T R^-T) does.
    """
    dtype, rows = X.dtype, chunk_rows(gp.size, X.dtype)
    mu, s2 = np.empty(len(X)), np.empty(len(X))
    fused = gp.residual == "projected" and gp.well_conditioned(X.itemsize)
    M, Z, U, m = len(gp.Z), gp.Z.astype(dtype), posterior.U.astype(dtype), posterior.m.astype(dtype)
    # K_xz times these two columns gives the mean and, with a constant mean, the last column of W
    columns = gp.L_inverse_T @ np.column_stack([posterior.m[:M], posterior.U[:M, -1]])
    T = np.ascontiguousarray(gp.L_inverse_T @ posterior.U[:M, :M], dtype=dtype)
    columns = columns.astype(dtype)

    def fused_part(start: int) -> None:
        part = slice(start, start + rows)
        W = gp.kernel.gram(X[part], Z, out=scratch("W", (len(X[part]), M), dtype))
        both = W @ columns
        mu[part] = both[:, 0] + (gp.bias * m[-1] if gp.bias else 0.0)
        multiply_upper(W, T)
        s2[part] = np.vecdot(W, W)
        if gp.bias:
            s2[part] += np.square(both[:, 1] + gp.bias * U[-1, -1])

    def stable_part(start: int) -> None:
        part = slice(start, start + rows)
        W = gp.features(X[part], out=scratch("W", (len(X[part]), gp.size), dtype))
        k = gp.residual_variance(X[part], W)
        mu[part] = W @ m
        multiply_upper(W, U)
        s2[part] = k + np.vecdot(W, W)

    for _ in ordered_map(fused_part if fused else stable_part, range(0, len(X), rows)):
        pass
    return mu, s2
