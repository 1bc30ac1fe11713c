"""Kernels of the scaled distance: RBF and Matern."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psimil.model.kernels.base import Kernel

Array = NDArray[Any]


@dataclass(frozen=True)
class Stationary(Kernel):
    """k(x, x') = variance g(s), s = |(x - x') / lengthscale|^2, g(0) = 1.

    Parameters
    ----------
    variance : v > 0.
    lengthscale : one number, one per feature, or None for sqrt(D).
    """

    parameters: ClassVar[tuple[str, ...]] = ("variance", "lengthscale")

    variance: float = 1.0
    lengthscale: float | Sequence[float] | None = None

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """g(s), elementwise; may overwrite s."""

    @abstractmethod
    def slope(self, s: Array) -> Array:
        """dg / ds, elementwise."""

    def per_feature(self, n_features: int) -> Self:
        """A length scale for every feature."""
        scale = np.broadcast_to(np.asarray(self.lengthscale, dtype=float), n_features)
        return replace(self, lengthscale=tuple(scale.tolist()))

    def stretched(self, factor: float) -> Self:
        """Longer by this factor, and higher by its square."""
        scale = (factor * np.asarray(self.lengthscale, dtype=float)).tolist()
        return replace(self, variance=factor**2 * self.variance, lengthscale=tuple(scale) if np.ndim(scale) else scale)

    def _scaled(self, X: Array) -> Array:
        """X over the length scales; None stands for sqrt(D) here as in :meth:`resolve`."""
        scales = np.sqrt(X.shape[1]) if self.lengthscale is None else self.lengthscale
        return np.asarray(X / np.asarray(scales, dtype=X.dtype))

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        centre = Z.mean(axis=0)  # only differences count, and small numbers keep their digits
        x, z = self._scaled(X - centre), self._scaled(Z - centre)
        s = x @ (-2.0 * z.T)
        s += np.vecdot(x, x)[:, None]
        s += np.vecdot(z, z)
        return np.asarray(np.maximum(s, 0.0, out=s))

    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M)."""
        K = self.profile(self._squared_distance(X, Z))
        return np.asarray(np.multiply(K, K.dtype.type(self.variance), out=out))

    def diagonal(self, X: Array) -> Array:
        """Variance, n times."""
        return np.full(len(X), self.variance, dtype=X.dtype)

    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """(1 + L,): derivatives by log variance and by each log length scale."""
        s = self._squared_distance(X, Z)
        by_variance = self.variance * np.vdot(A, self.profile(s.copy()))
        A *= self.slope(s)
        return np.concatenate([[by_variance], self._scale_adjoint(X, Z, A, self.variance)])

    def _scale_adjoint(self, X: Array, Z: Array, B: Array, factor: float) -> Array:
        """(L,): derivatives by log length scales, for the adjoint factor B (n, M) of s."""
        x, z, separate = self._scaled(X), self._scaled(Z), np.ndim(self.lengthscale) > 0  # type: ignore[arg-type]
        # sum_nm B_nm (x_nd - z_md)^2, feature by feature or for all together, from one product with B
        x2, z2 = (x**2, z**2) if separate else (np.vecdot(x, x)[:, None], np.vecdot(z, z)[:, None])
        sums = np.column_stack([x, x2, np.ones(len(x), dtype=x.dtype)]).T @ B
        D = x.shape[1]
        cross = np.vecdot(sums[:D], z.T)
        q = sums[D:-1].sum(axis=1) + sums[-1] @ z2 - 2.0 * (cross if separate else cross.sum())
        return np.asarray(-2.0 * factor * q)

    def diagonal_adjoint(self, X: Array, w: Array) -> Array:
        """Only the variance moves the diagonal."""
        return np.concatenate([[self.variance * w.sum()], np.zeros(len(self.log_parameters) - 1)])


