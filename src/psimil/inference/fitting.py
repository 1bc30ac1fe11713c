"""The fitting loop: it yields records; it neither prints nor decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.bound import Bound
from psimil.inference.learning import KernelState, KernelStep
from psimil.inference.local_pass import Local, Projection, Statistics, local_pass
from psimil.inference.log_z import jensen
from psimil.inference.posterior import Posterior, global_update
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class Schedule:
    """When the kernel moves: first after ``warmup`` passes, then every ``every`` passes, ``times`` times at most."""

    warmup: int = 5
    every: int = 3
    times: int = 10

    def due(self, step: int) -> bool:
        """Whether the kernel moves after pass ``step`` (1, 2, ...)."""
        since = step - self.warmup
        return since >= 0 and since % self.every == 0 and since // self.every < self.times

    @property
    def last(self) -> int:
        """The pass after which the kernel moves for the last time."""
        return self.warmup + self.every * (self.times - 1)


@dataclass(frozen=True)
class Record:
    """One iteration: the state before the update, its bound, and the statistics that give the next state.

    ``kernel_moved`` says that the kernel is to change after this record, so the bound has not settled.
    """

    step: int
    gp: SparseGP
    projection: Projection
    posterior: Posterior
    local: Local
    statistics: Statistics
    bound: Bound
    kernel_moved: bool

    @property
    def next_posterior(self) -> Posterior:
        """q(v) after this pass, Eqs. (26) and (27); consistent with ``local``."""
        return global_update(self.statistics.V_theta_V, self.statistics.V_kappa)


def prior_log_z(projection: Projection, problem: Problem) -> float:
    """Jensen's log Z of the training instances; exact for the hyperbolic secant."""
    total = 0.0
    for chunk in problem.chunks:
        V, _ = projection.rows(chunk.start, chunk.stop)
        rows = slice(chunk.start, chunk.stop)
        value, _ = jensen(problem.density, projection.gp.prior_variance(problem.X[rows], V))
        total += float(problem.instance_weights[rows] @ value)
    return total


def start_from_labels(gp: SparseGP, problem: Problem, pi: Array) -> Posterior:
    """The first q(v) when pi (N,) is given, as in the paper's Algorithm 1 with S = K_zz."""
    projection = Projection.build(gp, problem)
    _, statistics = local_pass(projection, Posterior.prior(gp.size), replace(problem, rule="given"), pi)
    return global_update(statistics.V_theta_V, statistics.V_kappa)


def iterate(
    problem: Problem,
    state: KernelState,
    *,
    step_kernel: KernelStep | None = None,
    schedule: Schedule | None = None,
    pi: Array | None = None,
) -> Iterator[Record]:
    """Passes without end: local quantities from q(v), then q(v) from their statistics, then the kernel when due.

    Parameters
    ----------
    state : kernel, inducing points and the q(v) to start from.
    step_kernel : how the kernel moves; None keeps it.
    pi : (N,) label posterior to start from, for rules that iterate.
    """
    schedule = schedule or Schedule()
    projection = Projection.build(state.gp, problem)
    log_z = prior_log_z(projection, problem)
    for step in count(1):
        gp, posterior = state.gp, state.posterior
        local, statistics = local_pass(projection, posterior, problem, pi)
        pi = local.pi
        terms = statistics.potential, statistics.scale_mixture, statistics.bags, statistics.entropy
        bound = Bound(posterior.kl, *terms, log_z)
        moves = step_kernel is not None and schedule.due(step)
        waiting = step_kernel is not None and step <= schedule.last
        record = Record(step, gp, projection, posterior, local, statistics, bound, waiting)
        yield record
        state = KernelState(gp, record.next_posterior)
        if moves and step_kernel is not None:
            state = step_kernel(state, local, problem, step)
            if state.gp is not gp:
                projection = Projection.build(state.gp, problem)
                log_z = prior_log_z(projection, problem)


def random_labels(problem: Problem, high: float, rng: np.random.Generator) -> Array:
    """pi (N,) ~ U(0, high), the start of the paper (high = 1) and of its published code (high = 0.1)."""
    return rng.uniform(0.0, high, len(problem.X))
