"""The fitting loop: it yields records; it neither prints nor decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from psimil.inference.bound import Bound
from psimil.inference.learning import KernelState, KernelStep
from psimil.inference.local_pass import Local, Projection, Statistics, local_pass
from psimil.inference.log_z import has_exact_log_z, jensen
from psimil.inference.posterior import Posterior, global_update
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]
AnyPass = TypeVar("AnyPass", bound="Pass")

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
class Pass:
    """One iteration: the state before the update, its bound, and the statistics that give the next state.

    ``kernel_moved`` says that the kernel is to change after this pass, so the bound has not settled; ``weight`` is that
    of the over-relaxed step that led here.
    """

    gp: SparseGP
    posterior: Posterior
    statistics: Statistics
    bound: Bound
    step: int = 0
    kernel_moved: bool = False
    weight: float = 1.0

    @property
    def next_posterior(self) -> Posterior:
        """q(v) after this pass, Eqs. (26) and (27)."""
        return global_update(self.statistics.V_theta_V, self.statistics.V_kappa)


@dataclass(frozen=True, kw_only=True)
class Record(Pass):
    """A pass over data in memory, with what it found for every instance; ``next_posterior`` is consistent with it."""

    projection: Projection
    local: Local


def prior_log_z(projection: Projection, problem: Problem) -> float:
    """Jensen's log Z of the training instances; for the hyperbolic secant exact, and the same for every instance."""
    if has_exact_log_z(problem.density):
        return float(problem.instance_weights.sum() * jensen(problem.density, np.zeros(1))[0][0])
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
    projection = Projection.build(state.gp, problem)
    log_z = prior_log_z(projection, problem)

    def run(state: KernelState, previous: Record | None) -> Record:
        nonlocal projection, log_z
        if state.gp is not projection.gp:
            projection = Projection.build(state.gp, problem)
            log_z = prior_log_z(projection, problem)
        local, statistics = local_pass(projection, state.posterior, problem, previous.local.pi if previous else pi)
        bound = statistics.bound(state.posterior.kl, log_z)
        return Record(state.gp, state.posterior, statistics, bound, projection=projection, local=local)

    def move(state: KernelState, record: Record) -> KernelState:
        assert step_kernel is not None  # not called otherwise
        return step_kernel(state, record.local, problem, record.step)

    yield from ascend(run, state, move if step_kernel else None, schedule or Schedule(), accelerate=accelerate)


def ascend(
    run: Callable[[KernelState, AnyPass | None], AnyPass],
    state: KernelState,
    move: Callable[[KernelState, AnyPass], KernelState] | None,
    schedule: Schedule,
    *,
    accelerate: bool,
    begun: AnyPass | None = None,
) -> Iterator[AnyPass]:
    """The loop of :func:`iterate`, whoever makes the passes.

    Parameters
    ----------
    run : a pass from a state; it is given the last pass that counted.
    move : moves the kernel after a pass; None keeps it.
    begun : the pass of an earlier run after which to go on, in place of ``state``.
    """

    def after(last: AnyPass) -> tuple[KernelState, float]:
        gp, posterior, update = last.gp, last.posterior, last.next_posterior
        if move is not None and schedule.due(last.step):
            return move(KernelState(gp, update), last), last.weight
        weight = min(last.weight * GROWTH, LARGEST_WEIGHT) if accelerate and last.step > 1 else 1.0
        return KernelState(gp, Posterior(posterior.m + weight * (update.m - posterior.m), update.R)), weight

    last, step, weight = begun, 0, 1.0
    if begun is not None:
        step, (state, weight) = begun.step, after(begun)
    while True:
        found = run(state, last)
        if weight > 1.0 and last is not None and last.gp is state.gp and not found.bound.total >= last.bound.total:
            weight, state = 1.0, KernelState(last.gp, last.next_posterior)
            continue
        step += 1
        moves = move is not None and step <= schedule.last
        last = replace(found, step=step, kernel_moved=moves, weight=weight)
        yield last
        state, weight = after(last)


def random_labels(problem: Problem, high: float, rng: np.random.Generator) -> Array:
    """pi (N,) ~ U(0, high), the start of the paper (high = 1) and of its published code (high = 0.1)."""
    return rng.uniform(0.0, high, len(problem.X))
