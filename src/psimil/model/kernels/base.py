"""What inference asks of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    from psimil.model.kernels.algebra import Sum

Array = NDArray[Any]


class Kernel(ABC):
    """A positive definite function of two points with positive parameters, learned as their logarithms.

    Examples
    --------
    >>> from psimil import RBF, Linear
    >>> kernel = RBF(variance=2.0, lengthscale=1.0) + Linear(0.5)
    >>> isinstance(kernel, Kernel), kernel.diagonal(np.array([[0.0], [2.0]]))
    (True, array([2., 4.]))
    """

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

    @property
    @abstractmethod
    def log_parameters(self) -> Array:
        """(P,) logarithms of the parameters."""

    @abstractmethod
    def with_log_parameters(self, values: Array) -> Kernel:
        """The same kernel with other parameters."""

    @abstractmethod
    def resolve(self, n_features: int) -> Kernel:
        """The same kernel with every None filled in for D features, and its shape checked."""

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
        from psimil.model.kernels.algebra import Sum

        return Sum(self, other)


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
