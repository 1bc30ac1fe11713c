"""The fitting loop: it yields records; it neither prints nor decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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

GROWTH, LARGEST_WEIGHT = 1.2, 6.0  # of over-relaxed steps; chosen on training bags, see docs/derivations.md


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


def first_posterior(gp: SparseGP) -> Posterior:
    """q(v) = N(0, s^2 I) with latent standard deviations of about a tenth: the labels speak first.

    From a wide start a Gamma density with a large kernel variance falls into its remote fixed point, where |f| grows
    with the number of instances (docs/derivations.md).
    """
    scale = np.sqrt(float(np.max(gp.kernel.diagonal(gp.Z))) + gp.bias**2)
    return Posterior.concentrated(gp.size, 0.1 / scale)


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
    accelerate: bool = True,
) -> Iterator[Record]:
    """Passes without end: local quantities from q(v), then q(v) from their statistics, then the kernel when due.

    With ``accelerate`` the mean of q(v) takes growing over-relaxed steps. A step that lowers the bound is taken back
    and repeated without, so the bounds of the records never fall (for label posteriors that are ascent steps).

    Parameters
    ----------
    state : kernel, inducing points and the q(v) to start from.
    step_kernel : how the kernel moves; None keeps it.
    pi : (N,) label posterior to start from, for rules that iterate.
    """
    schedule = schedule or Schedule()
    projection = Projection.build(state.gp, problem)
    log_z = prior_log_z(projection, problem)
    weight, record = 1.0, None
    step = 0
    while True:
        gp, posterior = state.gp, state.posterior
        local, statistics = local_pass(projection, posterior, problem, pi)
        terms = statistics.potential, statistics.scale_mixture, statistics.bags, statistics.entropy
        bound = Bound(posterior.kl, *terms, log_z)
        if weight > 1.0 and record is not None and record.gp is gp and not bound.total >= record.bound.total:
            weight, state = 1.0, KernelState(gp, record.next_posterior)
            continue
        step, pi = step + 1, local.pi
        waiting = step_kernel is not None and step <= schedule.last
        record = Record(step, gp, projection, posterior, local, statistics, bound, waiting)
        yield record
        update = record.next_posterior
        if step_kernel is not None and schedule.due(step):
            state = step_kernel(KernelState(gp, update), local, problem, step)
            if state.gp is not gp:
                projection = Projection.build(state.gp, problem)
                log_z = prior_log_z(projection, problem)
            continue
        weight = min(weight * GROWTH, LARGEST_WEIGHT) if accelerate and step > 1 else 1.0
        state = KernelState(gp, Posterior(posterior.m + weight * (update.m - posterior.m), update.R))


def random_labels(problem: Problem, high: float, rng: np.random.Generator) -> Array:
    """pi (N,) ~ U(0, high), the start of the paper (high = 1) and of its published code (high = 0.1)."""
    return rng.uniform(0.0, high, len(problem.X))
