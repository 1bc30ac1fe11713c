"""Minibatches: natural-gradient steps on the statistics of some parts, scaled up to all data.

The natural parameters of q(v) are linear in the statistics: precision I + V' Theta V and V' kappa. A step of size rho
from a batch whose bags carry the share w of all weight is

    precision <- (1 - rho) precision + rho (I + V' Theta V / w),    linear <- (1 - rho) linear + rho V' kappa / w,

which for w = 1 and rho = 1 is a whole pass. The step sizes rho_t = max((1 + t / 4r)^-0.7, w), r being the instances of
a batch per inducing point, fall slowly, sum to infinity, and never fall below the share of the batch, at which every
bag of a pass counts about once. After two steps the mean goes 1.8 times as far: directions in which labels are
uncertain converge slowly, and factors below 2 keep a step stable (docs/scaling.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.phases import tell
from psimil.inference.ascent import KernelState, Pass, pass_over
from psimil.inference.collapsed import CollapsedBound, CollapsedStep
from psimil.inference.passes import Statistics
from psimil.inference.posterior import Posterior, from_natural, global_update
from psimil.inference.shards import BagRange, Shards

Array = NDArray[Any]

DELAY, FORGETTING = 4.0, 0.7
RELAXED_AFTER, RELAXATION = 2, 1.8  # steps before the mean goes further, and how far
KERNEL_AFTER, KERNEL_BATCHES = (0.25, 0.5, 0.75), 4  # share of a pass after which the kernel moves, and batches


def step_size(t: int, share: float, per_point: float = 1.0) -> float:
    """rho_t of step t = 0, 1, ... with batches of this share of the data and so many instances per inducing point.

    Examples
    --------
    >>> step_size(0, 0.01), round(step_size(10, 0.01), 3), round(step_size(10, 0.01, 5.0), 3)
    (1.0, 0.416, 0.753)
    """
    return max(float((1.0 + t / (DELAY * max(per_point, 1.0))) ** -FORGETTING), share)


def relaxed(before: Posterior, after: Posterior, t: int) -> Posterior:
    """q(v) after step t with the mean moved further, once the first steps are done.

    Examples
    --------
    >>> relaxed(Posterior.prior(1), Posterior(np.ones(1), np.eye(1)), 2).m
    array([1.8])
    """
    if t < RELAXED_AFTER:
        return after
    return Posterior(before.m + RELAXATION * (after.m - before.m), after.R)


def stochastic_ascent(
    shards: Shards, state: KernelState, step_kernel: CollapsedStep | None, rng: np.random.Generator, done: int = 0
) -> Iterator[Pass]:
    """One record per pass' worth of data; its bound adds up what each batch gave under the q(v) of its moment.

    Parameters
    ----------
    shards : each of them is a batch; their order is drawn anew for every pass.
    step_kernel : moves the kernel in the first pass, on a few batches at a time; None keeps it.
    done : passes of an earlier run that ended in ``state``.
    """
    ranges, total = list(shards.ranges), float(shards.weights.sum())
    gp, posterior, t = state.gp, state.posterior, done * len(ranges)
    for number in range(done + 1, 10**9):
        order = [ranges[i] for i in rng.permutation(len(ranges))]
        moves = {max(1, round(share * len(order))) for share in KERNEL_AFTER} if number == 1 and step_kernel else set()
        sums, log_z, seen = None, 0.0, 0.0
        for place, batch in enumerate(order):
            if place in moves and step_kernel is not None:
                some = order[max(0, place - KERNEL_BATCHES) : place]
                gp, posterior = _moved(shards, some, KernelState(gp, posterior), step_kernel, place)
                sums, log_z, seen = None, 0.0, 0.0
            share = float(shards.weights[batch.first : batch.last].sum()) / total
            found = pass_over(shards, gp, posterior, [batch])
            rho = step_size(t, share, (batch.stop - batch.start) / gp.size)
            posterior = relaxed(posterior, natural_step(posterior, found.statistics.scaled(1.0 / share), rho), t)
            sums = found.statistics if sums is None else sums + found.statistics
            log_z, seen, t = log_z + found.bound.log_z, seen + share, t + 1
            tell("minibatches", place + 1, len(order))
        assert sums is not None  # there is at least one shard
        whole = sums.scaled(1.0 / seen)
        bound = whole.bound(posterior.kl, log_z / seen)
        yield Pass(gp, posterior, whole, bound, step=number, kernel_moved=number == 1)


def natural_step(posterior: Posterior, statistics: Statistics, rho: float) -> Posterior:
    """q(v) after a step of size rho towards the global update of these statistics.

    Examples
    --------
    >>> q = natural_step(Posterior.prior(1), Statistics(np.ones((1, 1)), np.ones(1), 0.0, 0.0, 0.0, 0.0), 1.0)
    >>> q.m
    array([0.5])
    """
    before = posterior.R @ posterior.R.T
    target = statistics.V_theta_V + np.eye(len(posterior.m))
    precision = (1.0 - rho) * before + rho * target
    linear = (1.0 - rho) * (before @ posterior.m) + rho * statistics.V_kappa
    return from_natural(precision, linear)


def _moved(
    shards: Shards, batches: list[BagRange], state: KernelState, step: CollapsedStep, iteration: int
) -> tuple[Any, Posterior]:
    """The kernel after a step on some batches, and q(v) for it from the same batches scaled up to all data."""
    weight = float(sum(shards.weights[b.first : b.last].sum() for b in batches))
    found = step.climb(state, CollapsedBound(shards, state, log_z=step.log_z, ranges=batches), weight, iteration)
    if found.gp is state.gp:
        return state.gp, state.posterior
    sums = pass_over(shards, found.gp, found.posterior, batches).statistics
    grown = sums.scaled(float(shards.weights.sum()) / weight)
    return found.gp, global_update(grown.V_theta_V, grown.V_kappa)
