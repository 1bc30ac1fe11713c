"""Kernels with a finite number of features: linear and constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psimil.compute.blas import add_product
from psimil.foundations.errors import InputError
from psimil.model.kernels.base import Kernel

Array = NDArray[Any]


@dataclass(frozen=True)
class _Scaled(Kernel):
    """variance times a function without parameters."""

    keeps_adjoint: ClassVar[bool] = True

    variance: float = 1.0

    def diagonal_adjoint(self, X: Array, w: Array) -> Array:
        """(1,): derivative by log variance."""
        return np.array([w @ self.diagonal(X)])

    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """Refused: the kernel is not stationary."""
        raise InputError(f'log_z="rff" needs a stationary kernel (RBF or Matern), got {type(self).__name__}.')


@dataclass(frozen=True)
class Linear(_Scaled):
    """k(x, x') = variance x . x'.

    Examples
    --------
    >>> Linear(2.0).gram(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[22.]])
    """

    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M)."""
        return np.asarray(np.matmul(X, self.variance * Z.T, out=out))

    def add_gram(self, K: Array, X: Array, Z: Array, sign: float = 1.0) -> None:
        """One product without a matrix in between."""
        add_product(K, np.ascontiguousarray(X, K.dtype), np.ascontiguousarray(Z, K.dtype), sign * self.variance)

    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """(1,): derivative by log variance, from X'A (D, M)."""
        return np.array([self.variance * np.vdot(X.T @ A, Z.T)])

    def diagonal(self, X: Array) -> Array:
        """Variance |x|^2, (n,)."""
        return np.asarray(self.variance * np.vecdot(X, X))


@dataclass(frozen=True)
class Constant(_Scaled):
    """k(x, x') = variance: a random level shared by all instances.

    Examples
    --------
    >>> Constant(3.0).diagonal(np.zeros((2, 1)))
    array([3., 3.])
    """

    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M)."""
        K = np.empty((len(X), len(Z)), dtype=X.dtype) if out is None else out
        K[:] = self.variance
        return K

    def add_gram(self, K: Array, X: Array, Z: Array, sign: float = 1.0) -> None:
        """The variance everywhere."""
        K += K.dtype.type(sign * self.variance)

    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """(1,): derivative by log variance."""
        return np.array([self.variance * A.sum()])

    def diagonal(self, X: Array) -> Array:
        """Variance, n times."""
        return np.full(len(X), self.variance, dtype=X.dtype)
