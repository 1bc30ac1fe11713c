"""What a pass and the collapsed bound need of the instances, worked out by torch on a device. Needs torch.

The functions take and return host arrays, but for V, which stays on the device. They work through some rows at a time,
so that only V is of the size of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from psimil.foundations.torch_linalg import add_gram, multiply_upper, solve_lower_right, to_device, to_host
from psimil.inference.sparse_gp import SparseGP
from psimil.model.kernels.torch_gram import gram, log_parameters

Array = NDArray[Any]

ROWS = 1 << 16  # of V at a time: 100 MB with 200 inducing points


def features(gp: SparseGP, X: Array, device: str, *, whiten: bool = True) -> Tensor:
    """V = K_xz L^-T (n, M) with the column of a constant mean, or K_xz with that column; see SparseGP.features."""
    V = torch.empty((len(X), gp.size), dtype=_dtype(X), device=device)
    Z = to_device(gp.Z, device, X.dtype)
    with torch.no_grad():
        for rows in _pieces(len(X)):
            K = gram(gp.kernel, to_device(X[rows], device), Z)
            V[rows, : len(Z)] = _whitened(gp, K) if whiten else K
            V[rows, len(Z) :] = gp.bias
    return V


def latent(V: Tensor, m: Array, U: Array) -> tuple[Array, Array]:
    """V m (n,) and |V U|^2 (n,), U upper triangular."""
    mean, spread = _like(m, V), _like(U, V)
    mu, s2 = np.empty(len(V)), np.empty(len(V))
    for rows in _pieces(len(V)):
        mu[rows] = to_host(V[rows] @ mean)
        s2[rows] = to_host(multiply_upper(V[rows], spread).square().sum(1))
    return mu, s2


def sums(V: Tensor, theta: Array, kappa: Array) -> tuple[Array, Array]:
    """V' diag(theta) V (M, M) and V' kappa (M,)."""
    total = V.new_zeros((V.shape[1], V.shape[1]))
    linear = V.new_zeros(V.shape[1])
    for rows in _pieces(len(V)):
        total = add_gram(total, V[rows] * _like(np.sqrt(theta[rows]), V)[:, None])
        linear += _like(kappa[rows], V) @ V[rows]
    return to_host(total), to_host(linear)


def adjoint(
    gp: SparseGP, X: Array, device: str, theta: Array, kappa: Array, weights: Array, slope: Array | None
) -> tuple[Array, Array]:
    """The gradient by way of K_xz (P,), and V' diag(slope) V (M, M), as in the backward sweep of the collapsed bound.

    Parameters
    ----------
    theta, kappa, slope : (n,) per instance.
    weights : (M + 2, M) or (M + 1, M) of the sweep.
    """
    M, dtype = len(gp.Z), X.dtype
    Z, w = to_device(gp.Z, device, dtype), to_device(weights, device, dtype)
    gradient = torch.zeros(len(gp.kernel.log_parameters), dtype=w.dtype, device=device)
    moved = w.new_zeros((M, M))
    for rows in _pieces(len(X)):
        parameters = log_parameters(gp.kernel, w).requires_grad_()
        K = gram(gp.kernel, to_device(X[rows], device), Z, parameters)
        with torch.no_grad():
            V = torch.cat([_whitened(gp, K), K.new_full((len(K), gp.size - M), gp.bias)], 1)
            A = (V * _like(theta[rows], V)[:, None]) @ w[:-1] + _like(kappa[rows], V)[:, None] * w[-1]
            if slope is not None:
                scaled = V[:, :M] * _like(slope[rows], V)[:, None]
                A += 2.0 * scaled @ to_device(gp.L_inverse_T.T, device, dtype)
                moved += V[:, :M].T @ scaled
        gradient += torch.autograd.grad(K, parameters, A)[0]
    return to_host(gradient), to_host(moved)


def _whitened(gp: SparseGP, K: Tensor) -> Tensor:
    if gp.well_conditioned(K.element_size()):
        return multiply_upper(K, _like(gp.L_inverse_T, K))
    wide = K.double()  # single precision would leave no digit
    return solve_lower_right(wide, _like(gp.L, wide)).to(K.dtype)


def _like(A: Array, V: Tensor) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(A), dtype=V.dtype, device=V.device)


def _dtype(X: Array) -> torch.dtype:
    return torch.float32 if X.dtype == np.float32 else torch.float64


def _pieces(n: int) -> Iterator[slice]:
    return (slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS))
