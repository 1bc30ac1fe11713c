"""Gradient ascent on the paper's J, as in its text and as in the authors' code."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning
from psimil.foundations.phases import tell
from psimil.inference.options import Options
from psimil.inference.shards import Shards
from psimil.model.densities import is_logistic
from psimil.model.kernels import Kernel, Stationary
from psimil.model.sparse_gp import KernelState, SparseGP
from psimil.paper.ascent import KernelStep, Pass, Schedule
from psimil.paper.fourier_log_z import SMALLEST_SAMPLE_SIZE
from psimil.paper.objective import PaperObjective, unwhiten, whiten
from psimil.paper.passes import run_pass

MOVE = "a step of the kernel"


@dataclass(frozen=True)
class PaperLearning:
    """Steps on J: after every pass, or after every pass but the first ten, as in the authors' code.

    That code takes a score for better when it rises by more than ``tolerance``.
    """

    published: bool = False

    @property
    def schedule(self) -> Schedule:
        """When the kernel moves."""
        return Schedule(10 if self.published else 1, 1, 10**9)

    @property
    def tolerance(self) -> float:
        """The rise of a score that early stopping ignores."""
        return 1e-3 if self.published else 0.0

    def step(self, options: Options, seed: int) -> KernelStep:
        """The rule that moves the kernel."""
        log_z = "none" if self.published or is_logistic(options.density) else options.log_z
        return PaperStep(
            samples=(1 if self.published else 100) if options.expectation == "sample" else None,
            log_z="jensen" if log_z == "logistic" else log_z,
            published=self.published,
            seed=seed,
        )


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

    def __call__(self, state: KernelState, record: Pass, shards: Shards) -> KernelState:
        """The kernel with the highest J, and q(u) unchanged; labels first follow q(u)."""
        shard, iteration = shards.in_memory, record.step
        assert shard is not None and record.local is not None  # streamed fits refuse these hyperparameters
        m, S = unwhiten(state.gp, state.posterior)
        pi = run_pass(replace(shard, keep=False), state.gp, state.posterior, record.local.pi)[0].pi
        seed, weight = (self.seed, 0.5) if self.published else (self.seed + iteration, 1.0)
        objective = PaperObjective(m, S, pi, shard, self.samples, self.log_z, self.published, seed, weight)
        share, least = (1.0, 1e-4) if self.published else (1.0 / len(shard.X), 0.0)
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
                warn_refused(state.gp, iteration)
                return state
            if share * value > highest + least:
                kept, highest = gp, share * value
            move = self.rate * share * gradient * rates
            if share * (value + left * (gradient @ move)) < highest + least:
                break
            gp = gp.with_parameters(gp.kernel.log_parameters + move)
        return state if kept is state.gp else KernelState(kept, whiten(kept, m, S))


def _rates(kernel: Kernel) -> Array:
    """(P,) factors by which a step in the logarithms of squared length scales moves those of length scales."""
    rates = np.ones(len(kernel.log_parameters))
    if isinstance(kernel, Stationary):
        rates[1:] = 0.25
    return rates


def warn_refused(gp: SparseGP, iteration: int) -> None:
    """Warn that the kernel stays as it is because the objective is not finite."""
    kept = ", ".join(f"{v:.4g}" for v in np.exp(gp.kernel.log_parameters))
    warnings.warn(
        f"kernel step refused at iteration {iteration}: the objective is not finite; kept parameters {kept}.",
        DataWarning,
        stacklevel=3,
    )
