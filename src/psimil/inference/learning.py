"""Steps of the kernel: quasi-Newton on the collapsed bound, or gradient ascent on the paper's J."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from psimil.foundations.errors import DataWarning, NumericalFailure
from psimil.inference.collapsed import Collapsed, CollapsedBound
from psimil.inference.local_pass import Local
from psimil.inference.log_z import SMALLEST_SAMPLE_SIZE
from psimil.inference.paper_objective import PaperObjective, unwhiten, whiten
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]

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
        best: Collapsed | None = None
        bound = CollapsedBound(problem, local, self.log_z)
        scale = float(problem.weights.sum())

        def objective(log_parameters: Array) -> tuple[float, Array]:
            nonlocal best
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
    """A fixed number of gradient ascent steps (Adam) on J, Eq. (29)."""

    steps: int = 200
    rate: float = 0.01
    samples: int | None = 100
    log_z: str = "rff"
    scaled: bool = False
    seed: int = 0

    def __call__(self, state: KernelState, local: Local, problem: Problem, iteration: int) -> KernelState:
        """The kernel after the last step, with q(u) unchanged."""
        m, S = unwhiten(state.gp, state.posterior)
        objective = PaperObjective(
            m, S, local.pi, problem, self.samples, self.log_z, self.scaled, seed=self.seed + iteration
        )
        gp, x = state.gp, state.gp.kernel.log_parameters
        first, second = np.zeros_like(x), np.zeros_like(x)
        for t in range(1, self.steps + 1):
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
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * np.square(gradient)
            x = x + self.rate * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
            gp = with_kernel(state.gp, x)
        return KernelState(gp, whiten(gp, m, S))


def _warn_refused(gp: SparseGP, iteration: int) -> None:
    kept = ", ".join(f"{v:.4g}" for v in np.exp(gp.kernel.log_parameters))
    warnings.warn(
        f"kernel step refused at iteration {iteration}: the objective is not finite; kept parameters {kept}.",
        DataWarning,
        stacklevel=3,
    )