@dataclass(frozen=True)
class RBF(Stationary):
    """k(x, x') = variance exp(-|x - x'|^2 / (2 lengthscale^2)). The paper's l is lengthscale squared.

    Examples
    --------
    >>> RBF(variance=2.0, lengthscale=1.0).gram(np.zeros((1, 1)), np.array([[0.0], [1.0]])).round(4)
    array([[2.    , 1.2131]])
    """

    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M): the exponent log v - s / 2 comes out of one product with two columns more than features."""
        centre = Z.mean(axis=0)
        x, z = self._scaled(X - centre), self._scaled(Z - centre)
        log_v = x.dtype.type(np.log(self.variance))
        xx, zz = np.vecdot(x, x), np.vecdot(z, z)
        left = np.column_stack([x, -0.5 * xx, np.ones(len(x), dtype=x.dtype)])
        right = np.column_stack([z, np.ones(len(z), dtype=z.dtype), log_v - 0.5 * zz])
        exponent = np.matmul(left, right.T, out=out)
        if np.finfo(x.dtype).eps * (xx.max(initial=0.0) + zz.max(initial=0.0)) > 1e-12:
            np.minimum(exponent, log_v, out=exponent)  # rounding must not lift K above v
        return np.asarray(np.exp(exponent, out=exponent))

    def profile(self, s: Array) -> Array:
        """exp(-s / 2)."""
        s *= -0.5
        return np.asarray(np.exp(s, out=s))

    def slope(self, s: Array) -> Array:
        """-exp(-s / 2) / 2."""
        return np.asarray(-0.5 * np.exp(-0.5 * s))

    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """As for every stationary kernel, with dK / ds = -K / 2."""
        A *= self.gram(X, Z) if K is None else K
        return np.concatenate([[A.sum()], self._scale_adjoint(X, Z, A, -0.5)])

    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """Gaussian frequencies."""
        scale = 1.0 / self._scaled(np.ones((1, n_features)))[0]
        return np.asarray(rng.standard_normal((n_features, count)) / scale[:, None])


@dataclass(frozen=True)
class _Matern(Stationary):
    _order: ClassVar[float]

    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """Student-t frequencies with 2 nu degrees of freedom."""
        scale = 1.0 / self._scaled(np.ones((1, n_features)))[0]
        chi2 = rng.chisquare(2 * self._order, size=count) / (2 * self._order)
        return np.asarray(rng.standard_normal((n_features, count)) / np.sqrt(chi2) / scale[:, None])


@dataclass(frozen=True)
class Matern32(_Matern):
    """k = variance (1 + r) exp(-r), r = sqrt(3) |x - x'| / lengthscale.

    Examples
    --------
    >>> Matern32(lengthscale=1.0).gram(np.zeros((1, 1)), np.array([[1.0]])).round(4)
    array([[0.4834]])
    """

    _order: ClassVar[float] = 1.5

    def profile(self, s: Array) -> Array:
        """(1 + r) exp(-r)."""
        r = np.sqrt(3.0 * s)
        return np.asarray((1.0 + r) * np.exp(-r))

    def slope(self, s: Array) -> Array:
        """-3/2 exp(-r)."""
        return np.asarray(-1.5 * np.exp(-np.sqrt(3.0 * s)))


@dataclass(frozen=True)
class Matern52(_Matern):
    """k = variance (1 + r + r^2 / 3) exp(-r), r = sqrt(5) |x - x'| / lengthscale.

    Examples
    --------
    >>> Matern52(lengthscale=1.0).gram(np.zeros((1, 1)), np.array([[1.0]])).round(4)
    array([[0.524]])
    """

    _order: ClassVar[float] = 2.5

    def profile(self, s: Array) -> Array:
        """(1 + r + r^2 / 3) exp(-r)."""
        r = np.sqrt(5.0 * s)
        return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r))

    def slope(self, s: Array) -> Array:
        """-5/6 (1 + r) exp(-r)."""
        r = np.sqrt(5.0 * s)
        return np.asarray(-5.0 / 6.0 * (1.0 + r) * np.exp(-r))
