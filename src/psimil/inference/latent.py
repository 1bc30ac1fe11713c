"""q(f*) of new instances, Eq. (30)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.blas import multiply_upper
from psimil.compute.numpy_backend import Scratch, chunk_rows, ordered_map, single_threaded_blas
from psimil.inference.posterior import Posterior
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@single_threaded_blas()
def latent_moments(gp: SparseGP, posterior: Posterior, X: Array) -> tuple[Array, Array]:
    """Mean and variance (N,) of f at X (N, D), Eq. (30): mu = V m, s2 = k~ + |V R^-T|^2.

    When K_zz is well conditioned and there is no residual, one triangular product K_xz (L^-T R^-T) does.
    """
    dtype, rows = X.dtype, chunk_rows(gp.size, X.dtype)
    mu, s2, scratch = np.empty(len(X)), np.empty(len(X)), Scratch()
    fused = gp.residual == "projected" and gp.well_conditioned(X.itemsize)
    M, Z, U, m = len(gp.Z), gp.Z.astype(dtype), posterior.U.astype(dtype), posterior.m.astype(dtype)
    # K_xz times these two columns gives the mean and, with a constant mean, the last column of W
    columns = gp.L_inverse_T @ np.column_stack([posterior.m[:M], posterior.U[:M, -1]])
    T = np.ascontiguousarray(gp.L_inverse_T @ posterior.U[:M, :M], dtype=dtype)
    columns = columns.astype(dtype)

    def fused_part(start: int) -> None:
        part = slice(start, start + rows)
        W = gp.kernel.gram(X[part], Z, out=scratch.array("W", (len(X[part]), M), dtype))
        both = W @ columns
        mu[part] = both[:, 0] + (gp.bias * m[-1] if gp.bias else 0.0)
        multiply_upper(W, T)
        s2[part] = np.vecdot(W, W)
        if gp.bias:
            s2[part] += np.square(both[:, 1] + gp.bias * U[-1, -1])

    def stable_part(start: int) -> None:
        part = slice(start, start + rows)
        W = gp.features(X[part], out=scratch.array("W", (len(X[part]), gp.size), dtype))
        k = gp.residual_variance(X[part], W)
        mu[part] = W @ m
        multiply_upper(W, U)
        s2[part] = k + np.vecdot(W, W)

    for _ in ordered_map(fused_part if fused else stable_part, range(0, len(X), rows)):
        pass
    return mu, s2
