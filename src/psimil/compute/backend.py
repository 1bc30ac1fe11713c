"""The verbs that inference asks of a processor. Everything else it does has one number per instance or M x M of them.

A backend keeps the rows of V (n, M) where it likes, on the host or on a device, and hands out host arrays of one number
per row, or of M x M. How it divides rows among threads, which memory it uses again and which products it joins is its
own business; for the same rows it always gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from psimil.foundations.arrays import Array

Item = TypeVar("Item")
Result = TypeVar("Result")


class Features(Protocol):
    """What a backend needs to know of a sparse Gaussian process; see :class:`psimil.model.sparse_gp.SparseGP`."""

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

    def features(self, X: Array, out: Array | None = None, *, whiten: bool = True) -> Array:
        """V (n, M) of some rows on the host."""


class Backend(Protocol):
    """The verbs on the rows of V."""

    def features(self, gp: Features, X: Array, dtype: Any = None, *, whiten: bool = True, reuse: bool = False) -> Any:
        """V (n, M) of X (n, D), or [K_xz, b] without ``whiten``; worked out in the precision of X.

        Parameters
        ----------
        dtype : to which it is rounded; None for that of X.
        reuse : let it lie in memory that the next such call of this thread overwrites.
        """

    def row_squares(self, V: Any, m: Array, U: Array) -> tuple[Array, Array]:
        """V m (n,) and |V U|^2 (n,), U (M, M) upper triangular: mean and spread of every row."""

    def products(self, V: Any, A: Array) -> Array:
        """A' V' (S, n) for A (M, S): f of every row for S values of v."""

    def transposed_products(self, V: Any, G: Array) -> Array:
        """V' G' (M, S) for G (S, n)."""

    def weighted_sums(self, V: Any, weights: Array, linear: Array) -> tuple[Array, Array]:
        """V' diag(weights) V (M, M), symmetric, and V' linear (M,); weights may be negative."""

    def bag_gram(self, V: Any, r: Array, offsets: Array, sign: Array) -> Array:
        """The sum over bags of sign_b (V_b' r_b) (V_b' r_b)', (M, M).

        Parameters
        ----------
        r : (n,) the vectors r_b, bag after bag; bags without one have zeros.
        offsets, sign : (B + 1,) first row of each bag, and (B,) +1 or -1.
        """

    def scanned(self, V: Any, rho: Array, offsets: Array) -> Any:
        """Rows W_i = V_i + rho_i W_i+1 of every bag, see :mod:`psimil.foundations.scans`."""

    def kernel_adjoint(self, gp: Features, X: Array, K: Any, left: Array, right: Array) -> Array:
        """The gradient (P,) by the log parameters of the kernel by way of K_xz, whose adjoint is a product.

        Parameters
        ----------
        K : [K_xz, b] of X, as :meth:`features` gave it without ``whiten``; it may be overwritten.
        left, right : (n, R) and (R, M), whose product the adjoint is.
        """

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results of the function on each item, in their order."""

    def on_host(self, V: Any) -> Array:
        """V as an array of NumPy."""
