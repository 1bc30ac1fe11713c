"""One pass over a shard: given q(v), everything local is a pure function of it, and q(v) follows from sums over it.

For every instance n and the bag b that it lies in, with v_n the n-th row of V:

    mu_n = v_n'm,  s2_n = k~_n + |U'v_n|^2            mean and variance of f_n under q(v) = N(m, U U')
    pi_b = P(y_b = 1 | mu_b, T_b)                      label posterior, Eq. (25)
    theta_n = theta(c_n),  c_n^2 = E f_n^2             scale mixture, Eq. (28)
    V' Theta V,  V' kappa,  kappa = pi - 1/2           what the next q(v) is made of, Eqs. (26) and (27)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import partial

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.linalg import symmetric
from psimil.inference.shards import Shard
from psimil.model.bag_ranges import BagRange
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.label_posteriors import EXACT


@dataclass(frozen=True)
class Bound:
    """L = - kl + potential + scale_mixture + bags + entropy - log_z (docs/mathematics/derivations.md).

    The bound of the joint density of Eqs. (18), (41) and (42), which every update of Eq. (43) raises.

    Examples
    --------
    >>> Bound(kl=1.0, potential=0.5, scale_mixture=-2.0, bags=0.0, entropy=0.25, log_z=0.0).total
    -2.25
    """

    kl: float
    potential: float
    scale_mixture: float
    bags: float
    entropy: float
    log_z: float

    @property
    def total(self) -> float:
        """L."""
        return -self.kl + self.potential + self.scale_mixture + self.bags + self.entropy - self.log_z

    def as_dict(self) -> dict[str, float]:
        """The terms and their total, for a history."""
        return {**asdict(self), "elbo": self.total}


@dataclass(frozen=True)
class Statistics:
    """Sums over instances, Eqs. (58) to (60): V' Theta V (M, M), V' kappa (M,), and the data terms of the bound.

    Examples
    --------
    >>> sums = Statistics(np.ones((1, 1)), np.ones(1), 1.0, 2.0, 3.0, 4.0)
    >>> (sums + sums).bags, sums.scaled(0.5).entropy
    (6.0, 2.0)
    """

    V_theta_V: Array
    V_kappa: Array
    potential: float
    scale_mixture: float
    bags: float
    entropy: float

    def __add__(self, other: Statistics) -> Statistics:
        """The sums over two sets of bags."""
        return Statistics(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> Statistics:
        """The sums over ``factor`` times as much data."""
        return Statistics(*(factor * getattr(self, f.name) for f in fields(self)))

    def bound(self, kl: float, log_z: float) -> Bound:
        """L, given the two terms that are not sums over bags."""
        return Bound(kl, self.potential, self.scale_mixture, self.bags, self.entropy, log_z)


@dataclass(frozen=True)
class Local:
    """Per instance: latent mean mu, variance s2, theta (Eq. 28) and pi (Eq. 25), each (n,)."""

    mu: Array
    s2: Array
    theta: Array
    pi: Array

    @property
    def diagonal(self) -> Array:
        """(n,) curvature of the scale mixture."""
        return self.theta

    @property
    def vector(self) -> Array:
        """(n,) zeros: this curvature is diagonal."""
        return np.zeros_like(self.theta)

    @property
    def chains(self) -> tuple[tuple[Array, Array], ...]:
        """None."""
        return ()

    def gradient_at(self, mu: Array, rows: slice | Array) -> Array:
        """Kappa - theta mu of some instances whose means are mu."""
        return np.asarray(self.pi[rows] - 0.5 - self.theta[rows] * mu)


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
    rows, w, rule = bags.rows, shard.weights[bags.first : bags.last], shard.rule or EXACT
    mu = local.mu[rows]
    c = np.sqrt(gp.second_moment(shard.X[rows], mu, local.s2[rows]))
    labels = shard.labels.chunk(bags.first, bags.last)
    if rule.breaks_ties:
        labels = replace(labels, keys=shard.keys[rows])
    q = rule.update(mu, labels, None if pi is None else pi[rows])
    local.theta[rows], local.pi[rows] = shard.density.theta(c), q.pi
    scale_mixture = shard.instance_weights[rows] @ shard.density.log_prob(c)
    return np.array([w @ q.potential, scale_mixture, w @ q.bags, w @ q.entropy])
