"""q(v) = N(m, S) in whitened coordinates, and q(f) of instances, Eq. (30)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.blas import multiply_upper
from psimil.compute.numpy_backend import chunk_rows, ordered_map, scratch, single_threaded_blas
from psimil.foundations.linalg import inverse_upper
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


@dataclass(frozen=True)
class KernelState:
    """A kernel with the q(v) that belongs to it."""

    gp: SparseGP
    posterior: Posterior

    @classmethod
    def first(cls, gp: SparseGP) -> KernelState:
        """With q(v) = N(0, s^2 I) and latent standard deviations of about a tenth: the labels speak first.

        From a wide start a Gamma density with a large kernel variance falls into its remote fixed point, where |f|
        grows with the number of instances (docs/derivations.md).
        """
        scale = np.sqrt(float(np.max(gp.kernel.diagonal(gp.Z))) + gp.bias**2)
        return cls(gp, Posterior(np.zeros(gp.size), np.eye(gp.size) / (0.1 / scale)))


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
