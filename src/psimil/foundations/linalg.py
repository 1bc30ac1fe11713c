"""The one room for matrix factorisations: nobody else factorises, inverts or adds jitter."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from psimil.foundations.errors import NumericalFailure

Array = NDArray[Any]

JITTERS = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
SMALLEST_EIGENVALUE = 1e-9  # of the scale. Pivots say nothing: 1e-12 goes with an eigenvalue of 1e-17


@dataclass(frozen=True)
class Factor:
    """Lower triangular L with L L' = K + jitter I."""

    L: Array
    jitter: float


def cholesky(K: Array, *, scale: float | None = None) -> Factor:
    """Lower Cholesky factor of K + eps I, eps growing tenfold from 0 and 1e-8 of the scale until it can be trusted.

    Rounding changes K by some E of the size of M eps |K|, and k_nn - |L^-1 k|^2 by a'E a with a = K^-1 k. A smallest
    eigenvalue keeps |a|, and with it what rounding does, small.

    Parameters
    ----------
    K : (M, M) symmetric matrix.
    scale : what jitter is relative to; the mean of the diagonal when None.

    Examples
    --------
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]])).L
    array([[2., 0.],
           [1., 1.]])
    """
    K = np.asarray(K, dtype=np.float64)
    scale = float(np.mean(np.diag(K))) if scale is None else scale
    if not np.isfinite(K).all():
        raise NumericalFailure(f"kernel matrix ({len(K)} x {len(K)}) has non-finite entries")
    for relative in JITTERS:
        shifted = K + relative * scale * np.eye(len(K))
        L, info = lapack.dpotrf(shifted, lower=1, clean=1)
        if info == 0 and smallest_eigenvalue(L) > SMALLEST_EIGENVALUE * scale:
            return Factor(np.ascontiguousarray(L), relative * scale)
    raise NumericalFailure(
        f"kernel matrix not positive definite with jitter up to {JITTERS[-1]:.1e} "
        f"({len(K)} x {len(K)}, cond {np.linalg.cond(K):.0e}). Use fewer or more distinct inducing points."
    )


def smallest_eigenvalue(L: Array) -> float:
    """Of L L' for lower triangular L, from below: 1 / |(L L')^-1|_1, as LAPACK estimates that norm.

    Examples
    --------
    >>> round(smallest_eigenvalue(np.diag([1.0, 0.1])), 12)
    0.01
    """
    return float(lapack.dpocon(L.T, 1.0, uplo="U")[0])


def is_positive_definite(P: Array) -> bool:
    """Whether P (M, M) has a Cholesky factor.

    Examples
    --------
    >>> is_positive_definite(np.diag([1.0, 1e-3])), is_positive_definite(np.diag([1.0, -1e-3]))
    (True, False)
    """
    return bool(lapack.dpotrf(P, lower=1)[1] == 0)


def floored(P: Array, floor: float) -> Array:
    """Lower Cholesky factor of P (M, M) with eigenvalues below ``floor`` replaced by their sizes, or by ``floor``.

    Examples
    --------
    >>> floored(np.diag([4.0, -9.0]), 0.25)
    array([[2., 0.],
           [0., 3.]])
    """
    if not np.isfinite(P).all():
        raise NumericalFailure(f"precision ({len(P)} x {len(P)}) has non-finite entries")
    shifted = P.copy()
    shifted[np.diag_indices_from(P)] -= floor
    if not is_positive_definite(shifted):
        values, vectors = np.linalg.eigh(P)
        P = (vectors * np.maximum(np.abs(values), floor)) @ vectors.T
    return np.ascontiguousarray(lapack.dpotrf(P, lower=1, clean=1)[0])


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L^-1 B for lower triangular L, or L^-T B.

    Examples
    --------
    >>> solve_lower(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]))
    array([1., 2.])
    """
    return np.asarray(solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False))


def solve_upper(U: Array, B: Array) -> Array:
    """U^-1 B for upper triangular U.

    Examples
    --------
    >>> solve_upper(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([4.0, 2.0]))
    array([1., 2.])
    """
    return np.asarray(solve_triangular(U, B, lower=False, check_finite=False))


def inverse_upper(L: Array) -> Array:
    """L^-T, the upper triangular inverse of a transposed lower factor, row-major.

    Examples
    --------
    >>> inverse_upper(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5, -0.5],
           [ 0. ,  1. ]])
    """
    inverse, _ = lapack.dtrtri(L, lower=1)
    return np.ascontiguousarray(np.tril(inverse).T)


def symmetric(upper: Array) -> Array:
    """Full symmetric matrix from its upper triangle.

    Examples
    --------
    >>> symmetric(np.array([[1.0, 2.0], [0.0, 4.0]]))
    array([[1., 2.],
           [2., 4.]])
    """
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)


def nonnegative(variance: Array, name: str) -> Array:
    """The variance with what rounding took below zero cut off; one that is not finite is an error.

    Examples
    --------
    >>> nonnegative(np.array([1.0, -1e-18]), "example")
    array([1., 0.])
    """
    if not np.isfinite(variance).all():
        raise NumericalFailure(f"{name} variance is not finite")
    return np.maximum(variance, 0.0)
