"""One pass over a shard: expectations of the bag likelihood's derivatives over draws of v that all bags share.

For draws v_s of q(v) = N(m, S) and every bag b with f_s = V_b v_s (docs/derivations.md):

    likelihood_s = sum_b log p(T_b | f_s)                   its mean is the first term of the bound
    g = E gradient,  d = E diagonal + sign Var r,  r = E r   per instance
    V' g  and  V' diag(d) V + sum_b sign (V_b' r_b)(V_b' r_b)'

At the optimum of q(v), m = V' g and S^-1 = I + the last matrix. One draw at the mean gives Newton's step instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import symmetric
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.shards import Shard, Shards, prior_log_z
from psimil.inference.sparse_gp import Posterior, SparseGP
from psimil.model.bags import BagRange
from psimil.model.densities import is_logistic

Array = NDArray[Any]

DRAWED, FEWEST, MOST = 2.0**22, 32, 512  # instances times draws, about; and the fewest and the most draws
CACHED = 1 << 14  # instances times draws at a time: the dozen arrays of a likelihood are kept in a cache, and not freed


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
    """Sums over bags: curvature (M, M) and gradient (M,) in v, log-likelihoods (S,) of the draws, and log Z.

    Examples
    --------
    >>> sums = BagSums(np.ones((1, 1)), np.ones(1), np.array([-2.0, -4.0]), 0.0)
    >>> (sums + sums).scaled(0.5).bound(kl=1.0).total
    -4.0
    """

    curvature: Array
    gradient: Array
    likelihood: Array
    log_z: float

    def __add__(self, other: BagSums) -> BagSums:
        """The sums over two sets of bags."""
        return BagSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> BagSums:
        """The sums over ``factor`` times as much data."""
        return BagSums(*(factor * getattr(self, f.name) for f in fields(self)))

    def bound(self, kl: float) -> BagBound:
        """L; draws come in antithetic pairs, the second half mirroring the first."""
        half = len(self.likelihood) // 2
        error = 0.0
        if half > 1:
            pairs = 0.5 * (self.likelihood[:half] + self.likelihood[half:])
            error = float(pairs.std(ddof=1) / np.sqrt(half))
        return BagBound(kl, float(self.likelihood.mean()), self.log_z, error)


@dataclass(frozen=True)
class BagLocal:
    """Per instance (n,): expected gradient g, d, r, and pi = P(y = 1 | T), before bags are weighted."""

    gradient: Array
    diagonal: Array
    vector: Array
    pi: Array

    def gradient_at(self, mu: Array, rows: slice) -> Array:
        """The expected gradient of some instances, wherever their means mu are."""
        return np.asarray(self.gradient[rows])


def draws_for(instances: int, fewer: int = 1) -> int:
    """Number of draws for so many instances: as many as are cheap next to the products, at least 32.

    Parameters
    ----------
    fewer : times fewer of them are wanted.

    Examples
    --------
    >>> draws_for(500), draws_for(20_000), draws_for(10**6), draws_for(500, fewer=4)
    (512, 128, 32, 128)
    """
    count = 2 ** int(np.log2(max(DRAWED / instances, 1.0)))
    return int(np.clip(min(count, MOST) // fewer, FEWEST, MOST))


def first_noise(gp: SparseGP, instances: int, seed: int, fewer: int = 1) -> Array:
    """(M, S) standard normal draws for a data set of so many instances."""
    return antithetic_draws(gp.size, draws_for(instances, fewer), seed)


def run_bag_pass(shard: Shard, gp: SparseGP, v: Array) -> tuple[BagLocal, BagSums]:
    """What a shard says about q(v), for draws v (M, S) of it."""
    local = BagLocal(*(np.empty(len(shard.X)) for _ in range(4)))
    w, A = shard.instance_weights, gp.whitening if shard.unwhitened(gp) else None
    v = v if A is None else A @ v  # V = [K_xz, b] A: the same with A v, and sums whitened at the end
    curvature, gradient, likelihood = np.zeros((gp.size, gp.size)), np.zeros(gp.size), np.zeros(v.shape[1])
    sign = shard.likelihood.sign(shard.labels)
    for bags in shard.blocks:
        rows = bags.rows
        V, _ = shard.features(gp, bags)
        for share in shard.backend.map(
            partial(_average, shard, V, bags.start, v, local), cached_ranges(shard, bags, v)
        ):
            likelihood += share
        sums = shard.backend.weighted_sums(V, w[rows] * local.diagonal[rows], w[rows] * local.gradient[rows])
        curvature += sums[0]
        gradient += sums[1]
        offsets = shard.labels.offsets[bags.first : bags.last + 1] - bags.start
        r = np.sqrt(w[rows]) * local.vector[rows]
        curvature += shard.backend.bag_gram(V, r, offsets, sign[bags.first : bags.last])
    if A is not None:
        curvature, gradient = symmetric(A.T @ curvature @ A), A.T @ gradient
    log_z = 0.0 if is_logistic(shard.density) else prior_log_z(shard, gp)
    return local, BagSums(curvature, gradient, likelihood, log_z)


def cached_ranges(shard: Shard, block: BagRange, v: Array) -> list[BagRange]:
    """The bags of a block in ranges whose values at draws v (M, S) stay in the cache of a core."""
    return shard.ranges_of(block, max(CACHED // v.shape[1], 1))


def _average(shard: Shard, V: Any, start: int, v: Array, local: BagLocal, bags: BagRange) -> Array:
    """Means over draws for some bags, written to ``local``; the log-likelihood (S,) of each draw.

    Parameters
    ----------
    V : features of the instances from ``start`` on.
    """
    rows, labels = bags.rows, shard.labels.chunk(bags.first, bags.last)
    f = shard.backend.products(V[rows.start - start : rows.stop - start], v)
    found = shard.likelihood.derivatives(f, labels)
    sign = labels.spread(shard.likelihood.sign(labels))
    local.gradient[rows], local.pi[rows] = found.gradient.mean(axis=0), found.label.mean(axis=0)
    local.vector[rows] = r = found.vector.mean(axis=0)
    squares = np.einsum("sn,sn->n", found.vector, found.vector) / len(f)
    local.diagonal[rows] = found.diagonal.mean(axis=0) + sign * (squares - r * r)
    return np.asarray(found.value @ shard.weights[bags.first : bags.last])


@dataclass(frozen=True)
class BagPassTask:
    """The sums of a shard at draws v (M, S) and, if asked, what was found for every instance."""

    gp: SparseGP
    v: Array
    keep_local: bool = False

    def __call__(self, shard: Shard) -> tuple[BagSums, BagLocal | None]:
        """Sums over the shard."""
        local, sums = run_bag_pass(shard, self.gp, self.v)
        return sums, local if self.keep_local else None


def bag_pass_over(
    shards: Shards, gp: SparseGP, v: Array, ranges: list[BagRange] | None = None
) -> tuple[BagSums, BagLocal | None]:
    """The sums over all shards, or some, in their order; per instance where all data are one shard in memory."""
    total, local = None, None
    for sums, found in shards.map(BagPassTask(gp, v, shards.in_memory is not None), ranges):
        total, local = sums if total is None else total + sums, found
    assert total is not None  # a data set has at least one shard
    return total, local


@dataclass(frozen=True)
class GradientTask:
    """Log-likelihoods (S,) of draws v (M, S), and their gradients by v, (M, S): what sampling asks of a shard."""

    gp: SparseGP
    v: Array

    def __call__(self, shard: Shard) -> tuple[Array, Array]:
        """Sums over the shard."""
        A = self.gp.whitening if shard.unwhitened(self.gp) else None
        v = self.v if A is None else A @ self.v
        value, gradient = np.zeros(v.shape[1]), np.zeros_like(v)
        for bags in shard.blocks:
            V, _ = shard.features(self.gp, bags)
            for share, slope in shard.backend.map(
                partial(_gradients, shard, V, bags.start, v), cached_ranges(shard, bags, v)
            ):
                value += share
                gradient += slope
        return value, gradient if A is None else A.T @ gradient


def _gradients(shard: Shard, V: Any, start: int, v: Array, bags: BagRange) -> tuple[Array, Array]:
    V = V[bags.start - start : bags.stop - start]
    found = shard.likelihood.derivatives(shard.backend.products(V, v), shard.labels.chunk(bags.first, bags.last))
    weighted = found.gradient * shard.instance_weights[bags.rows]
    return found.value @ shard.weights[bags.first : bags.last], shard.backend.transposed_products(V, weighted)


def log_posterior(shards: Shards, gp: SparseGP) -> Callable[[Array], tuple[Array, Array]]:
    """log p(T | V v) - |v|^2 / 2 and its gradient as a function of v (M, S): (S,) and (M, S)."""

    def at(v: Array) -> tuple[Array, Array]:
        value, gradient = -0.5 * np.square(v).sum(axis=0), -v
        for share, slope in shards.map(GradientTask(gp, v)):
            value, gradient = value + share, gradient + slope
        return value, gradient

    return at


def draws_of(posterior: Posterior, noise: Array) -> Array:
    """(M, S) draws m + U noise of q(v) for standard normal noise (M, S).

    Examples
    --------
    >>> draws_of(Posterior.prior(1), np.array([[1.0, -1.0]]))
    array([[ 1., -1.]])
    """
    return np.asarray(posterior.m[:, None] + posterior.U @ noise)
