"""What inference asks of a kernel; sums of kernels; the kernels with a finite number of features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.linalg import add_product

Array = NDArray[Any]


class Kernel(ABC):
    """A positive definite function of two points with positive parameters, learned as their logarithms.

    A kernel is a frozen dataclass that names in ``parameters`` which of its fields are learned, each a number, or where
    it is not called ``variance``, one number per feature or None for what :meth:`resolve` fills in.

    Examples
    --------
    >>> from psimil import RBF, Linear
    >>> kernel = RBF(variance=2.0, lengthscale=1.0) + Linear(0.5)
    >>> isinstance(kernel, Kernel), kernel.diagonal(np.array([[0.0], [2.0]]))
    (True, array([2., 4.]))
    """

    parameters: ClassVar[tuple[str, ...]] = ()  # fields that are learned, in their order
    keeps_adjoint: ClassVar[bool] = False  # whether gram_adjoint leaves A as it is

    @abstractmethod
    def gram(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """K_xz, (n, M) for X (n, D) and Z (M, D); written to ``out`` if given."""

    def add_gram(self, K: Array, X: Array, Z: Array, sign: float = 1.0) -> None:
        """Add K_xz to K (n, M) in place, or subtract it."""
        K += sign * self.gram(X, Z)

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """k(x_n, x_n), (n,)."""

    @abstractmethod
    def gram_adjoint(self, X: Array, Z: Array, A: Array, K: Array | None = None) -> Array:
        """(P,) sum_nm A_nm dK_nm / d log parameter, for A (n, M) and, if at hand, the gram K; both may change."""

    @abstractmethod
    def diagonal_adjoint(self, X: Array, w: Array) -> Array:
        """(P,) sum_n w_n dk(x_n, x_n) / d log parameter."""

    def __post_init__(self) -> None:
        """Refuse parameters that are not positive."""
        for name, value in ((name, getattr(self, name)) for name in self.parameters):
            if not isinstance(value, Kernel) and (name == "variance" or value is not None):
                positive(value, name, most=0 if name == "variance" else 1)

    @property
    def log_parameters(self) -> Array:
        """(P,) logarithms of the parameters, in the order of the fields."""
        values = [getattr(self, name) for name in self.parameters]
        if any(value is None for value in values):
            raise InputError(f"{type(self).__name__} has no length scale yet. Call resolve(n_features) first.")
        return np.concatenate([v.log_parameters if isinstance(v, Kernel) else np.log(np.ravel(v)) for v in values])

    def with_log_parameters(self, values: Array) -> Self:
        """The same kernel with other parameters, exp(values)."""
        changed: dict[str, Any] = {}
        for name, old in ((name, getattr(self, name)) for name in self.parameters):
            size = len(old.log_parameters) if isinstance(old, Kernel) else np.size(old)
            new, values = values[:size], values[size:]
            if isinstance(old, Kernel):
                changed[name] = old.with_log_parameters(new)
            else:
                changed[name] = float(np.exp(new[0])) if np.ndim(old) == 0 else tuple(map(float, np.exp(new)))
        return replace(self, **changed)  # type: ignore[type-var]  # kernels are dataclasses

    def resolve(self, n_features: int) -> Self:
        """The same kernel with sqrt(D) for every None, and one number per feature where there are several."""
        changed: dict[str, Any] = {}
        for name, value in ((name, getattr(self, name)) for name in self.parameters):
            if isinstance(value, Kernel):
                changed[name] = value.resolve(n_features)
            elif np.ndim(value) > 0 and len(value) != n_features:
                raise InputError(f"kernel has {len(value)} length scales but data has {n_features} features.")
            else:
                changed[name] = float(np.sqrt(n_features)) if value is None else value
        return replace(self, **changed)  # type: ignore[type-var]  # kernels are dataclasses

    @property
    def is_length_scale(self) -> Array:
        """(P,) which of the log parameters are of length scales.

        Examples
        --------
        >>> from psimil.model.kernels import RBF
        >>> (Linear(1.0) + RBF(1.0, lengthscale=2.0)).is_length_scale
        array([False, False,  True])
        """
        found: list[bool] = []
        for name in self.parameters:
            value = getattr(self, name)
            if isinstance(value, Kernel):
                found += value.is_length_scale.tolist()
            else:
                found += [name == "lengthscale"] * int(np.size(value))
        return np.array(found)

    def per_feature(self, n_features: int) -> Self:
        """The same resolved kernel with a length scale of its own for every feature, all alike.

        Examples
        --------
        >>> from psimil.model.kernels import RBF
        >>> (Linear(1.0) + RBF(lengthscale=2.0)).per_feature(3).right.lengthscale
        (2.0, 2.0, 2.0)
        """
        return self._with_parts(lambda part: part.per_feature(n_features))

    def stretched(self, factor: float) -> Self:
        """The same resolved kernel for functions that vary as steeply, but bend this many times more slowly.

        Examples
        --------
        >>> from psimil.model.kernels import RBF
        >>> (Linear(1.0) + RBF(1.0, lengthscale=2.0)).stretched(4.0).right
        RBF(variance=16.0, lengthscale=8.0)
        """
        return self._with_parts(lambda part: part.stretched(factor))

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        """The same kernel with its parts changed, where it has any."""
        parts = {name: getattr(self, name) for name in self.parameters}
        changed: dict[str, Any] = {name: change(part) for name, part in parts.items() if isinstance(part, Kernel)}
        return replace(self, **changed)  # type: ignore[type-var]  # kernels are dataclasses

    @abstractmethod
    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """(D, count) frequencies whose cosine features reproduce the kernel; only for stationary kernels."""

    def tensor_gram(self, X: Any, Z: Any, log_parameters: Any = None) -> Any:
        """K_xz (n, M) of torch tensors X (n, D) and Z (M, D); see :func:`psimil.model.kernels.torch_gram.gram`."""
        from psimil.model.kernels.torch_gram import gram

        return gram(self, X, Z, log_parameters)

    def __add__(self, other: Kernel) -> Sum:
        """Sum of two kernels."""
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(self, other)


@dataclass(frozen=True)
class Sum(Kernel):
    """k = left + right, written ``left + right``.

    Examples
    --------
    >>> (Linear(1.0) + Constant(2.0)).gram(np.array([[1.0]]), np.array([[3.0]]))
    array([[5.]])
    """

    parameters: ClassVar[tuple[str, ...]] = ("left", "right")

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

    def spectral_sample(self, rng: np.random.Generator, count: int, n_features: int) -> Array:
        """Refused: features of a sum are two sets with their own variances."""
        raise InputError('log_z="rff" needs a single stationary kernel (RBF or Matern), got Sum.')


@dataclass(frozen=True)
class _Scaled(Kernel):
    """variance times a function without parameters."""

    parameters: ClassVar[tuple[str, ...]] = ("variance",)
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


def positive(value: Any, name: str, *, most: int = 0) -> Array:
    """The value as an array, refused unless finite and above zero.

    Parameters
    ----------
    most : dimensions that it may have: 0 for one number, 1 for a number or one per feature.

    Examples
    --------
    >>> positive(2.0, "variance")
    array(2.)
    """
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiu" or array.ndim > most or array.size == 0:
        kind = "a number" if most == 0 else "a number, or one number per feature,"
        raise InputError(f"{name} must be {kind} > 0, got {value!r}.")
    array = array.astype(np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{name} must be > 0, got {value}.")
    return array
