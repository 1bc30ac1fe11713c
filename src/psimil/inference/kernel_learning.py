"""How the kernel is learned: quasi-Newton steps on the collapsed bound, and a look around by out-of-bag scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice, product
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from psimil.foundations.errors import DataWarning, NumericalFailure
from psimil.inference.ascent import KernelState, KernelStep, Pass, Schedule, ascend
from psimil.inference.collapsed import Collapsed, CollapsedBound
from psimil.inference.leave_one_out import loo_score, loo_scores
from psimil.inference.phases import RIVALS, tell
from psimil.inference.shards import InMemory, Shard, Shards
from psimil.inference.sparse_gp import SparseGP
from psimil.model.kernels import RBF

if TYPE_CHECKING:
    from psimil.inference.options import Options

Array = NDArray[Any]

MOVE = "a step of the kernel"
REACH = np.log(10.0)  # a step changes no parameter by more than a factor of ten
RIVAL_PASSES = 15  # passes before a candidate is scored
STEPS = (1.0, 0.5)  # log steps of the pattern: a factor of 2.7, then of 1.6
SEARCHED = 3.0  # log distance from the collapsed optimum that the search may go: a factor of twenty
LEAST_GAIN = 0.05  # nats per bag that a fixed kernel must gain over the learned one
MAX_PARAMETERS = 4  # beyond this, length scales move together


class KernelLearning(Protocol):
    """A way to learn the kernel: its steps, when they are due, and what rise of a score early stopping ignores."""

    schedule: Schedule
    tolerance: float

    def step(self, options: Options, seed: int) -> KernelStep:
        """The rule that moves the kernel."""


@dataclass(frozen=True)
class CollapsedLearning:
    """Steps on the collapsed bound."""

    schedule: Schedule = Schedule()
    tolerance: float = 0.0

    def step(self, options: Options, seed: int) -> KernelStep:
        """The rule that moves the kernel."""
        return CollapsedStep(log_z=options.log_z != "none")


def with_kernel(gp: SparseGP, log_parameters: Array) -> SparseGP:
    """The same inducing points under other kernel parameters."""
    return gp.with_kernel(gp.kernel.with_log_parameters(log_parameters))


@dataclass(frozen=True)
class CollapsedStep:
    """A few quasi-Newton steps on the collapsed bound; never lowers the bound."""

    steps: int = 5
    log_z: bool = True

    def __call__(self, state: KernelState, record: Pass, shards: Shards) -> KernelState:
        """The best kernel met on the way."""
        before = KernelState(record.gp, record.posterior)
        bound = CollapsedBound(shards, before, record.local, log_z=self.log_z)
        return self.climb(state, bound, float(shards.weights.sum()), record.step)

    def climb(
        self, state: KernelState, bound: Callable[[SparseGP], Collapsed], scale: float, iteration: int
    ) -> KernelState:
        """The best kernel met on the way up a collapsed bound that sums over data of total weight ``scale``."""
        best: Collapsed | None = None
        tried = count(1)

        def objective(log_parameters: Array) -> tuple[float, Array]:
            nonlocal best
            tell(MOVE, next(tried), self.steps + 2)
            try:
                found = bound(with_kernel(state.gp, log_parameters))
            except NumericalFailure:
                return np.inf, np.zeros_like(log_parameters)
            if not np.isfinite(found.value) or not np.isfinite(found.gradient).all():
                return np.inf, np.zeros_like(log_parameters)
            if best is None or found.value > best.value:
                best = found
            return -found.value / scale, -found.gradient / scale

        start = state.gp.kernel.log_parameters
        bounds = [(p - REACH, p + REACH) for p in start]
        options = {"maxiter": self.steps, "maxfun": self.steps + 2}
        minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if best is None:
            warn_refused(state.gp, iteration)
            return state
        return KernelState(best.gp, best.posterior)


def warn_refused(gp: SparseGP, iteration: int) -> None:
    """Warn that the kernel stays as it is because the objective is not finite."""
    kept = ", ".join(f"{v:.4g}" for v in np.exp(gp.kernel.log_parameters))
    warnings.warn(
        f"kernel step refused at iteration {iteration}: the objective is not finite; kept parameters {kept}.",
        DataWarning,
        stacklevel=3,
    )


def search_kernel(record: Pass, shard: Shard, aggregate: str) -> SparseGP:
    """Pattern search in the log parameters from the kernel of ``record``; the best kernel by out-of-bag score."""
    best, score = record.gp, loo_score(record, shard, aggregate)
    centre = best.kernel.log_parameters
    size, tried = len(centre), 0
    directions = np.eye(size) if size <= MAX_PARAMETERS else np.array([np.eye(size)[0], 1.0 - np.eye(size)[0]])
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for direction in (sign * d for d in directions for sign in (1.0, -1.0)):
                moved = best.kernel.log_parameters + step * direction
                if np.abs(moved - centre).max() > SEARCHED:
                    continue
                tried += 1
                tell(RIVALS, tried)
                candidate = with_kernel(best, moved)
                found = float(np.average(_scores(candidate, shard, aggregate), weights=shard.weights))
                if found > score + 1e-4:
                    best, score, improved = candidate, found, True
    return best


def guard_kernel(record: Pass, shard: Shard, aggregate: str) -> SparseGP:
    """The learned kernel, or a fixed RBF kernel where leave-one-bag-out clearly prefers it.

    The bound of few bags is a poor guide: it may rise while predictions fall (docs/derivations.md). The rivals have
    variance 1 or 10 and length scale sqrt(D) or six tenths of it. A rival must raise the mean log predictive by more
    than two standard errors of the difference over bags, and by 0.05: leave-one-bag-out flatters flexible kernels.
    """
    best, learned = record.gp, loo_scores(record, shard, aggregate)
    gain, weights, D = 0.0, shard.weights, shard.X.shape[1]
    rivals = list(product((1.0, 10.0), (1.0, 0.6)))
    for number, (variance, scale) in enumerate(rivals):
        tell(RIVALS, number, len(rivals))
        kernel = RBF(variance, float(scale * np.sqrt(D)))
        candidate = record.gp.with_kernel(kernel)
        difference = _scores(candidate, shard, aggregate) - learned
        found = float(np.average(difference, weights=weights))
        error = np.sqrt(np.average((difference - found) ** 2, weights=weights) / len(difference))
        if found > max(gain, LEAST_GAIN, 2.0 * float(error)):
            best, gain = candidate, found
    return best


def _scores(gp: SparseGP, shard: Shard, aggregate: str) -> Array:
    for record in islice(ascend(InMemory(shard), KernelState.first(gp)), RIVAL_PASSES):
        tell("passes with another kernel", record.step, RIVAL_PASSES)
    return loo_scores(record, shard, aggregate)
