"""Leave-one-bag-out in closed form: what the other bags say about each bag, without refitting.

With the local parameters of the other bags kept, removing bag b changes q(v) by a low-rank term. With A = V_b S V_b',
r = mu_b - A kappa_b and C = (I - A Theta_b)^-1 A, the bag's latent values have mean r + C Theta_b r and covariance C
(plus k~) without it (docs/derivations.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.blas import multiply_upper
from psimil.foundations.linalg import cholesky, solve_lower
from psimil.foundations.threads import ordered_map
from psimil.inference.local_pass import Local, Projection
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Chunk, Problem

Array = NDArray[Any]


def leave_one_out(projection: Projection, posterior: Posterior, local: Local, problem: Problem) -> tuple[Array, Array]:
    """Latent mean and variance (N,) of every instance when its own bag is left out.

    Parameters
    ----------
    posterior : the q(v) that ``local`` implies (global update of its statistics).
    local : theta and pi of the last pass.
    """
    mean, variance = np.empty(len(problem.X)), np.empty(len(problem.X))
    w = problem.instance_weights
    theta, kappa = w * local.theta, w * (local.pi - 0.5)
    dtype = problem.X.dtype
    m, U = posterior.m.astype(dtype), posterior.U.astype(dtype)
    offsets = problem.labels.offsets

    def part(chunk: Chunk) -> None:
        rows = slice(chunk.start, chunk.stop)
        V, k = projection.rows(chunk.start, chunk.stop)
        mu, W = V @ m, multiply_upper(V.copy(), U)
        sizes = np.diff(offsets[chunk.first : chunk.last + 1])
        starts = offsets[chunk.first : chunk.last] - chunk.start
        for n in np.unique(sizes):
            index = (starts[sizes == n][:, None] + np.arange(n)).ravel()
            bags = (-1, int(n))
            group = W[index].reshape(*bags, W.shape[1]).astype(np.float64, copy=False)
            remove = _by_features if n > W.shape[1] else _by_instances
            found = remove(
                group, mu[index].reshape(bags), theta[rows][index].reshape(bags), kappa[rows][index].reshape(bags)
            )
            mean[chunk.start + index], variance[chunk.start + index] = found[0].ravel(), found[1].ravel()
        variance[rows] += k

    for _ in ordered_map(part, problem.chunks):
        pass
    return mean, np.maximum(variance, 0.0)


def _by_instances(W: Array, mu: Array, theta: Array, kappa: Array) -> tuple[Array, Array]:
    """Bags (k, n, M) with n <= M: C = A + A t (I - t A t)^-1 t A with t = Theta^(1/2), an n x n solve for each."""
    A = W @ W.transpose(0, 2, 1)
    r = mu - _apply(A, kappa)
    t = np.sqrt(theta)
    tA = t[:, :, None] * A
    B = np.eye(A.shape[1]) - tA * t[:, None, :]
    X = np.linalg.solve(B, tA)
    y = theta * r
    mean = r + _apply(A, y) + _apply(tA.transpose(0, 2, 1), _apply(X, y))
    return mean, np.einsum("bii->bi", A) + np.einsum("bji,bji->bi", tA, X)


def _by_features(W: Array, mu: Array, theta: Array, kappa: Array) -> tuple[Array, Array]:
    """Bags with n > M: C = W (I - W' Theta W)^-1 W', an M x M factor for each."""
    mean, variance = np.empty_like(mu), np.empty_like(mu)
    for b in range(len(W)):
        r = mu[b] - W[b] @ (W[b].T @ kappa[b])
        weighted = W[b] * np.sqrt(theta[b])[:, None]
        L = cholesky(np.eye(W.shape[2]) - weighted.T @ weighted, scale=1.0).L
        half = solve_lower(L, W[b].T)  # (M, n): C = half' half
        mean[b] = r + half.T @ (half @ (theta[b] * r))
        variance[b] = np.square(half).sum(axis=0)
    return mean, variance


def _apply(A: Array, x: Array) -> Array:
    return np.asarray(np.einsum("bij,bj->bi", A, x))
