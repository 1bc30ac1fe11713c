"""Passes without end, whoever works out the shards: the loop yields records; it neither prints nor decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from psimil.foundations.arrays import Array
from psimil.inference.options import Options
from psimil.inference.shards import Shard, Shards, prior_log_z
from psimil.model.bag_ranges import BagRange
from psimil.model.densities import is_logistic
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP
from psimil.paper.label_posteriors import GIVEN
from psimil.paper.natural_steps import global_update
from psimil.paper.passes import Bound, Local, Statistics, run_pass

GROWTH, LARGEST_WEIGHT = 1.2, 6.0  # of over-relaxed steps; chosen on training bags, see docs/mathematics/derivations.md


@dataclass(frozen=True)
class Schedule:
    """When the kernel moves: first after ``warmup`` passes, then every ``every`` passes, ``times`` times at most."""

    warmup: int = 8
    every: int = 8
    times: int = 4

    def due(self, step: int) -> bool:
        """Whether the kernel moves after pass ``step`` (1, 2, ...)."""
        since = step - self.warmup
        return since >= 0 and since % self.every == 0 and since // self.every < self.times

    @property
    def last(self) -> int:
        """The pass after which the kernel moves for the last time."""
        return self.warmup + self.every * (self.times - 1)


@dataclass(frozen=True)
class Pass:
    """One iteration: the state before the update, its bound, and the statistics that give the next state.

    Parameters
    ----------
    gp, posterior, statistics, bound : as they were found.
    step : 1, 2, ...
    unfinished : the kernel is to change after this pass, so the bound has not settled.
    weight : of the over-relaxed step that led here.
    local : what was found for every instance, where all data are in memory; ``next_posterior`` is consistent with it.
    """

    gp: SparseGP
    posterior: Posterior
    statistics: Statistics
    bound: Bound
    step: int = 0
    unfinished: bool = False
    weight: float = 1.0
    local: Local | None = None
    change: ClassVar[None] = None  # the bound tells where to stop

    @property
    def next_posterior(self) -> Posterior:
        """q(v) after this pass, Eqs. (26) and (27)."""
        return global_update(self.statistics.V_theta_V, self.statistics.V_kappa)


class KernelStep(Protocol):
    """A rule that moves the kernel."""

    def __call__(self, state: KernelState, record: Pass, shards: Shards) -> KernelState:
        """The state after the step, given the last pass over these data."""


class KernelLearning(Protocol):
    """A way to learn the kernel: its steps, when they are due, and what rise of a score early stopping ignores."""

    @property
    def schedule(self) -> Schedule:
        """When the kernel moves."""

    @property
    def tolerance(self) -> float:
        """The rise of a score that early stopping ignores."""

    def step(self, options: Options, seed: int) -> KernelStep | None:
        """The rule that moves the kernel; None keeps it."""


@dataclass(frozen=True)
class PassTask:
    """The statistics of a shard under q(v), its share of log Z and, if asked, what was found for every instance."""

    gp: SparseGP
    posterior: Posterior
    pi: Array | None = None
    keep_local: bool = False

    def __call__(self, shard: Shard) -> tuple[Statistics, float, Local | None]:
        """Sums over the shard."""
        local, statistics = run_pass(shard, self.gp, self.posterior, self.pi)
        if is_logistic(shard.density):  # the same for every instance
            log_z = float(-np.log(np.pi) * shard.instance_weights.sum())
        else:
            log_z = prior_log_z(shard, self.gp)
        return statistics, log_z, local if self.keep_local else None


def pass_over(
    shards: Shards,
    gp: SparseGP,
    posterior: Posterior,
    ranges: list[BagRange] | None = None,
    pi: Array | None = None,
) -> Pass:
    """A pass over all shards, or some: the same sums in the same order however they are run."""
    task = PassTask(gp, posterior, pi, shards.in_memory is not None)
    total, log_z, local = None, 0.0, None
    for statistics, share, found in shards.map(task, ranges):
        total = statistics if total is None else total + statistics
        log_z, local = log_z + share, found
    assert total is not None  # a data set has at least one shard
    return Pass(gp, posterior, total, total.bound(posterior.kl, log_z), local=local)


def start_from_labels(gp: SparseGP, shard: Shard, pi: Array) -> Posterior:
    """The first q(v) when pi (N,) is given, as in the paper's Algorithm 1 with S = K_zz."""
    _, sums = run_pass(replace(shard, rule=GIVEN), gp, Posterior.prior(gp.size), pi)
    return global_update(sums.V_theta_V, sums.V_kappa)


def ascend(
    shards: Shards,
    state: KernelState,
    step_kernel: KernelStep | None = None,
    schedule: Schedule = Schedule(),  # noqa: B008 - frozen
    *,
    pi: Array | None = None,
    accelerate: bool = True,
    begun: Pass | None = None,
) -> Iterator[Pass]:
    """Passes without end: local quantities from q(v), then q(v) from their statistics, then the kernel when due.

    With ``accelerate`` the mean of q(v) takes growing over-relaxed steps. A step that lowers the bound is taken back
    and repeated without, so the bounds of the records never fall (for label posteriors that are ascent steps).

    Parameters
    ----------
    state : kernel, inducing points and the q(v) to start from.
    step_kernel : how the kernel moves; None keeps it.
    pi : (N,) label posterior to start from, for rules that iterate.
    begun : the pass of an earlier run after which to go on, in place of ``state``.
    """

    def after(last: Pass) -> tuple[KernelState, float]:
        gp, posterior, update = last.gp, last.posterior, last.next_posterior
        if step_kernel is not None and schedule.due(last.step):
            return step_kernel(KernelState(gp, update), last, shards), last.weight
        weight = min(last.weight * GROWTH, LARGEST_WEIGHT) if accelerate and last.step > 1 else 1.0
        return KernelState(gp, Posterior(posterior.m + weight * (update.m - posterior.m), update.R)), weight

    last, step, weight = begun, 0, 1.0
    if begun is not None:
        step, (state, weight) = begun.step, after(begun)
    while True:
        before = pi if last is None or last.local is None else last.local.pi
        found = pass_over(shards, state.gp, state.posterior, pi=before)
        if weight > 1.0 and last is not None and last.gp is state.gp and not found.bound.total >= last.bound.total:
            weight, state = 1.0, KernelState(last.gp, last.next_posterior)
            continue
        step += 1
        moves = step_kernel is not None and step <= schedule.last
        last = replace(found, step=step, unfinished=moves, weight=weight)
        yield last
        state, weight = after(last)
