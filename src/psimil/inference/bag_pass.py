"""One pass over a shard: what its bags say about q(v), as expectations over draws of v.

For draws v_s of q(v) = N(m, S) and every bag b with f_s = V_b v_s (docs/mathematics/derivations.md):

    likelihood_s = sum_b log p(T_b | f_s)    its mean is the first term of the bound
    g, d, r                                  per instance, the sites of :mod:`psimil.inference.sites`
    V' g  and  V' diag(d) V + sum_b sign (V_b' r_b)(V_b' r_b)'

At the optimum of q(v), m = V' g and S^-1 = I + the last matrix. One draw at the mean gives Newton's step instead.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import symmetric
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard, Shards, prior_log_z
from psimil.inference.sites import GaussianSites, sites_of, tilted_sites
from psimil.model.bag_ranges import BagRange
from psimil.model.densities import is_logistic
from psimil.model.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class BagBound:
    """L = likelihood - kl - log_z: the mean of log p(T | f) over q(v), less the divergence of q(v) from its prior.

    ``error`` is the standard error of the likelihood, a mean over draws; ``log_z`` is 0 for the hyperbolic secant.
    """

    kl: float
    likelihood: float
    log_z: float
    error: float

    @property
    def total(self) -> float:
        """L."""
        return self.likelihood - self.kl - self.log_z

    def as_dict(self) -> dict[str, float]:
        """The terms and their total, for a history."""
        return {**asdict(self), "elbo": self.total}


@dataclass(frozen=True)
class BagSums:
    """Sums over bags: curvature (M, M) and gradient (M,) in v, log-likelihoods (K, S) of the draws, and log Z.

    ``tilted`` is the sum of log E[p_b / s_b], where the pass was a tilted one; ``by_sharing`` its derivative by tau.

    Examples
    --------
    >>> sums = BagSums(np.ones((1, 1)), np.ones(1), np.array([[-2.0, -4.0]]), 0.0)
    >>> (sums + sums).bound(kl=1.0).total
    -7.0
    """

    curvature: Array
    gradient: Array
    likelihood: Array
    log_z: float
    tilted: float = 0.0
    by_sharing: float = 0.0

    def __add__(self, other: BagSums) -> BagSums:
        """The sums over two sets of bags."""
        return BagSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def bound(self, kl: float) -> BagBound:
        """L; draws come in antithetic pairs, the second half mirroring the first."""
        half, error = self.likelihood.shape[1] // 2, 0.0
        if half > 1:
            pairs = 0.5 * (self.likelihood[:, :half] + self.likelihood[:, half:])
            error = float(np.sqrt(pairs.var(axis=1, ddof=1).sum() / half))
        return BagBound(kl, float(self.likelihood.mean(axis=1).sum()), self.log_z, error)


def run_bag_pass(shard: Shard, gp: SparseGP, draws: Draws, *, tilted: bool = False) -> tuple[GaussianSites, BagSums]:
    """What a shard says about q(v), for draws of it; with ``tilted``, by expectations over tilted densities."""
    sites = GaussianSites.empty(len(shard.X), shard.likelihood.chains(shard.labels))
    w, A = shard.instance_weights, gp.whitening if shard.unwhitened(gp) else None
    v = draws if A is None else draws.times(A)  # V = [K_xz, b] A: the same with A v, and sums whitened at the end
    curvature, gradient, sign = np.zeros((gp.size, gp.size)), np.zeros(gp.size), shard.likelihood.sign(shard.labels)
    likelihood, log_means = np.zeros((len(v.blocks), v.blocks.shape[2])), 0.0
    for bags in shard.blocks:
        rows, ranges = bags.rows, v.ranges(shard, bags)
        V, _ = shard.features(gp, bags)
        found = shard.backend.map(partial(_fill_sites, shard, V, bags.start, v, sites, tilted), ranges)
        for some, (share, of_means) in zip(ranges, found, strict=True):
            likelihood[v.block(shard.first + some.first)] += share
            log_means += of_means
        part, labels = sites.taken(rows), shard.labels.chunk(bags.first, bags.last)
        sums = part.curvature.sums(V, w[rows], part.gradient, labels, sign[bags.first : bags.last], shard.backend)
        curvature, gradient = curvature + sums[0], gradient + sums[1]
    if A is not None:
        curvature, gradient = symmetric(A.T @ curvature @ A), A.T @ gradient
    log_z = 0.0 if is_logistic(shard.density) else prior_log_z(shard, gp)
    return sites, BagSums(curvature, gradient, likelihood, log_z, log_means)


def _fill_sites(
    shard: Shard, V: Any, start: int, draws: Draws, sites: GaussianSites, tilted: bool, bags: BagRange
) -> tuple[Array, float]:
    """The sites of some bags, written; the log-likelihood (S,) of each draw, and the sum of log E[p_b / s_b]."""
    rows, labels, likelihood = bags.rows, shard.labels.chunk(bags.first, bags.last), shard.likelihood
    mean, f = draws.latent(shard.backend, V[rows.start - start : rows.stop - start], shard.first + bags.first)
    df, w, log_means = f.astype(shard.precision, copy=False), shard.instance_weights[rows], 0.0
    found = likelihood.derivatives(df + mean.astype(df.dtype), labels)
    value = np.asarray(found.value @ shard.weights[bags.first : bags.last]) - draws.excess(df, w, found.gradient)
    part = sites_of(found, labels.spread(likelihood.sign(labels).astype(df.dtype)))
    if tilted:
        part, tilt = tilted_sites(found, part, df, labels, likelihood)
        log_means = float(w @ tilt.log_means)
    sites.put(rows, part)
    return value, log_means


@dataclass(frozen=True)
class BagPassTask:
    """The sums of a shard at draws of v and, if asked, the sites of every instance."""

    gp: SparseGP
    draws: Draws
    tilted: bool = False
    keep_sites: bool = False

    def __call__(self, shard: Shard) -> tuple[BagSums, GaussianSites | None]:
        """Sums over the shard."""
        sites, sums = run_bag_pass(shard, self.gp, self.draws, tilted=self.tilted)
        return sums, sites if self.keep_sites else None


def bag_pass_over(
    shards: Shards, gp: SparseGP, draws: Draws, ranges: list[BagRange] | None = None, *, tilted: bool = False
) -> tuple[BagSums, GaussianSites | None]:
    """The sums over all shards, or some, in their order; sites where all data are one shard in memory."""
    total, sites = None, None
    for sums, found in shards.map(BagPassTask(gp, draws, tilted, shards.in_memory is not None), ranges):
        total, sites = sums if total is None else total + sums, found
    assert total is not None  # a data set has at least one shard
    return total, sites
