"""Minibatches: natural-gradient steps on the statistics of some parts, scaled up to all data.

The natural parameters of q(v) are linear in the statistics: precision I + V' Theta V and V' kappa. A step of size rho
from a batch whose bags carry the share w of all weight is

    precision <- (1 - rho) precision + rho (I + V' Theta V / w),    linear <- (1 - rho) linear + rho V' kappa / w,

which for w = 1 and rho = 1 is a whole pass. The step sizes rho_t = max((1 + t / 4r)^-0.7, w), r being the instances of
a batch per inducing point, fall slowly, sum to infinity, and never fall below the share of the batch, at which every
bag of a pass counts about once. After two steps the mean goes 1.8 times as far: directions in which labels are
uncertain converge slowly, and factors below 2 keep a step stable (docs/scaling.md).

The variational posterior starts from the mode, and the curvature of a few positive bags may be negative: every step of
its q(v) has the size w, so that the precision is always that of all data about, and no batch is trusted on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.phases import tell
from psimil.inference.ascent import KernelState, Pass, pass_over
from psimil.inference.bag_pass import BagSums, bag_pass_over, draws_of
from psimil.inference.passes import Statistics
from psimil.inference.posterior import Posterior, from_natural
from psimil.inference.records import Record
from psimil.inference.shards import BagRange, Shards
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.variational import Iterate
from psimil.inference.variational import natural_step as bag_step

Array = NDArray[Any]

DELAY, FORGETTING = 4.0, 0.7
RELAXED_AFTER, RELAXATION = 2, 1.8  # steps before the mean goes further, and how far


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
    shards: Shards, state: KernelState, noise: Array | None, rng: np.random.Generator, done: int = 0
) -> Iterator[Record]:
    """One record per pass' worth of data; its bound adds up what each batch gave under the q(v) of its moment.

    Parameters
    ----------
    shards : each of them is a batch; their order is drawn anew for every pass.
    noise : (M, S) draws of the variational posterior; None for the augmented one.
    done : passes of an earlier run that ended in ``state``.
    """
    ranges, total = list(shards.ranges), float(shards.weights.sum())
    gp, posterior, t = state.gp, state.posterior, done * len(ranges)
    for number in range(done + 1, 10**9):
        sums, log_z = None, 0.0
        for place, batch in enumerate(ranges[i] for i in rng.permutation(len(ranges))):
            share = float(shards.weights[batch.first : batch.last].sum()) / total
            rho = share if noise is not None else step_size(t, share, (batch.stop - batch.start) / gp.size)
            before = posterior
            posterior, found, own = batch_step(shards, [batch], gp, posterior, noise, share, rho)
            posterior = posterior if noise is not None else relaxed(before, posterior, t)
            sums, log_z, t = found if sums is None else sums + found, log_z + own, t + 1
            tell("minibatches", place + 1, len(ranges))
        assert sums is not None  # there is at least one shard
        if isinstance(sums, BagSums):
            yield Iterate(gp, posterior, sums, sums.bound(posterior.kl), step=number)
        else:
            yield Pass(gp, posterior, sums, sums.bound(posterior.kl, log_z), step=number)


def batch_step(
    shards: Shards,
    ranges: list[BagRange] | None,
    gp: SparseGP,
    posterior: Posterior,
    noise: Array | None,
    share: float,
    rho: float,
) -> tuple[Posterior, Any, float]:
    """q(v) after a step on bags that are this share of all, the sums over them, and their log Z."""
    if noise is not None:
        sums, _ = bag_pass_over(shards, gp, draws_of(posterior, noise), ranges)
        return bag_step(posterior, sums.scaled(1.0 / share), rho), sums, sums.log_z
    found = pass_over(shards, gp, posterior, ranges)
    return natural_step(posterior, found.statistics.scaled(1.0 / share), rho), found.statistics, found.bound.log_z


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
