"""The verbs that inference asks of a processor. Everything else it does has one number per instance or M x M of them.

A backend keeps the rows of V (n, M) where it likes, on the host or on a device, and hands out host arrays of one number
per row, or of M x M. How it divides rows among threads, which memory it uses again and which products it joins is its
own business; for the same rows it always gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

Array = NDArray[Any]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Features(Protocol):
    """What a backend needs to know of a sparse Gaussian process; see :class:`psimil.inference.sparse_gp.SparseGP`."""

    @property
    def kernel(self) -> Any:
        """Of the process."""

    @property
    def Z(self) -> Array:
        """(M, D) inducing points."""

    @property
    def L(self) -> Array:
        """(M, M) lower factor of K_zz."""

    @property
    def bias(self) -> float:
        """The last column of V for a constant mean; 0 without."""

    @property
    def size(self) -> int:
        """Columns of V."""

    @property
    def L_inverse_T(self) -> Array:
        """L^-T (M, M)."""

    def well_conditioned(self, itemsize: int) -> bool:
        """Whether products with L^-T keep enough digits."""

    def features(self, X: Array, K: Array | None = None, out: Array | None = None, *, whiten: bool = True) -> Array:
        """V (n, M) of some rows on the host."""


class Backend(Protocol):
    """Six verbs on the rows of V."""

    def features(
        self, gp: Features, X: Array, *, whiten: bool = True, K: Any = None, out: Any = None, reuse: bool = False
    ) -> Any:
        """V (n, M) of X (n, D), or [K_xz, b] without ``whiten``.

        Parameters
        ----------
        K : [K_xz, b], if that is at hand.
        out : where to write; with ``reuse`` it is memory that the next such call of this thread overwrites.
        """

    def row_squares(self, V: Any, m: Array, U: Array) -> tuple[Array, Array]:
        """V m (n,) and |V U|^2 (n,), U (M, M) upper triangular: mean and spread of every row."""

    def weighted_sums(self, V: Any, theta: Array, kappa: Array) -> tuple[Array, Array]:
        """V' diag(theta) V (M, M), symmetric, and V' kappa (M,), theta >= 0."""

    def kernel_adjoint(
        self, gp: Features, X: Array, K: Any, V: Any, row: tuple[Array, Array, Array | None], weights: Array
    ) -> tuple[Array, Array]:
        """The gradient by the log parameters of the kernel (P,) by way of K_xz, and V' diag(slope) V.

        The adjoint of K_xz is diag(theta) V weights[:-1] + kappa weights[-1] + 2 diag(slope) V L^-1.

        Parameters
        ----------
        K, V : what :meth:`features` gave for X, without and with ``whiten``; the same where V is not needed.
        row : theta, kappa and slope, each (n,); slope None for 0.
        weights : (columns of V + 1, M).
        """

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results of the function on each item, in their order."""

    def on_host(self, V: Any) -> Array:
        """V as an array of NumPy."""
