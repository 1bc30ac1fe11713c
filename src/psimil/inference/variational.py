"""The Gaussian posterior: q(v) = N(m, S) that maximises E log p(T | f) - KL(q(v) || prior), then matched to the bags.

With the sums of :mod:`psimil.inference.bag_pass` and a prior N(m0, P0^-1), usually N(0, I), the optimum is where

    P = C = P0 + curvature,    slope = gradient - P0 (m - m0) = 0,    P = S^-1.

A step goes half way: to the geometric mean of P and C, which near the fixed point is (P + C) / 2, and by most of
Newton's step for m. The curvature of a positive bag is negative in all directions but one, and the smaller P, the
larger C may be; so whole steps would go to and fro. How far q(v) still is from the fixed point is the divergence of a
whole step. The expectations are means over fixed draws, so that bound and divergence are deterministic; a step is taken
back and halved unless it raises the bound, or comes closer and hardly lowers the bound: the steps are its gradient in
expectation, not on every set of draws. A few last steps take expectations over tilted densities
(:mod:`psimil.inference.sites`), which corrects mean and deviations for what the bound does not see. With a single draw
at the mean the same sums are Newton's, and lead to the mode of the posterior from which all this starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import floored, is_positive_definite, solve_lower
from psimil.inference.bag_pass import BagBound, BagSums, bag_pass_over
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard, Shards
from psimil.inference.sites import GaussianSites
from psimil.model.sparse_gp import Posterior, SparseGP

Array = NDArray[Any]

FLOOR = 0.1  # smallest eigenvalue of a precision whose prior part is I
SMALLEST_STEP, GROWTH = 1.0 / 8.0, 0.4  # of a step; and of what is left, for the next one to be larger
FIRST_TILTED = 0.5  # step
SLACK = 0.25  # of the error of a bound, by which it may fall on the way to the fixed point
OF_MEAN, LONGEST = 0.8, 1.0  # share of Newton's step for m that is taken; its root mean square in deviations, at most
NEAR = 4.0  # times more or less precise than P may C be in any direction for a mean of the two to do
NEWTON_STEPS, NEWTON_RISE = 50, 1e-3  # steps to the mode at most, and nats per bag below which it is found


class Stage(NamedTuple):
    """Steps on certain draws, tilted or not, until less than ``enough`` nats per direction are left."""

    noise: Draws
    tilted: bool
    enough: float


@dataclass(frozen=True)
class Iterate:
    """q(v) after some steps, its bound, and the sums that give the next step.

    Parameters
    ----------
    gp, posterior : kernel with inducing points, and q(v).
    sums, bound, local : as they were found at q(v); sites ``local`` where all data are in memory.
    prior : of v.
    step : 1, 2, ...
    stage : 0, 1, ... of the stages of a climb.
    unfinished : whether other stages follow.
    weight : of the next step, 2 for a whole one; 0 where no step helps any more.
    sharing : tau of the labels that the sums are of.
    """

    gp: SparseGP
    posterior: Posterior
    sums: BagSums
    bound: BagBound
    local: GaussianSites | None
    prior: Posterior
    step: int = 1
    stage: int = 0
    unfinished: bool = False
    weight: float = 1.0
    sharing: float = 0.0

    @property
    def next_posterior(self) -> Posterior:
        """q(v) itself: a step from it may still be taken back."""
        return self.posterior

    @cached_property
    def target(self) -> tuple[Array, Array]:
        """C (M, M) and the slope (M,)."""
        P0 = self.prior.R @ self.prior.R.T
        return self.sums.curvature + P0, self.sums.gradient - P0 @ (self.posterior.m - self.prior.m)

    @cached_property
    def whole_step(self) -> Posterior:
        """The prior times the sites that were found at q(v): that is where a whole step leads."""
        R = floored(self.target[0], FLOOR)
        return Posterior(self.posterior.m + solve_lower(R, solve_lower(R, self.target[1]), transposed=True), R)

    @property
    def change(self) -> float:
        """How far the next step would move q(v), in nats per direction; 0 where none helps any more."""
        return self.distance if self.weight else 0.0

    @cached_property
    def distance(self) -> float:
        """How far q(v) is from its fixed point: nats of a whole step per direction that data tell of.

        So many directions are M - tr(S P0), of which the prior itself has none.
        """
        known = len(self.posterior.m) - float(np.square(self.prior.R.T @ self.posterior.U).sum())
        return divergence(self.whole_step, self.posterior) / max(known, 1.0)

    def better(self, last: Iterate, tilted: bool) -> bool:
        """Whether it has a higher bound than the last iterate, or comes closer; where tilted, only the latter."""
        fall = last.bound.total - self.bound.total
        if tilted:
            return self.change < last.change
        return fall <= 0 or (fall <= SLACK * last.bound.error and self.change < last.change)

    @cached_property
    def log_evidence(self) -> float:
        """An estimate of log p(T) by the sites of q(v), where the pass was a tilted one."""
        q, whole, prior = self.posterior, self.whole_step, self.prior
        gap, half = prior.R.T @ (q.m - prior.m), whole.R.T @ (whole.m - q.m)
        log_Z = np.log(np.diag(prior.R) / np.diag(whole.R)).sum() + 0.5 * (half @ half - gap @ gap)
        return float(log_Z) - self.sums.log_z - divergence(q, whole) + self.sums.tilted


def divergence(q: Posterior, other: Posterior) -> float:
    """KL(q || other) in nats.

    Examples
    --------
    >>> divergence(Posterior.prior(2), Posterior(np.array([0.0, 2.0]), np.eye(2)))
    2.0
    """
    root = solve_lower(q.R, other.R)  # the trace of S times the other precision is the sum of its squares
    mean = other.R.T @ (q.m - other.m)
    logs = np.log(np.diag(q.R)).sum() - np.log(np.diag(other.R)).sum()
    return float(0.5 * (np.square(root).sum() + mean @ mean - len(mean)) + logs)


def half_way(q: Posterior, C: Array, slope: Array, weight: float = 1.0) -> Posterior:
    """q(v) after a step of this weight: half way to C, and by most of Newton's step for the mean.

    Examples
    --------
    >>> half_way(Posterior.prior(1), np.array([[3.0]]), np.zeros(1)).R ** 2
    array([[2.]])
    >>> half_way(Posterior.prior(1), np.array([[81.0]]), np.zeros(1)).R ** 2
    array([[9.]])
    """
    P = q.R @ q.R.T
    if is_positive_definite(C - P / NEAR) and is_positive_definite(NEAR * P - C):
        R = floored(P + 0.5 * weight * (C - P), FLOOR)
        move = q.R.T @ solve_lower(R, solve_lower(R, slope), transposed=True)
    else:
        values, vectors = np.linalg.eigh(solve_lower(q.R, solve_lower(q.R, C).T))
        grown = np.maximum(values, FLOOR) ** (0.5 * weight)
        root = q.R @ (vectors * np.sqrt(grown))
        R = floored(root @ root.T, FLOOR)
        move = vectors @ ((vectors.T @ solve_lower(q.R, slope)) / np.maximum(grown, np.abs(values)))
    length = float(np.sqrt(move @ move))
    move *= min(OF_MEAN * weight, 1.0) * min(1.0, LONGEST * np.sqrt(len(move)) / max(length, 1e-300))
    return Posterior(q.m + solve_lower(q.R, move, transposed=True), R)


def natural_step(posterior: Posterior, sums: BagSums, share: float) -> Posterior:
    """q(v) after a natural-gradient step as long as the share of all data that these sums are of; the prior is N(0, I).

    Examples
    --------
    >>> sums = BagSums(np.array([[3.0]]), np.array([2.0]), np.zeros((1, 1)), 0.0)
    >>> q = natural_step(Posterior.prior(1), sums, 1.0)
    >>> q.m, q.R
    (array([0.5]), array([[2.]]))
    """
    precision = sums.curvature + (1.0 - share) * (posterior.R @ posterior.R.T)
    precision[np.diag_indices_from(precision)] += share
    R = floored(precision, FLOOR)
    half = solve_lower(R, sums.gradient - share * posterior.m)
    return Posterior(posterior.m + solve_lower(R, half, transposed=True), R)


def with_more_data(posterior: Posterior, factor: float) -> Posterior:
    """q(v) with the mean kept and the precision of ``factor`` times as much of the same data.

    Examples
    --------
    >>> with_more_data(Posterior(np.ones(1), np.array([[np.sqrt(2.0)]])), 3.0).R
    array([[2.]])
    """
    identity = np.eye(len(posterior.m))
    return Posterior(posterior.m, floored(identity + factor * (posterior.R @ posterior.R.T - identity), FLOOR))


def iterate_at(
    shards: Shards,
    gp: SparseGP,
    posterior: Posterior,
    noise: Draws,
    *,
    tilted: bool = False,
    prior: Posterior | None = None,
) -> Iterate:
    """A pass over the data at q(v), with draws m + U noise."""
    sums, local = bag_pass_over(shards, gp, noise.of(posterior), tilted=tilted)
    kl = posterior.kl if prior is None else divergence(posterior, prior)
    prior = Posterior.prior(gp.size) if prior is None else prior
    return Iterate(gp, posterior, sums, sums.bound(kl), local, prior, sharing=shards.labels.sharing)


def climb(
    shards: Shards,
    gp: SparseGP,
    start: Posterior,
    stages: Sequence[Stage],
    begun: Iterate | None = None,
    prior: Posterior | None = None,
) -> Iterator[Iterate]:
    """Steps without end, stage by stage.

    Parameters
    ----------
    start : q(v) to start from.
    begun : the iterate of an earlier run after which to go on, in place of ``gp`` and ``start``.
    prior : of v, if it is not N(0, I).
    """

    def at(q: Posterior, stage: int, step: int, weight: float = 1.0) -> Iterate:
        found = iterate_at(shards, gp, q, stages[stage].noise, tilted=stages[stage].tilted, prior=prior)
        return replace(found, step=step, stage=stage, unfinished=stage + 1 < len(stages), weight=weight)

    if begun is None:
        yield (last := at(start, 0, 1))
    else:
        last, gp = begun, begun.gp
    while True:
        stage, weight, step = last.stage, last.weight, last.step + 1
        if last.unfinished and last.change < stages[stage].enough:
            yield (last := at(last.posterior, stage + 1, step, FIRST_TILTED))
            continue
        while weight >= SMALLEST_STEP:
            found = at(half_way(last.posterior, *last.target, weight), stage, step, weight)
            if found.better(last, stages[stage].tilted):
                found = replace(found, weight=next_weight(weight, found.change, last.change))
                break
            weight *= 0.5
        else:
            found = replace(last, step=step, weight=0.0)
        yield (last := found)


def next_weight(weight: float, change: float, before: float) -> float:
    """The weight of the next step: larger while whole steps seem in reach, smaller where they go to and fro.

    Examples
    --------
    >>> next_weight(1.0, 0.1, 1.0), next_weight(2.0, 0.7, 1.0), next_weight(1.0, 1.1, 1.0)
    (2.0, 2.0, 0.5)
    """
    if change > before:
        return 0.5 * weight
    return min(2.0 * weight, 2.0) if change < GROWTH * before else weight


def mode(shard: Shard, gp: SparseGP) -> Posterior:
    """Laplace's approximation to q(v) of a shard, from v = 0.

    There a large bag is all but surely positive, and a label that may be wrong says next to nothing to that: without
    any slope of negative bags the mode would be one where every bag is positive. So such labels are believed at first.
    """
    m = np.zeros(gp.size)
    if 0 < abs(shard.labels.log_H) < np.inf:
        m = newton(shard.labelled(shard.labels.certain()), gp, m).m
    return newton(shard, gp, m)


def newton(shards: Shards, gp: SparseGP, m: Array) -> Posterior:
    """Laplace's approximation: about the mode of log p(T | v) - |v|^2 / 2, from m (M,), and the floored curvature."""
    best, value, rho = Posterior(m, np.eye(len(m))), -np.inf, 1.0
    here, bags = best, float(shards.weights.sum())
    for _ in range(NEWTON_STEPS):
        sums, _ = bag_pass_over(shards, gp, Draws.shared(here.m[:, None]))
        found = float(sums.likelihood.sum() - 0.5 * here.m @ here.m)
        if not found >= value:
            rho *= 0.5
            if rho < SMALLEST_STEP:
                break
        else:
            settled = found - value < NEWTON_RISE * bags
            best, value, kept, rho = here, found, sums, min(2.0 * rho, 1.0)
            if settled:
                break
        R = floored(kept.curvature + np.eye(len(m)), 1.0)
        here = Posterior(best.m + rho * solve_lower(R, solve_lower(R, kept.gradient - best.m), transposed=True), R)
    return Posterior(best.m, floored(kept.curvature + np.eye(len(m)), FLOOR))
