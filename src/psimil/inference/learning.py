"""Steps of the kernel: quasi-Newton on the collapsed bound, or gradient ascent on the paper's J."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from psimil.foundations.errors import DataWarning, NumericalFailure
from psimil.inference.collapsed import Collapsed, CollapsedBound
from psimil.inference.local_pass import Local, Projection, local_pass
from psimil.inference.log_z import SMALLEST_SAMPLE_SIZE
from psimil.inference.paper_objective import PaperObjective, unwhiten, whiten
from psimil.inference.phases import tell
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP
from psimil.model.kernels import Kernel, Stationary

Array = NDArray[Any]

MOVE = "a step of the kernel"
REACH = np.log(10.0)  # a step changes no parameter by more than a factor of ten


@dataclass(frozen=True)
class KernelState:
    """A kernel with the q(v) that belongs to it."""

    gp: SparseGP
    posterior: Posterior


class KernelStep(Protocol):
    """A rule that moves the kernel."""

    def __call__(self, state: KernelState, local: Local, problem: Problem, iteration: int) -> KernelState:
        """The state after the step, given theta and pi of the last pass."""


def with_kernel(gp: SparseGP, log_parameters: Array) -> SparseGP:
    """The same inducing points under other kernel parameters."""
    kernel = gp.kernel.with_log_parameters(log_parameters)
    return SparseGP.build(kernel, gp.Z, bias=gp.bias, residual=gp.residual)


@dataclass(frozen=True)
class CollapsedStep:
    """A few quasi-Newton steps on the collapsed bound; never lowers the bound."""

    steps: int = 5
    log_z: bool = True

    def __call__(self, state: KernelState, local: Local, problem: Problem, iteration: int) -> KernelState:
        """The best kernel met on the way."""
        return self.climb(state, CollapsedBound(problem, local, self.log_z), float(problem.weights.sum()), iteration)

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
            _warn_refused(state.gp, iteration)
            return state
        return KernelState(best.gp, best.posterior)


@dataclass(frozen=True)
class PaperStep:
    """Plain gradient ascent on J / N, Eq. (29), by log variance and log squared length scales, at a fixed rate.

    The kernel that is kept is the last one that raised J / N by more than ``tolerance`` since the one kept before; the
    climb ends where the steps that are left cannot raise it that much. The authors' code takes 100 steps of 0.01: J / N
    bends so little over that distance that 20 of 0.05 follow the same path.

    Parameters
    ----------
    steps, rate : number of steps at most, and the factor of the gradient in each.
    samples, log_z : as in :class:`PaperObjective`.
    published : KL / 2 M in place of KL / N, and the same noise in every pass, as in the authors' code. There 100 more
        steps raise the weight of the KL from 1/2 to 1; J falls meanwhile, so that none of them is kept.
    tolerance : None is 1e-4 for ``published`` and 0 otherwise.
    """

    steps: int = 20
    rate: float = 0.05
    samples: int | None = 100
    log_z: str = "rff"
    published: bool = False
    seed: int = 0
    tolerance: float | None = None

    def __call__(self, state: KernelState, local: Local, problem: Problem, iteration: int) -> KernelState:
        """The kernel with the highest J, and q(u) unchanged; labels first follow q(u)."""
        m, S = unwhiten(state.gp, state.posterior)
        pi = local_pass(Projection.streamed(state.gp, problem), state.posterior, problem, local.pi)[0].pi
        seed, weight = (self.seed, 0.5) if self.published else (self.seed + iteration, 1.0)
        objective = PaperObjective(m, S, pi, problem, self.samples, self.log_z, self.published, seed, weight)
        share, least = (1.0, 1e-4) if self.published else (1.0 / len(problem.X), 0.0)
        least = least if self.tolerance is None else self.tolerance
        gp, kept, highest, rates = state.gp, state.gp, -np.inf, _rates(state.gp.kernel)
        for left in range(self.steps, -1, -1):
            tell(MOVE, self.steps - left, self.steps)
            value, gradient, sample_size = objective(gp)
            if sample_size < SMALLEST_SAMPLE_SIZE:
                warnings.warn(
                    f"log Z rests on {sample_size:.1f} effective samples at iteration {iteration}; "
                    'the kernel is not moved. Use log_z="logistic" or "jensen".',
                    DataWarning,
                    stacklevel=2,
                )
                return state
            if not np.isfinite(value) or not np.isfinite(gradient).all():
                _warn_refused(state.gp, iteration)
                return state
            if share * value > highest + least:
                kept, highest = gp, share * value
            move = self.rate * share * gradient * rates
            if share * (value + left * (gradient @ move)) < highest + least:
                break
            gp = with_kernel(state.gp, gp.kernel.log_parameters + move)
        return state if kept is state.gp else KernelState(kept, whiten(kept, m, S))


def _rates(kernel: Kernel) -> Array:
    """(P,) factors by which a step in the logarithms of squared length scales moves those of length scales."""
    rates = np.ones(len(kernel.log_parameters))
    if isinstance(kernel, Stationary):
        rates[1:] = 0.25
    return rates


def _warn_refused(gp: SparseGP, iteration: int) -> None:
    kept = ", ".join(f"{v:.4g}" for v in np.exp(gp.kernel.log_parameters))
    warnings.warn(
        f"kernel step refused at iteration {iteration}: the objective is not finite; kept parameters {kept}.",
        DataWarning,
        stacklevel=3,
    )
