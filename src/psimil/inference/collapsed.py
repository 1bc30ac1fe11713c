"""The bound with q(v) maximised out, as a function of the kernel: closed form with closed-form adjoints.

With theta and pi fixed, F = |R^-1 V'kappa|^2 / 2 - sum log R_ii + sum_n rho_n(q_n), q_n = |v_n|^2, where rho holds
what depends on single instances: -theta (k_nn - q) / 2 of the full residual, and minus Jensen's log Z.
An ascent step of F is an ascent step of the bound (docs/derivations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import solve_lower
from psimil.inference.ascent import KernelState, results
from psimil.inference.log_z import jensen
from psimil.inference.passes import Local, run_pass
from psimil.inference.posterior import Posterior, global_update
from psimil.inference.shards import BagRange, Shard, Shards
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import is_logistic

Array = NDArray[Any]


@dataclass(frozen=True)
class Collapsed:
    """F, its gradient by the log parameters of the kernel, and the q(v) that attains it."""

    value: float
    gradient: Array
    gp: SparseGP
    posterior: Posterior


class Forward(NamedTuple):
    """Sums over instances: V' Theta V (M, M), V' kappa (M,), and sum_n rho_n."""

    gram: Array
    V_kappa: Array
    value: float

    @classmethod
    def zero(cls, size: int) -> Forward:
        """Before any instance."""
        return cls(np.zeros((size, size)), np.zeros(size), 0.0)

    def __add__(self, other: Forward) -> Forward:  # type: ignore[override]  # a sum, not a longer tuple
        return Forward(self.gram + other.gram, self.V_kappa + other.V_kappa, self.value + other.value)


class Backward(NamedTuple):
    """Sums over instances: the gradient by way of K_xz (P,), and V' diag(rho') V (M, M)."""

    gradient: Array
    moved: Array

    @classmethod
    def zero(cls, gp: SparseGP) -> Backward:
        """Before any instance."""
        return cls(np.zeros(len(gp.kernel.log_parameters)), np.zeros((len(gp.Z), len(gp.Z))))

    def __add__(self, other: Backward) -> Backward:  # type: ignore[override]  # a sum, not a longer tuple
        return Backward(self.gradient + other.gradient, self.moved + other.moved)


def maximised(gp: SparseGP, forward: Forward, backward: Callable[[Array], Backward]) -> Collapsed:
    """F, its gradient and its q(v) from the sums over instances.

    Parameters
    ----------
    backward : the sums of the backward sweep, given its weights (M + 2, M) or (M + 1, M).
    """
    V_kappa = forward.V_kappa
    posterior = global_update(forward.gram, V_kappa)
    m, M = posterior.m, len(gp.Z)
    value = forward.value + (0.5 * float(V_kappa @ m) - float(np.log(np.diag(posterior.R)).sum()))
    second = (posterior.S + np.outer(m, m))[:, :M]
    L_inverse = solve_lower(gp.L, np.eye(M))
    # dF/dK_xz = [Theta V, kappa] [-(S + m m') L^-1; a'] + 2 diag(rho') V L^-1, a = L^-T m
    gradient, moved = backward(np.vstack([-second, m[:M]]) @ L_inverse)
    # dF/dK_zz = L^-T [ (I - S - m m') / 2 - V' diag(rho') V ] L^-1
    core = 0.5 * (np.eye(M) - second[:M]) - moved
    gradient = gradient + gp.kernel.gram_adjoint(gp.Z, gp.Z, L_inverse.T @ core @ L_inverse)
    return Collapsed(value, gradient, gp, posterior)


@dataclass(frozen=True, eq=False)
class ShardBound:
    """The sums of F over one shard, for fixed theta and pi.

    Parameters
    ----------
    local : theta and pi of the last pass.
    log_z : whether to subtract Jensen's estimate of log Z.
    """

    shard: Shard
    local: Local
    log_z: bool = True

    def forward(self, gp: SparseGP) -> Forward:
        """The sums over instances that q(v) and F follow from."""
        total = Forward.zero(gp.size)
        for block in self.shard.blocks:
            theta, kappa = self._weighted(block)
            _, V = self._project(gp, block)
            total = total + Forward(
                *self.shard.backend.weighted_sums(V, theta, kappa), self._separable(gp, block, theta, V)[0]
            )
        if not self._without_V(gp):
            return total
        A = gp.whitening
        return Forward(A.T @ total.gram @ A, A.T @ total.V_kappa, total.value)

    def backward(self, gp: SparseGP, weights: Array) -> Backward:
        """The sums over instances that the gradient follows from; K_xz of the forward sweep is used up."""
        total = Backward.zero(gp)
        if self._without_V(gp):  # Theta V W = Theta [K, b] (A W)
            weights = np.vstack([gp.whitening @ weights[:-1], weights[-1]])
        for block in self.shard.blocks:
            theta, kappa = self._weighted(block)
            K, V = self._project(gp, block)
            slope = self._separable(gp, block, theta, V)[1]
            X = self.shard.X[block.rows]
            gradient, moved = self.shard.backend.kernel_adjoint(gp, X, K, V, (theta, kappa, slope), weights)
            total = total + Backward(gradient + self._by_diagonal(gp, block, theta), moved)
        self.shard.kept.pop("K_of", None)
        return total

    def _weighted(self, block: BagRange) -> tuple[Array, Array]:
        w = self.shard.instance_weights[block.rows]
        return w * self.local.theta[block.rows], w * (self.local.pi[block.rows] - 0.5)

    def _project(self, gp: SparseGP, block: BagRange) -> tuple[Any, Any]:
        """[K_xz, b] and V of a block, both the former where V is not needed.

        A shard that is taken at once keeps them from the forward to the backward sweep, in the same memory always.
        """
        backend, kept, whiten = self.shard.backend, self.shard.kept, not self._without_V(gp)
        X, whole = self.shard.X[block.rows], self.shard.whole
        if not whole or kept.get("K_of") is not gp:
            fits = whole and np.shape(kept.get("K")) == (len(X), gp.size)
            kept["K"] = backend.features(gp, X, whiten=False, out=kept.get("K") if fits else None)
            if whiten:
                out = kept.get("K_whitened") if fits else None
                kept["K_whitened"] = backend.features(gp, X, K=kept["K"], out=out)
            kept["K_of"] = gp
        return kept["K"], kept["K_whitened"] if whiten else kept["K"]

    def _without_V(self, gp: SparseGP) -> bool:
        """Whether sums over [K_xz, b] are whitened at the end, which saves a triangular product per instance."""
        return gp.sums_can_be_whitened(self.shard.X.dtype) and not self._is_separable(gp)

    def _is_separable(self, gp: SparseGP) -> bool:
        """Whether F has terms of single instances, which need |v_n|^2."""
        return gp.residual == "full" or (self.log_z and not is_logistic(self.shard.density))

    def _separable(self, gp: SparseGP, block: BagRange, theta: Array, V: Any) -> tuple[float, Array | None]:
        """sum_n rho_n(q_n) and rho'_n (n,), None where it is zero."""
        value, slope = 0.0, None
        if not self._is_separable(gp):
            return value, slope
        X, w, V = self.shard.X[block.rows], self.shard.instance_weights[block.rows], self.shard.backend.on_host(V)
        if gp.residual == "full":
            value -= 0.5 * float(theta @ gp.residual_variance(X, V))
            slope = 0.5 * theta
        if self.log_z and not is_logistic(self.shard.density):
            r, dr = jensen(self.shard.density, gp.prior_variance(X, V))
            value -= float(w @ r)
            if gp.residual == "projected":
                slope = -w * dr
        return value, slope

    def _by_diagonal(self, gp: SparseGP, block: BagRange, theta: Array) -> Array:
        """(P,) the gradient by way of k(x_n, x_n)."""
        if gp.residual == "projected":
            return np.zeros(len(gp.kernel.log_parameters))
        X, w = self.shard.X[block.rows], self.shard.instance_weights[block.rows]
        slope = -0.5 * theta
        if self.log_z and not is_logistic(self.shard.density):
            slope = slope - w * jensen(self.shard.density, np.asarray(gp.kernel.diagonal(X)) + gp.bias**2)[1]
        return gp.kernel.diagonal_adjoint(X, slope)


@dataclass(frozen=True)
class BoundTask:
    """One sweep of F over a shard at the kernel of ``gp``: forward, or backward when its weights are given.

    Parameters
    ----------
    before, local, log_z : as of :class:`CollapsedBound`.
    """

    gp: SparseGP
    before: KernelState
    log_z: bool
    local: Local | None = None
    weights: Array | None = None

    def __call__(self, shard: Shard) -> Forward | Backward:
        """Sums over the shard."""
        local = self.local
        if local is None:
            local, _ = run_pass(shard, self.before.gp, self.before.posterior)
        bound = ShardBound(shard, local, self.log_z)
        return bound.forward(self.gp) if self.weights is None else bound.backward(self.gp, self.weights)


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
        forward = BoundTask(gp, self.before, self.log_z, self.local)

        def swept(task: BoundTask, total: Any) -> Any:
            for part in results(self.shards, task, self.ranges):
                total = total + part
            return total

        return maximised(
            gp,
            swept(forward, Forward.zero(gp.size)),
            lambda weights: swept(replace(forward, weights=weights), Backward.zero(gp)),
        )
