"""The variational Gaussian: q(v) = N(m, S) that maximises E log p(T | f) - KL(q(v) || N(0, I)), from Newton's mode.

A step of size rho from q(v) with precision P and mean m, given the sums of :mod:`psimil.inference.bag_pass`, is

    P <- (1 - rho) P + rho (I + curvature),    m <- m + rho P^-1 (gradient - m),

a damped natural gradient. The curvature of a positive bag is negative in all directions but one, so that eigenvalues
are kept above a floor, and no step is as long as would double a variance. The optimum is a fixed point, m = V' E g and
P = I + curvature. Near it a full step leads to it in some directions of P and back and forth in others; with half a
step it is the other way round, so that the two alternate. How far q(v) still is from it is the divergence of a full
step. The expectations are means over fixed draws, so that bound and divergence are deterministic; a step is taken back
and halved unless it raises the bound, or lowers the divergence and hardly the bound: the steps are its gradient in
expectation, not on every set of draws. With a single draw at the mean the same steps are
Newton's, and lead to the mode of the posterior from which the variational ones start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import floored, is_positive_definite, solve_lower
from psimil.inference.bag_pass import BagBound, BagLocal, BagSums, bag_pass_over, draws_of
from psimil.inference.shards import Shards
from psimil.inference.sparse_gp import Posterior, SparseGP

Array = NDArray[Any]

FLOOR = 0.1  # smallest eigenvalue of a precision whose prior part is I
SMALLEST_STEP, GROWTH = 1.0 / 64.0, 1.2  # of a step, and what a step that was taken lets the next ones grow by
SLACK = 0.25  # of the error of a bound, by which it may fall on the way to the fixed point
LEAST_PRECISION = 0.5  # share of the precision in any direction that a step must leave
MORE_STEPS = 12  # to the bound of bags that come later
NEWTON_STEPS, NEWTON_RISE = 50, 1e-4  # steps to the mode at most, and nats per bag below which it is found


@dataclass(frozen=True)
class Iterate:
    """q(v) after some steps, its bound, and the sums that give the next step.

    Parameters
    ----------
    gp, posterior : kernel with inducing points, and q(v).
    sums, bound, local : as they were found at q(v); ``local`` where all data are in memory.
    step : 1, 2, ...
    kernel_moved : whether the kernel is still to change.
    weight : size of a full step, of which every second one is half; 0 where no step helps any more.
    """

    gp: SparseGP
    posterior: Posterior
    sums: BagSums
    bound: BagBound
    local: BagLocal | None = None
    step: int = 0
    kernel_moved: bool = False
    weight: float = 1.0

    @property
    def next_posterior(self) -> Posterior:
        """q(v) itself: a step from it may still be taken back."""
        return self.posterior

    @cached_property
    def change(self) -> float:
        """How far q(v) is from its fixed point: the divergence of a full step from it, in nats; 0 if no step helps."""
        return divergence(self.stepped(1.0), self.posterior) if self.weight else 0.0

    def better(self, last: Iterate) -> bool:
        """Whether its bound is higher than that of the last iterate, or hardly lower and the fixed point closer."""
        fall = last.bound.total - self.bound.total
        return fall <= 0 or (fall <= SLACK * last.bound.error and self.change < last.change)

    def stepped(self, rho: float) -> Posterior:
        """q(v) after a step of size ``rho``."""
        return natural_step(self.posterior, self.sums, rho)

    def next_step(self, weight: float) -> Posterior:
        """q(v) after a full step or half of one, in turn, of this weight; shorter where variances grow too much."""
        rho, P = weight if self.step % 2 else 0.5 * weight, self.posterior.R @ self.posterior.R.T
        full = self.sums.curvature + np.eye(len(P))
        while rho > SMALLEST_STEP and not is_positive_definite((1.0 - rho - LEAST_PRECISION) * P + rho * full):
            rho *= 0.5
        return self.stepped(rho)


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


def natural_step(posterior: Posterior, sums: BagSums, rho: float) -> Posterior:
    """q(v) after a damped natural-gradient step on the bound whose sums these are.

    Examples
    --------
    >>> sums = BagSums(np.array([[3.0]]), np.array([2.0]), np.zeros(1), 0.0)
    >>> q = natural_step(Posterior.prior(1), sums, 1.0)
    >>> q.m, q.R
    (array([0.5]), array([[2.]]))
    """
    precision = rho * sums.curvature + (1.0 - rho) * (posterior.R @ posterior.R.T)
    precision[np.diag_indices_from(precision)] += rho
    R = floored(precision, FLOOR)
    half = solve_lower(R, sums.gradient - posterior.m)
    return Posterior(posterior.m + rho * solve_lower(R, half, transposed=True), R)


def with_more_data(posterior: Posterior, factor: float) -> Posterior:
    """q(v) with the mean kept and the precision of ``factor`` times as much of the same data.

    Examples
    --------
    >>> with_more_data(Posterior(np.ones(1), np.array([[np.sqrt(2.0)]])), 3.0).R
    array([[2.]])
    """
    identity = np.eye(len(posterior.m))
    return Posterior(posterior.m, floored(identity + factor * (posterior.R @ posterior.R.T - identity), FLOOR))


def iterate_at(shards: Shards, gp: SparseGP, posterior: Posterior, noise: Array) -> Iterate:
    """A pass over the data at q(v), with draws m + U noise."""
    sums, local = bag_pass_over(shards, gp, draws_of(posterior, noise))
    return Iterate(gp, posterior, sums, sums.bound(posterior.kl), local)


def climb(
    shards: Shards, gp: SparseGP, start: Posterior, noise: Array, begun: Iterate | None = None
) -> Iterator[Iterate]:
    """Steps without end; each raises the bound, or comes closer to the fixed point at hardly a lower one.

    Parameters
    ----------
    start : q(v) to start from.
    noise : (M, S) standard normal draws.
    begun : the iterate of an earlier run after which to go on, in place of ``gp`` and ``start``.
    """
    last = begun
    if last is None:
        yield (last := replace(iterate_at(shards, gp, start, noise), step=1))
    while True:
        weight, step = min(GROWTH * last.weight, 1.0), last.step + 1
        while weight >= SMALLEST_STEP:
            found = iterate_at(shards, last.gp, last.next_step(weight), noise)
            if found.better(last):
                break
            weight *= 0.5
        else:
            found, weight = last, 0.0
        yield (last := replace(found, step=step, weight=weight))


def newton(shards: Shards, gp: SparseGP, m: Array) -> Posterior:
    """Laplace's approximation: the mode of log p(T | v) - |v|^2 / 2 from m (M,), and the floored curvature there."""
    best, value, rho = Posterior(m, np.eye(len(m))), -np.inf, 1.0
    here, at_mean = best, np.zeros((gp.size, 1))
    bags = float(shards.weights.sum())
    for _ in range(NEWTON_STEPS):
        sums, _ = bag_pass_over(shards, gp, draws_of(here, at_mean))
        found = float(sums.likelihood[0] - 0.5 * here.m @ here.m)
        if not found >= value:
            rho *= 0.5
            if rho < SMALLEST_STEP:
                break
        else:
            settled = found - value < NEWTON_RISE * bags
            best, value, kept, rho = here, found, sums, min(2.0 * rho, 1.0)
            if settled:
                break
        here = _newton_step(best.m, kept, rho)
    return Posterior(best.m, _newton_step(best.m, kept, 1.0).R)


