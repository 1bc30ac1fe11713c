"""One pass over a shard: what its bags say about q(v), as expectations over draws of v.

For draws v_s of q(v) = N(m, S) and every bag b with f_s = V_b v_s (docs/derivations.md):

    likelihood_s = sum_b log p(T_b | f_s)        its mean is the first term of the bound
    g, d, r                                      per instance, the sites of :mod:`psimil.inference.sites`
    V' g  and  V' diag(d) V + sum_b sign (V_b' r_b)(V_b' r_b)'

At the optimum of q(v), m = V' g and S^-1 = I + the last matrix. One draw at the mean gives Newton's step instead. Where
there are many bags, groups of them have draws of their own: what chance does to one, it undoes to another, so that few
draws for each are enough.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import symmetric
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.shards import Shard, Shards, prior_log_z
from psimil.inference.sites import GaussianSites, sites_of, tilted_sites
from psimil.inference.sparse_gp import Posterior, SparseGP
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange
from psimil.model.densities import is_logistic

Array = NDArray[Any]

DRAWED, FEWEST, MOST = 2.0**22, 16, 512  # instances times draws, about; and the fewest and the most draws
MANY = 4096  # instances above which single precision has to do for what is worked out for each draw
BLOCKS = 32  # of draws, at most, for as many groups of bags
CACHED = {8: 1 << 14, 4: 1 << 16}  # instances times draws at a time, by bytes: a dozen arrays are kept in a cache


class Draws(NamedTuple):
    """Draws of a vector of M numbers, other ones for every group of bags.

    Parameters
    ----------
    blocks : (K, M, S) draws; the first group of bags has the first block, the group after the last block the first.
    group : number of bags in a group.
    precision : of what is worked out for each draw; single where there are many.
    """

    blocks: Array
    group: int = 1 << 62
    precision: Any = np.float64

    @classmethod
    def single(cls, v: Array, *, many: bool = False) -> Draws:
        """Draws (M, S) that all bags share; ``many`` for single precision of what is worked out with them."""
        return cls(v[None], precision=np.float32 if many else np.float64)

    @classmethod
    def for_bags(cls, size: int, labels: Labels, seed: int, fewer: int = 1) -> Draws:
        """Standard normal ones for a data set: as many as are cheap next to the products, in antithetic pairs.

        Up to 512 that all bags share; where that would be dear, fewer, and groups with their own.

        Parameters
        ----------
        fewer : times fewer of them are wanted.

        Examples
        --------
        >>> one, many = (Labels(np.ones(n), np.arange(n + 1)) for n in (100, 10**5))
        >>> Draws.for_bags(3, one, seed=0).blocks.shape, Draws.for_bags(3, many, seed=0).blocks.shape
        ((1, 3, 512), (32, 3, 32))
        """
        instances, bags = int(labels.offsets[-1]), len(labels.T)
        count = 2 ** int(np.log2(max(DRAWED / instances, 1.0)))
        count = int(np.clip(min(count, MOST) // fewer, FEWEST, MOST))
        if DRAWED / instances >= MOST:
            return cls.single(antithetic_draws(size, count, seed), many=instances > MANY)
        group = max(1, round(CACHED[4] / count * bags / instances))
        seeds = np.random.SeedSequence(seed).generate_state(min(BLOCKS, -(-bags // group)))
        blocks = np.stack([antithetic_draws(size, count, int(one)) for one in seeds])
        return cls(blocks, group, np.float32)

    def of(self, posterior: Posterior) -> Draws:
        """Draws m + U noise of q(v), where these are standard normal noise.

        Examples
        --------
        >>> Draws.single(np.array([[1.0, -1.0]])).of(Posterior.prior(1)).blocks
        array([[[ 1., -1.]]])
        """
        return self._replace(blocks=posterior.m[:, None] + posterior.U @ self.blocks)

    def times(self, A: Array) -> Draws:
        """A v for every draw v."""
        return self._replace(blocks=A @ self.blocks)

    def block(self, bag: int) -> int:
        """Which block a bag has."""
        return (bag // self.group) % len(self.blocks)

    def ranges(self, shard: Shard, block: BagRange) -> list[BagRange]:
        """The bags of a block of a shard in ranges of one group each, whose values stay in the cache of a core."""
        rows, first = max(CACHED[np.dtype(self.precision).itemsize] // self.blocks.shape[2], 1), shard.first
        cuts = range(self.group - (first + block.first) % self.group + block.first, block.last, self.group)
        return shard.ranges_of(block, rows, list(cuts) if len(self.blocks) > 1 else [])


@dataclass(frozen=True)
class BagBound:
    """L = likelihood - kl - log_z: the mean of log p(T | f) over q(v), less the divergence of q(v) from its prior.

    ``error`` is the standard error of the likelihood term, which is a mean over draws; ``log_z`` is 0 for the
    hyperbolic secant.

    Examples
    --------
    >>> BagBound(kl=1.0, likelihood=-2.0, log_z=0.0, error=0.1).total
    -3.0
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

    ``tilted`` is the sum of log E[p_b / s_b], where the pass was a tilted one.

    Examples
    --------
    >>> sums = BagSums(np.ones((1, 1)), np.ones(1), np.array([[-2.0, -4.0]]), 0.0)
    >>> (sums + sums).scaled(0.5).bound(kl=1.0).total
    -4.0
    """

    curvature: Array
    gradient: Array
    likelihood: Array
    log_z: float
    tilted: float = 0.0

    def __add__(self, other: BagSums) -> BagSums:
        """The sums over two sets of bags."""
        return BagSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> BagSums:
        """The sums over ``factor`` times as much data."""
        return BagSums(*(factor * getattr(self, f.name) for f in fields(self)))

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
    curvature, gradient = np.zeros((gp.size, gp.size)), np.zeros(gp.size)
    likelihood, log_means = np.zeros((len(v.blocks), v.blocks.shape[2])), 0.0
    sign, precision = shard.likelihood.sign(shard.labels), draws.precision if A is None else np.float64
    for bags in shard.blocks:
        rows, ranges = bags.rows, v.ranges(shard, bags)
        V, _ = shard.features(gp, bags)
        found = shard.backend.map(partial(_fill_sites, shard, V, bags.start, v, sites, tilted), ranges)
        for some, (share, of_means) in zip(ranges, found, strict=True):
            likelihood[v.block(shard.first + some.first)] += share
            log_means += of_means
        part, labels = sites.taken(rows), shard.labels.chunk(bags.first, bags.last)
        sums = part.curvature.sums(
            V, w[rows], part.gradient, labels, sign[bags.first : bags.last], shard.backend, precision
        )
        curvature, gradient = curvature + sums[0], gradient + sums[1]
    if A is not None:
        curvature, gradient = symmetric(A.T @ curvature @ A), A.T @ gradient
    log_z = 0.0 if is_logistic(shard.density) else prior_log_z(shard, gp)
    return sites, BagSums(curvature, gradient, likelihood, log_z, log_means)


def _fill_sites(
    shard: Shard, V: Any, start: int, draws: Draws, sites: GaussianSites, tilted: bool, bags: BagRange
) -> tuple[Array, float]:
    """The sites of some bags, written; the log-likelihood (S,) of each draw, and the sum of log E[p_b / s_b].

    Parameters
    ----------
    V : features of the instances from ``start`` on.
    """
    rows, labels, likelihood = bags.rows, shard.labels.chunk(bags.first, bags.last), shard.likelihood
    v = draws.blocks[draws.block(shard.first + bags.first)]
    f = shard.backend.products(V[rows.start - start : rows.stop - start], v).astype(draws.precision, copy=False)
    found, log_means = likelihood.derivatives(f, labels), 0.0
    part = sites_of(found, labels.spread(likelihood.sign(labels).astype(f.dtype)))
    if tilted:
        part, tilt = tilted_sites(found, part, f - f.mean(axis=0), labels, likelihood)
        log_means = float(shard.instance_weights[rows] @ tilt.log_means)
    sites.put(rows, part)
    return np.asarray(found.value @ shard.weights[bags.first : bags.last]), log_means


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
