"""The one room for matrix factorisations, and for triangular products of many rows at a time.

Nobody else factorises, inverts or adds jitter. SciPy's wrappers of BLAS hold the interpreter lock, so threads that work
on different chunks would take turns. The same compiled routines are reachable through the function table of
``scipy.linalg.cython_blas``; ctypes releases the lock around each call.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, lapack, solve_triangular

from psimil.foundations.arrays import Array
from psimil.foundations.errors import NumericalFailure

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


def stretch(own: Array, wanted: Array) -> Array:
    """What gives deviations of variance ``own`` the variance ``wanted``; 1 where they do not vary at all.

    Examples
    --------
    >>> stretch(np.array([4.0, 0.0]), np.array([1.0, 1.0]))
    array([0.5, 1. ])
    """
    own = np.asarray(own, dtype=np.float64)
    return np.sqrt(np.divide(wanted, own, out=np.ones_like(own), where=own > 1e-100 * wanted))


_PREFIX = {np.dtype(np.float64): ("d", ctypes.c_double), np.dtype(np.float32): ("s", ctypes.c_float)}


def _routine(name: str, arguments: int) -> Any:
    capsule = cython_blas.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(get_pointer(capsule, get_name(capsule)))


_TRMM = {p: _routine(f"{p}trmm", 11) for p in "sd"}
_TRSM = {p: _routine(f"{p}trsm", 11) for p in "sd"}
_SYRK = {p: _routine(f"{p}syrk", 10) for p in "sd"}
_GEMM = {p: _routine(f"{p}gemm", 13) for p in "sd"}


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _leading(A: Array) -> int:
    """Elements between consecutive rows, after checking that BLAS can address the matrix."""
    (n, columns), (down, across) = A.shape, A.strides
    down = down if n > 1 else A.itemsize * columns  # NumPy leaves the stride of a single row or column open
    if (columns > 1 and across != A.itemsize) or down < A.itemsize * columns:
        raise ValueError("BLAS needs row-major chunks")
    return down // A.itemsize


def multiply_upper(W: Array, U: Array) -> Array:
    """W <- W U in place, U upper triangular.

    Parameters
    ----------
    W : (n, M) row-major array, overwritten.
    U : (M, M) row-major upper triangular array; its lower part is not read.

    Examples
    --------
    >>> multiply_upper(np.ones((1, 2)), np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([[1., 5.]])
    """
    return _by_triangle(_TRMM, b"L", b"N", W, U)  # seen column-major: W' <- U' W', U' lower triangular


def solve_lower_right(W: Array, L: Array) -> Array:
    """W <- W L^-T in place, L lower triangular.

    Parameters
    ----------
    W : (n, M) row-major array, overwritten.
    L : (M, M) row-major lower triangular array; its upper part is not read.

    Examples
    --------
    >>> solve_lower_right(np.array([[2.0, 3.0]]), np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[1., 2.]])
    """
    return _by_triangle(_TRSM, b"U", b"T", W, L)  # seen column-major: W' <- L^-1 W', L stored as its transpose


def _by_triangle(routines: dict[str, Any], triangle: bytes, transposed: bytes, W: Array, A: Array) -> Array:
    """W (n, M) changed in place by a routine for a triangular A (M, M), which stands to the left of W'."""
    if W.size == 0:
        return W
    prefix, real = _PREFIX[W.dtype]
    n, M = W.shape
    routines[prefix](
        b"L", triangle, transposed, b"N", _int(M), _int(n), ctypes.byref(real(1.0)),
        A.ctypes.data, _int(_leading(A)), W.ctypes.data, _int(_leading(W)),
    )  # fmt: skip
    return W


def add_gram(G: Array, W: Array, factor: float = 1.0) -> Array:
    """G <- G + factor W'W on the upper triangle (row-major), in place.

    Parameters
    ----------
    G : (M, M) row-major array; only the upper triangle is written.
    W : (n, M) row-major array.

    Examples
    --------
    >>> add_gram(np.zeros((2, 2)), np.array([[1.0, 2.0]]))
    array([[1., 2.],
           [0., 4.]])
    """
    if W.size == 0:
        return G
    prefix, real = _PREFIX[W.dtype]
    n, M = W.shape
    _SYRK[prefix](
        b"L", b"N", _int(M), _int(n), ctypes.byref(real(factor)), W.ctypes.data, _int(_leading(W)),
        ctypes.byref(real(1.0)), G.ctypes.data, _int(_leading(G)),
    )  # fmt: skip
    return G


def add_product(K: Array, X: Array, Z: Array, factor: float = 1.0) -> Array:
    """K <- K + factor X Z' in place.

    Parameters
    ----------
    K : (n, M) row-major array, overwritten.
    X, Z : (n, D) and (M, D) row-major arrays.

    Examples
    --------
    >>> add_product(np.ones((1, 2)), np.array([[2.0]]), np.array([[3.0], [4.0]]))
    array([[7., 9.]])
    """
    if K.size == 0:
        return K
    prefix, real = _PREFIX[K.dtype]
    (n, D), M = X.shape, len(Z)
    _GEMM[prefix](  # seen column-major: K' <- K' + factor Z X', Z stored as its transpose
        b"T", b"N", _int(M), _int(n), _int(D), ctypes.byref(real(factor)), Z.ctypes.data, _int(_leading(Z)),
        X.ctypes.data, _int(_leading(X)), ctypes.byref(real(1.0)), K.ctypes.data, _int(_leading(K)),
    )  # fmt: skip
    return K
