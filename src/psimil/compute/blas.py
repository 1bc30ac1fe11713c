"""Four BLAS routines on row-major chunks, called without holding the interpreter lock.

SciPy's wrappers keep the lock, so threads that work on different chunks would take turns. The same
compiled routines are reachable through the function table of ``scipy.linalg.cython_blas``; ctypes
releases the lock around each call.
"""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas

Array = NDArray[Any]

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
    if W.size == 0:
        return W
    prefix, real = _PREFIX[W.dtype]
    n, M = W.shape
    _TRMM[prefix](  # seen column-major: W' <- U' W', U' lower triangular
        b"L", b"L", b"N", b"N", _int(M), _int(n), ctypes.byref(real(1.0)),
        U.ctypes.data, _int(_leading(U)), W.ctypes.data, _int(_leading(W)),
    )  # fmt: skip
    return W


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
    if W.size == 0:
        return W
    prefix, real = _PREFIX[W.dtype]
    n, M = W.shape
    _TRSM[prefix](  # seen column-major: W' <- L^-1 W', L stored as its transpose
        b"L", b"U", b"T", b"N", _int(M), _int(n), ctypes.byref(real(1.0)),
        L.ctypes.data, _int(_leading(L)), W.ctypes.data, _int(_leading(W)),
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
