"""A kernel that looks at some of the features only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.kernels.base import Kernel

Array = NDArray[Any]


@dataclass(frozen=True)
class Columns(Kernel):
    """The kernel of columns ``start`` to ``stop`` - 1 of the features; a sum of such kernels is an additive model.

    Examples
    --------
    >>> from psimil.model.kernels import Linear
    >>> kernel = Columns(Linear(1.0), 0, 1) + Columns(Linear(10.0), 1, 3)
    >>> kernel.diagonal(np.array([[1.0, 1.0, 1.0]]))
    array([21.])
    """

    parameters: ClassVar[tuple[str, ...]] = ("kernel",)

    kernel: Kernel
    start: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse columns that are none."""
        if not 0 <= self.start < self.stop:
            raise InputError(f"columns must be 0 <= start < stop, got {self.start} and {self.stop}.")

    def of(self, X: Array) -> Array:
        """(n, stop - start) the columns of X (n, D)."""
        return np.ascontiguousarray(X[:, self.start : self.stop])

    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M)."""
        return self.kernel.gram(self.of(X), self.of(Z), out)

    def add_gram(self, K: Array, X: Array, Z: Array, sign: float = 1.0) -> None:
        """Add K_xz to K (n, M) in place, or subtract it."""
        self.kernel.add_gram(K, self.of(X), self.of(Z), sign)

    def diagonal(self, X: Array) -> Array:
        """k(x_n, x_n), (n,)."""
        return self.kernel.diagonal(self.of(X))

    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """(P,) derivatives of the kernel."""
        return self.kernel.gram_adjoint(self.of(X), self.of(Z), A, K)

    def diagonal_adjoint(self, X: Array, w: Array) -> Array:
        """(P,) derivatives of the diagonal."""
        return self.kernel.diagonal_adjoint(self.of(X), w)

    def resolve(self, n_features: int) -> Self:
        """The same with sqrt(stop - start) for every None."""
        if self.stop > n_features:
            raise InputError(f"kernel looks at columns up to {self.stop} but data has {n_features} features.")
        return replace(self, kernel=self.kernel.resolve(self.stop - self.start))

    def per_feature(self, n_features: int) -> Self:
        """The same with a length scale for every column."""
        return replace(self, kernel=self.kernel.per_feature(self.stop - self.start))

    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """(D, count) frequencies, 0 for other columns."""
        found = np.zeros((n_features, count))
        found[self.start : self.stop] = self.kernel.spectral_sample(rng, count, self.stop - self.start)
        return found
