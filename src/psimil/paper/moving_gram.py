"""Gram matrices of fixed points under a kernel whose parameters move: distances are computed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psimil.foundations.arrays import Array
from psimil.model.kernels import RBF, Kernel


@dataclass(frozen=True)
class MovingGram:
    """K_xz for the same X and Z again and again.

    Parameters
    ----------
    X, Z : (n, D), (M, D) points.
    squared : (n, M) squared distances, kept for an RBF with one length scale; None evaluates the kernel anew.

    Examples
    --------
    >>> points = MovingGram.build(np.zeros((1, 1)), np.array([[0.0], [1.0]]), RBF(1.0, 1.0))
    >>> points.gram(RBF(2.0, 1.0)).round(4)
    array([[2.    , 1.2131]])
    """

    X: Array
    Z: Array
    squared: Array | None = None

    @classmethod
    def build(cls, X: Array, Z: Array, kernel: Kernel, *, keep: bool = True) -> MovingGram:
        """The points with their distances where this kernel, whatever its parameters, needs nothing else."""
        if not keep or not isinstance(kernel, RBF) or np.ndim(kernel.lengthscale or 1.0) > 0:
            return cls(X, Z)
        centre = Z.mean(axis=0)  # only differences count, and small numbers keep their digits
        x, z = X - centre, Z - centre
        squared = np.vecdot(x, x)[:, None] + np.vecdot(z, z) - 2.0 * (x @ z.T)
        return cls(X, Z, np.maximum(squared, 0.0))

    def gram(self, kernel: Kernel, out: Array | None = None) -> Array:
        """K_xz, (n, M); written to ``out`` if given."""
        if self.squared is None:
            return kernel.gram(self.X, self.Z, out=out)
        variance, lengthscale = np.exp(kernel.log_parameters)
        K = np.multiply(self.squared, -0.5 / lengthscale**2, out=out)
        np.exp(K, out=K)
        K *= variance
        return np.asarray(K)

    def adjoint(self, kernel: Kernel, A: Array, K: Array) -> Array:
        """(P,) sum_nm A_nm dK_nm / d log parameter, for an adjoint A (n, M), overwritten, and the gram K."""
        if self.squared is None:
            return kernel.gram_adjoint(self.X, self.Z, A, K)
        A *= K
        return np.array([A.sum(), np.vdot(A, self.squared) / np.exp(2.0 * kernel.log_parameters[1])])
