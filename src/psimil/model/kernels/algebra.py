"""Sums of kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.kernels.base import Kernel

Array = NDArray[Any]


@dataclass(frozen=True)
class Sum(Kernel):
    """k = left + right, written ``left + right``.

    Examples
    --------
    >>> from psimil.model.kernels import Constant, Linear
    >>> (Linear(1.0) + Constant(2.0)).gram(np.array([[1.0]]), np.array([[3.0]]))
    array([[5.]])
    """

    left: Kernel
    right: Kernel

    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M)."""
        K = self.right.gram(X, Z, out)
        self.left.add_gram(K, X, Z)
        return K

    def diagonal(self, X: Array) -> Array:
        """k(x_n, x_n), (n,)."""
        return self.left.diagonal(X) + self.right.diagonal(X)

    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """Derivatives of the left kernel, then of the right, whose gram is what the left one leaves of K."""
        for_left = A if self.left.keeps_adjoint else A.copy()
        by_left = self.left.gram_adjoint(X, Z, for_left)
        if K is not None:
            self.left.add_gram(K, X, Z, -1.0)
        return np.concatenate([by_left, self.right.gram_adjoint(X, Z, A, K)])

    def diagonal_adjoint(self, X: Array, w: Array) -> Array:
        """Derivatives of the left kernel, then of the right."""
        return np.concatenate([self.left.diagonal_adjoint(X, w), self.right.diagonal_adjoint(X, w)])

    @property
    def log_parameters(self) -> Array:
        """Those of the left kernel, then of the right."""
        return np.concatenate([self.left.log_parameters, self.right.log_parameters])

    def with_log_parameters(self, values: Array) -> Sum:
        """The same sum with other parameters."""
        split = len(self.left.log_parameters)
        return replace(
            self,
            left=self.left.with_log_parameters(values[:split]),
            right=self.right.with_log_parameters(values[split:]),
        )

    def resolve(self, n_features: int) -> Sum:
        """Both kernels resolved."""
        return Sum(self.left.resolve(n_features), self.right.resolve(n_features))

    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """Refused: features of a sum are two sets with their own variances."""
        raise InputError('log_z="rff" needs a single stationary kernel (RBF or Matern), got Sum.')
