"""The bound with q(v) maximised out, as a function of the kernel: closed form with closed-form adjoints.

With theta and pi fixed, F = |R^-1 V'kappa|^2 / 2 - sum log R_ii + sum_n rho_n(q_n), q_n = |v_n|^2, where rho holds
what depends on single instances: -theta (k_nn - q) / 2 of the full residual, and minus Jensen's log Z.
An ascent step of F is an ascent step of the bound (docs/derivations.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from psimil.foundations.errors import DataWarning, NumericalFailure
from psimil.foundations.linalg import solve_lower
from psimil.foundations.phases import tell
from psimil.inference.ascent import KernelState, KernelStep, Pass, Schedule
from psimil.inference.log_z import jensen
from psimil.inference.passes import Local, run_pass
from psimil.inference.posterior import Posterior, global_update
from psimil.inference.shards import BagRange, Shard, Shards
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import is_logistic

if TYPE_CHECKING:
    from psimil.inference.options import Options

Array = NDArray[Any]
Sums = tuple[Any, ...]  # over instances, to be added up

MOVE = "a step of the kernel"
REACH = np.log(10.0)  # a step changes no parameter by more than a factor of ten


@dataclass(frozen=True)
class Collapsed:
    """F, its gradient by the log parameters of the kernel, and the q(v) that attains it."""

    value: float
    gradient: Array
    gp: SparseGP
    posterior: Posterior


@dataclass(frozen=True)
class SweepTask:
    """One sweep of F over a shard at the kernel of ``gp``: forward, or backward when its weights are given.

    ``before``, ``local`` and ``log_z`` are those of :class:`CollapsedBound`, ``weights`` (M + 2, M) or (M + 1, M).
    """

    gp: SparseGP
    before: KernelState
    local: Local | None = None
    log_z: bool = True
    weights: Array | None = None

    def __call__(self, shard: Shard) -> Sums:
        """Forward V' Theta V (M, M), V' kappa (M,) and sum_n rho_n; backward dF by way of K_xz (P,) and V' rho' V."""
        gp, local, A = self.gp, self.local, self.gp.whitening if self._without_V(shard) else None
        if local is None:
            local, _ = run_pass(shard, self.before.gp, self.before.posterior)
        weights, total = self.weights, None
        if weights is not None and A is not None:  # Theta V W = Theta [K, b] (A W)
            weights = np.vstack([A @ weights[:-1], weights[-1]])
        for block in shard.blocks:
            w = shard.instance_weights[block.rows]
            theta, kappa = w * local.theta[block.rows], w * (local.pi[block.rows] - 0.5)
            K, V = self._project(shard, block)
            value, slope, by_diagonal = self._separable(shard, block, theta, V)
            if weights is None:
                sums: Sums = (*shard.backend.weighted_sums(V, theta, kappa), value)
            else:
                rows = (theta, kappa, slope)
                gradient, moved = shard.backend.kernel_adjoint(gp, shard.X[block.rows], K, V, rows, weights)
                sums = (gradient + by_diagonal, moved)
            total = sums if total is None else tuple(a + b for a, b in zip(total, sums, strict=True))
        assert total is not None  # a shard has at least one block
        if weights is not None:
            shard.kept.pop("K_of", None)  # the way back has used it up
        elif A is not None:
            return A.T @ total[0] @ A, A.T @ total[1], total[2]
        return total

    def _project(self, shard: Shard, block: BagRange) -> tuple[Any, Any]:
        """[K_xz, b] and V of a block, both the former where V is not needed.

        A shard that is taken at once keeps them from the forward to the backward sweep, in the same memory always.
        """
        gp, kept, X = self.gp, shard.kept, shard.X[block.rows]
        if not shard.whole or kept.get("K_of") is not gp:
            fits = shard.whole and "K" in kept and kept["K"].shape == (len(X), gp.size)
            kept["K"] = shard.backend.features(gp, X, whiten=False, out=kept["K"] if fits else None)
            if not self._without_V(shard):
                out = kept.get("K_whitened") if fits else None
                kept["K_whitened"] = shard.backend.features(gp, X, K=kept["K"], out=out)
            kept["K_of"] = gp
        return kept["K"], kept["K" if self._without_V(shard) else "K_whitened"]

    def _without_V(self, shard: Shard) -> bool:
        """Whether sums over [K_xz, b] are whitened at the end, which saves a triangular product per instance.

        Not where F has terms of single instances, which need |v_n|^2.
        """
        separable = self.log_z and not is_logistic(shard.density)
        return self.gp.sums_can_be_whitened(shard.X.dtype) and not separable

    def _separable(self, shard: Shard, block: BagRange, theta: Array, V: Any) -> tuple[float, Array | None, Any]:
        """sum_n rho_n(q_n), rho'_n (n,) or None for 0, and the gradient (P,) by way of k(x_n, x_n)."""
        gp, estimated = self.gp, self.log_z and not is_logistic(shard.density)
        if gp.residual == "projected" and not estimated:
            return 0.0, None, 0.0
        X, w, V = shard.X[block.rows], shard.instance_weights[block.rows], shard.backend.on_host(V)
        r, dr = jensen(shard.density, gp.prior_variance(X, V)) if estimated else (np.zeros(len(X)), np.zeros(len(X)))
        if gp.residual == "projected":
            return -float(w @ r), -w * dr, 0.0
        value = -0.5 * float(theta @ gp.residual_variance(X, V)) - float(w @ r)
        return value, 0.5 * theta, gp.kernel.diagonal_adjoint(X, -0.5 * theta - w * dr)


