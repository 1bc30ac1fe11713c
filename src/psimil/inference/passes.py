"""One pass over a shard: given q(v), everything local is a pure function of it, and q(v) follows from sums over it.

For every instance n and the bag b that it lies in, with v_n the n-th row of V:

    mu_n = v_n'm,  s2_n = k~_n + |U'v_n|^2            mean and variance of f_n under q(v) = N(m, U U')
    pi_b = P(y_b = 1 | mu_b, T_b)                      label posterior, Eq. (25)
    theta_n = theta(c_n),  c_n^2 = E f_n^2             scale mixture, Eq. (28)
    V' Theta V,  V' kappa,  kappa = pi - 1/2           what the next q(v) is made of, Eqs. (26) and (27)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import symmetric
from psimil.inference.bound import Statistics
from psimil.inference.posterior import Posterior
from psimil.inference.shards import BagRange, Shard
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class Local:
    """Per instance: latent mean mu, variance s2, theta (Eq. 28) and pi (Eq. 25), each (n,)."""

    mu: Array
    s2: Array
    theta: Array
    pi: Array


def run_pass(shard: Shard, gp: SparseGP, posterior: Posterior, pi: Array | None = None) -> tuple[Local, Statistics]:
    """Everything that follows from q(v): Eqs. (25) and (28), and the sums behind Eqs. (26) and (27).

    mu_n is Eq. (48), kappa_n = pi_n - 1/2 that of Eqs. (56) and (57), c_n that of Eq. (64).

    Parameters
    ----------
    shard : its n instances.
    gp, posterior : kernel with inducing points, and q(v).
    pi : (n,) previous pi, for label posteriors that iterate.
    """
    local = Local(*(np.empty(len(shard.X)) for _ in range(4)))
    m, U, A = posterior.m, posterior.U, None
    if shard.unwhitened(gp):  # V = [K_xz, b] A: the same with A m, A U, and sums whitened at the end
        A = gp.whitening
        m, U = A @ m, A @ U
    gram, linear, terms = np.zeros((gp.size, gp.size)), np.zeros(gp.size), np.zeros(4)
    for bags in shard.blocks:
        rows = bags.rows
        V, k = shard.features(gp, bags)
        local.mu[rows], squares = shard.backend.row_squares(V, m, U)
        local.s2[rows] = k + squares
        ranges = shard.ranges if shard.whole else [bags]
        for found in shard.backend.map(partial(_labels_and_theta, shard, gp, local, pi), ranges):
            terms += found
        w = shard.instance_weights[rows]
        sums = shard.backend.weighted_sums(V, w * local.theta[rows], w * (local.pi[rows] - 0.5))
        gram += sums[0]
        linear += sums[1]
    if A is not None:
        gram, linear = symmetric(A.T @ gram @ A), A.T @ linear
    return local, Statistics(gram, linear, *map(float, terms))


def _labels_and_theta(shard: Shard, gp: SparseGP, local: Local, pi: Array | None, bags: BagRange) -> Array:
    """Eqs. (25) and (28) of some bags, written to ``local``; the four data terms of their bound."""
    rows, w = bags.rows, shard.weights[bags.first : bags.last]
    mu = local.mu[rows]
    c = np.sqrt(gp.second_moment(shard.X[rows], mu, local.s2[rows]))
    labels = shard.labels.chunk(bags.first, bags.last)
    if shard.rule.breaks_ties:
        labels = replace(labels, keys=shard.keys[rows])
    q = shard.rule.update(mu, labels, None if pi is None else pi[rows])
    local.theta[rows], local.pi[rows] = shard.density.theta(c), q.pi
    scale_mixture = shard.instance_weights[rows] @ shard.density.log_prob(c)
    return np.array([w @ q.potential, scale_mixture, w @ q.bags, w @ q.entropy])
