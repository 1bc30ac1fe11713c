"""One pass over the data: local quantities, label posterior, statistics and bound, chunk by chunk.

Given q(v) everything local is a pure function of it, so a pass is a map over chunks of whole bags and a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.blas import add_gram, multiply_upper
from psimil.foundations.linalg import symmetric
from psimil.foundations.threads import Scratch, ordered_map
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Chunk, Problem
from psimil.inference.sparse_gp import SparseGP
from psimil.model.label_posteriors import RULES

Array = NDArray[Any]


@dataclass(frozen=True)
class Projection:
    """V and k~ of the training instances: kept when they fit, computed again chunk by chunk otherwise."""

    gp: SparseGP
    X: Array
    V: Array | None = None
    k: Array | None = None

    @classmethod
    def build(cls, gp: SparseGP, problem: Problem) -> Projection:
        """Project all training instances, or none when the problem is to be streamed."""
        if not problem.cache:
            return cls(gp, problem.X)
        V = np.empty((len(problem.X), gp.size), dtype=problem.X.dtype)
        k = np.empty(len(problem.X))

        def fill(chunk: Chunk) -> None:
            rows = slice(chunk.start, chunk.stop)
            gp.features(problem.X[rows], out=V[rows])
            k[rows] = gp.residual_variance(problem.X[rows], V[rows])

        for _ in ordered_map(fill, problem.chunks):
            pass
        return cls(gp, problem.X, V, k)

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """V (n, M) and k~ (n,) of instances start to stop - 1."""
        if self.V is not None and self.k is not None:
            return self.V[start:stop], self.k[start:stop]
        X = self.X[start:stop]
        V = self.gp.features(X)
        return V, self.gp.residual_variance(X, V)


@dataclass(frozen=True)
class Local:
    """Per instance: latent mean mu, variance s2, theta (Eq. 28) and pi (Eq. 25), each (N,)."""

    mu: Array
    s2: Array
    theta: Array
    pi: Array


@dataclass(frozen=True)
class Statistics:
    """Sums over instances: V' Theta V (M, M), V' kappa (M,), and the data terms of the bound."""

    V_theta_V: Array
    V_kappa: Array
    potential: float
    scale_mixture: float
    bags: float
    entropy: float


def local_pass(
    projection: Projection, posterior: Posterior, problem: Problem, pi: Array | None = None
) -> tuple[Local, Statistics]:
    """Everything that follows from q(v): Eqs. (25) and (28), and the sums behind Eqs. (26) and (27).

    Parameters
    ----------
    projection : V and k~ of the training instances.
    posterior : q(v).
    pi : (N,) previous pi, for label posteriors that iterate.
    """
    N, M = len(problem.X), len(posterior.m)
    local = Local(*(np.empty(N) for _ in range(4)))
    dtype = problem.X.dtype
    m, U = posterior.m.astype(dtype), posterior.U.astype(dtype)
    rule, scratch = RULES[problem.rule], Scratch()

    def sums(chunk: Chunk) -> tuple[Array, Array, Array]:
        rows = slice(chunk.start, chunk.stop)
        V, k = projection.rows(chunk.start, chunk.stop)
        W = scratch.array("W", V.shape, dtype)
        np.copyto(W, V)
        mu = (W @ m).astype(np.float64, copy=False)
        multiply_upper(W, U)  # V R^-T
        s2 = k + np.vecdot(W, W)
        c = np.sqrt(mu * mu + s2)
        theta, log_psi = problem.density.theta(c), problem.density.log_prob(c)
        q = rule(mu, problem.chunk_labels(chunk), None if pi is None else pi[rows])
        local.mu[rows], local.s2[rows], local.theta[rows], local.pi[rows] = mu, s2, theta, q.pi
        kappa, w_bags = q.pi - 0.5, problem.weights[chunk.first : chunk.last]
        if problem.weighted:
            w = problem.instance_weights[rows]
            theta, kappa, log_psi = w * theta, w * kappa, w * log_psi
        np.multiply(V, np.sqrt(theta).astype(dtype, copy=False)[:, None], out=W)
        gram = add_gram(np.zeros((M, M), dtype=dtype), W)
        terms = np.array([w_bags @ q.potential, log_psi.sum(), w_bags @ q.bags, w_bags @ q.entropy])
        return gram, kappa.astype(dtype, copy=False) @ V, terms

    gram, V_kappa, terms = np.zeros((M, M)), np.zeros(M), np.zeros(4)
    for chunk_gram, chunk_kappa, chunk_terms in ordered_map(sums, problem.chunks):
        gram += chunk_gram
        V_kappa += chunk_kappa
        terms += chunk_terms
    return local, Statistics(symmetric(gram), V_kappa, *map(float, terms))