@dataclass(frozen=True, eq=False)
class CollapsedBound:
    """F as a function of the kernel, for fixed theta and pi.

    Parameters
    ----------
    shards : the data.
    before : theta and pi are those of this kernel and this q(v).
    local : theta and pi, where they are at hand; None works them out again in every shard.
    log_z : whether to subtract Jensen's estimate of log Z.
    ranges : shards to sum over; None for all.
    """

    shards: Shards
    before: KernelState
    local: Local | None = None
    log_z: bool = True
    ranges: list[BagRange] | None = None

    def __call__(self, gp: SparseGP) -> Collapsed:
        """F and dF / d log parameters at the kernel of ``gp``."""
        task, M = SweepTask(gp, self.before, self.local, self.log_z), len(gp.Z)
        gram, V_kappa, value = self._swept(task)
        posterior = global_update(gram, V_kappa)
        m = posterior.m
        value += 0.5 * float(V_kappa @ m) - float(np.log(np.diag(posterior.R)).sum())
        second = (posterior.S + np.outer(m, m))[:, :M]
        L_inverse = solve_lower(gp.L, np.eye(M))
        # dF/dK_xz = [Theta V, kappa] [-(S + m m') L^-1; a'] + 2 diag(rho') V L^-1, a = L^-T m
        gradient, moved = self._swept(replace(task, weights=np.vstack([-second, m[:M]]) @ L_inverse))
        # dF/dK_zz = L^-T [ (I - S - m m') / 2 - V' diag(rho') V ] L^-1
        core = 0.5 * (np.eye(M) - second[:M]) - moved
        gradient = gradient + gp.kernel.gram_adjoint(gp.Z, gp.Z, L_inverse.T @ core @ L_inverse)
        return Collapsed(value, gradient, gp, posterior)

    def _swept(self, task: SweepTask) -> Sums:
        """The sums of a sweep over the shards, in their order."""
        total: Sums | None = None
        for sums in self.shards.map(task, self.ranges):
            total = sums if total is None else tuple(a + b for a, b in zip(total, sums, strict=True))
        assert total is not None  # a data set has at least one shard
        return total


@dataclass(frozen=True)
class CollapsedStep:
    """A few quasi-Newton steps on the collapsed bound; never lowers the bound."""

    steps: int = 5
    log_z: bool = True

    def __call__(self, state: KernelState, record: Pass, shards: Shards) -> KernelState:
        """The best kernel met on the way."""
        before = KernelState(record.gp, record.posterior)
        bound = CollapsedBound(shards, before, record.local, log_z=self.log_z)
        found = self.climb(state, bound, float(shards.weights.sum()), record.step)
        kept = {} if shards.in_memory is None else shards.in_memory.kept
        kept.pop("K", None), kept.pop("K_whitened", None)  # as large as V
        return found

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
                found = bound(state.gp.with_parameters(log_parameters))
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


@dataclass(frozen=True)
class CollapsedLearning:
    """A :class:`psimil.inference.ascent.KernelLearning` by steps on the collapsed bound."""

    schedule: ClassVar[Schedule] = Schedule()
    tolerance: ClassVar[float] = 0.0

    def step(self, options: Options, seed: int) -> KernelStep:
        """The rule that moves the kernel."""
        return CollapsedStep(log_z=options.log_z != "none")


COLLAPSED = CollapsedLearning()


def warn_refused(gp: SparseGP, iteration: int) -> None:
    """Warn that the kernel stays as it is because the objective is not finite."""
    kept = ", ".join(f"{v:.4g}" for v in np.exp(gp.kernel.log_parameters))
    warnings.warn(
        f"kernel step refused at iteration {iteration}: the objective is not finite; kept parameters {kept}.",
        DataWarning,
        stacklevel=3,
    )