def _newton_step(m: Array, sums: BagSums, rho: float) -> Posterior:
    R = floored(sums.curvature + np.eye(len(m)), FLOOR)
    return Posterior(m + rho * solve_lower(R, solve_lower(R, sums.gradient - m), transposed=True), R)


def with_bags(shards: Shards, gp: SparseGP, prior: Posterior, noise: Array) -> Posterior:
    """q(v) after more bags, whose prior is q(v) so far: damped steps, none of which lowers the bound of these bags."""
    P, best, value, rho = prior.R @ prior.R.T, prior, -np.inf, 1.0
    here, bags = prior, float(shards.weights.sum())
    for _ in range(MORE_STEPS):
        sums, _ = bag_pass_over(shards, gp, draws_of(here, noise))
        found = float(sums.likelihood.mean()) - divergence(here, prior)
        if not found >= value:
            rho *= 0.5
        else:
            settled = found - value < NEWTON_RISE * bags
            best, value, kept, rho = here, found, sums, min(2.0 * rho, 1.0)
            if settled:
                break
        R = floored(rho * (P + kept.curvature) + (1.0 - rho) * (best.R @ best.R.T), FLOOR)
        slope = kept.gradient - P @ (best.m - prior.m)
        here = Posterior(best.m + rho * solve_lower(R, solve_lower(R, slope), transposed=True), R)
    return best
