"""The sparse GP, from features to q(f): the prior in whitened coordinates, q(v), and Eq. (30).

A priori f = V v + residual with v ~ N(0, I) at features in model coordinates; then q(v) = N(m, S).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from psimil.compute.numpy_backend import NUMPY, chunk_rows, ordered_map, scratch, single_threaded_blas
from psimil.foundations.linalg import cholesky, inverse_upper, multiply_upper, nonnegative, solve_lower_right
from psimil.model.kernels import Kernel

Array = NDArray[Any]

VERY_WELL_CONDITIONED = 1e-3  # reciprocal condition of L above which its square costs no more than six digits
WELL_CONDITIONED = {8: 1e-5, 4: 1e-2}  # of L, by bytes: above it K_xz (L^-T R^-T) keeps ten or five digits


@dataclass(frozen=True)
class SparseGP:
    """Kernel, inducing points and the factor of K_zz.

    Parameters
    ----------
    kernel : resolved kernel.
    Z : (M, D) inducing points.
    L : (M, M) lower factor of K_zz + jitter I.
    jitter : what was added to the diagonal of K_zz.
    bias : prior standard deviation b of the constant mean, one more column of V; 0 for a zero mean.
    residual : "full" keeps k~ = k_nn - |v_n|^2, "projected" sets it to 0.
    """

    kernel: Kernel
    Z: Array
    L: Array
    jitter: float
    bias: float = 0.0
    residual: str = "projected"

    @classmethod
    def build(cls, kernel: Kernel, Z: Array, *, bias: float = 0.0, residual: str = "projected") -> Self:
        """Factorise K_zz and keep the factor; when the kernel changes, build a new one."""
        Z = np.ascontiguousarray(Z, dtype=np.float64)
        K = kernel.gram(Z, Z)
        np.fill_diagonal(K, kernel.diagonal(Z))  # where features are huge, a point is not at its own place by rounding
        factor = cholesky(K)
        return cls(kernel, Z, factor.L, factor.jitter, bias, residual)

    def rebuilt(self, kernel: Kernel, Z: Array | None = None) -> Self:
        """The same prior with another kernel, and with other inducing points if given."""
        return type(self).build(kernel, self.Z if Z is None else Z, bias=self.bias, residual=self.residual)

    def with_parameters(self, log_parameters: Array) -> Self:
        """The same inducing points under other kernel parameters (P,)."""
        kernel = self.kernel.with_log_parameters(log_parameters)
        return type(self).build(kernel, self.Z, bias=self.bias, residual=self.residual)

    @property
    def size(self) -> int:
        """Columns of V: M, and one more for a constant mean."""
        return len(self.Z) + (self.bias > 0)

    @cached_property
    def L_inverse_T(self) -> Array:
        """L^-T, upper triangular."""
        return inverse_upper(self.L)

    @cached_property
    def reciprocal_condition(self) -> float:
        """Of L in the spectral norm, up to a small factor: the root of that of K_zz, whose two norms are close."""
        norm = np.abs(self.L @ self.L.T).sum(axis=0).max()
        return float(np.sqrt(lapack.dpocon(self.L.T, norm, uplo="U")[0]))

    def well_conditioned(self, itemsize: int) -> bool:
        """Whether products with explicit triangular inverses keep enough digits in numbers of so many bytes."""
        return self.reciprocal_condition > WELL_CONDITIONED[itemsize]

    def sums_can_be_whitened(self, dtype: Any) -> bool:
        """Whether L^-1 (K' Theta K) L^-T keeps ten digits in this precision, and no residual needs V."""
        enough = np.dtype(dtype) == np.float64 and self.reciprocal_condition > VERY_WELL_CONDITIONED
        return self.residual == "projected" and enough

    @cached_property
    def whitening(self) -> Array:
        """A (M, M) with V = [K_xz, b] A: L^-T, and 1 for the column of the mean."""
        A = np.eye(self.size)
        A[: len(self.Z), : len(self.Z)] = self.L_inverse_T
        return A

    def features(self, X: Array, out: Array | None = None, *, whiten: bool = True) -> Array:
        """V = K_xz L^-T (n, M) of Eq. (3), with the column b for a constant mean; dtype of X; in ``out`` if given.

        Without ``whiten`` it is K_xz, with that column.
        """
        V = np.empty((len(X), self.size), dtype=X.dtype) if out is None else out
        if self.bias:
            V[:, -1] = self.bias
        kernel_part = V[:, : len(self.Z)]
        self.kernel.gram(X, self.Z.astype(X.dtype, copy=False), out=kernel_part)
        if not whiten:
            return V
        if self.well_conditioned(X.itemsize):  # four times as fast as the solve
            multiply_upper(kernel_part, self.L_inverse_T.astype(X.dtype, copy=False))
        elif X.dtype == np.float64:
            solve_lower_right(kernel_part, self.L)
        else:  # single precision would leave too few digits
            wide, well = kernel_part.astype(np.float64), self.well_conditioned(8)
            kernel_part[:] = multiply_upper(wide, self.L_inverse_T) if well else solve_lower_right(wide, self.L)
        return V

    def residual_variance(self, X: Array, V: Any, on_host: Callable[[Any], Array] = np.asarray) -> Array:
        """k~ (n,) >= 0, what V v leaves of the prior variance of f, Eq. (3).

        What is cut off at zero is rounding, which the factor keeps small (:func:`psimil.foundations.linalg.cholesky`).
        """
        if self.residual == "projected":
            return np.zeros(len(X))
        prior = np.asarray(self.kernel.diagonal(X), dtype=np.float64)
        return nonnegative(prior - self.explained_variance(on_host(V)), "conditional")

    def second_moment(self, X: Array, mu: Array, s2: Array) -> Array:
        """E f^2 (n,) of instances X (n, D) whose f has mean mu and variance s2, each (n,)."""
        return np.asarray(mu * mu + s2)

    def explained_variance(self, V: Array) -> Array:
        """|v_n|^2 (n,) of the kernel's columns."""
        kernel_part = V[:, : len(self.Z)]
        return np.asarray(np.vecdot(kernel_part, kernel_part), dtype=np.float64)

    def prior_variance(self, X: Array, V: Array) -> Array:
        """(n,) variance of f a priori under this model, the constant mean included."""
        if self.residual == "projected":
            return self.explained_variance(V) + self.bias**2
        return self.full_variance(X)

    def full_variance(self, X: Array) -> Array:
        """(n,) variance of the Gaussian process itself a priori, the constant mean included."""
        return np.asarray(self.kernel.diagonal(X), dtype=np.float64) + self.bias**2


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
        grows with the number of instances (docs/mathematics/derivations.md).
        """
        scale = np.sqrt(float(np.max(gp.kernel.diagonal(gp.Z))) + gp.bias**2)
        return cls(gp, Posterior(np.zeros(gp.size), np.eye(gp.size) / (0.1 / scale)))


@dataclass(frozen=True, eq=False)
class LatentFactors:
    """Maps features to what q(v) says of f there: f = mean + W e + sqrt(k~) e', e and e' standard normal, Eq. (30).

    When K_zz is well conditioned and there is no residual, one triangular product W = K_xz (L^-T U) does, S = U U'.
    """

    gp: SparseGP
    posterior: Posterior
    dtype: Any

    @cached_property
    def fused(self) -> bool:
        """Whether that product keeps enough digits."""
        return self.gp.residual == "projected" and self.gp.well_conditioned(np.dtype(self.dtype).itemsize)

    @cached_property
    def _products(self) -> tuple[Array, Array]:
        """L^-T U without the column of the mean, and what gives the mean of f and that column of W."""
        M, gp, q = len(self.gp.Z), self.gp, self.posterior
        columns = gp.L_inverse_T @ np.column_stack([q.m[:M], q.U[:M, -1]])
        return np.ascontiguousarray(gp.L_inverse_T @ q.U[:M, :M], dtype=self.dtype), columns.astype(self.dtype)

    def __call__(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean (n,), W (n, M) and k~ (n,) of some rows X (n, D); W lies in scratch memory of this thread."""
        gp, q, M = self.gp, self.posterior, len(self.gp.Z)
        W = scratch("W", (len(X), gp.size), self.dtype)
        if not self.fused:
            k = gp.residual_variance(X, gp.features(X, out=W))
            mean = W @ q.m.astype(self.dtype)
            return mean, multiply_upper(W, q.U.astype(self.dtype)), k
        T, columns = self._products
        K = gp.kernel.gram(X, gp.Z.astype(self.dtype, copy=False), out=W[:, :M])
        both = K @ columns
        multiply_upper(K, T)
        if gp.bias:
            both += np.array([gp.bias * q.m[-1], gp.bias * q.U[-1, -1]], dtype=self.dtype)
            W[:, -1] = both[:, 1]
        return both[:, 0], W, np.zeros(len(X))

    @single_threaded_blas()
    def over(self, X: Array, noise: Array) -> tuple[Array, Array, Array, Array]:
        """Mean of f (N,) at X (N, D), |W|^2 and k~ (N,), whose sum is its variance, and W e (S, N) for e (M, S)."""
        rows, (mean, own, rest) = chunk_rows(self.gp.size, self.dtype), np.empty((3, len(X)))
        deviations = np.empty((noise.shape[1], len(X)), dtype=self.dtype)

        def part(start: int) -> None:
            some = slice(start, start + rows)
            mean[some], W, rest[some] = self(X[some])
            own[some] = np.vecdot(W, W)
            if len(deviations):
                deviations[:, some] = NUMPY.products(W, noise)

        for _ in ordered_map(part, range(0, len(X), rows)):
            pass
        return mean, own, rest, deviations


def latent_moments(gp: SparseGP, posterior: Posterior, X: Array) -> tuple[Array, Array]:
    """Mean and variance (N,) of f at X (N, D), Eq. (30): mu = V m, s2 = k~ + |V R^-T|^2."""
    mean, own, rest, _ = LatentFactors(gp, posterior, X.dtype).over(X, np.empty((gp.size, 0)))
    return mean, own + rest
