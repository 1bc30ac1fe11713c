"""The bound with q(v) maximised out, as a function of the kernel: closed form with closed-form adjoints.

With theta and pi fixed, F = |R^-1 V'kappa|^2 / 2 - sum log R_ii + sum_n rho_n(q_n), q_n = |v_n|^2, where rho holds
what depends on single instances: -theta (k_nn - q) / 2 of the full residual, and minus Jensen's log Z.
An ascent step of F is an ascent step of the bound (docs/derivations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.blas import add_gram
from psimil.foundations.linalg import solve_lower, symmetric
from psimil.foundations.threads import Scratch, ordered_map
from psimil.inference.local_pass import Local, device_rows
from psimil.inference.log_z import has_exact_log_z, jensen
from psimil.inference.posterior import Posterior, global_update
from psimil.inference.problem import Chunk, Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class Collapsed:
    """F, its gradient by the log parameters of the kernel, and the q(v) that attains it."""

    value: float
    gradient: Array
    gp: SparseGP
    posterior: Posterior


class Adjoint(NamedTuple):
    """What the backward sweep needs of q(v): weights (M + 2, M) or (M + 1, M), and L^-1 (M, M)."""

    weights: Array
    L_inverse: Array


class Forward(NamedTuple):
    """Sums over instances: upper triangle of V' Theta V (M, M), V' kappa (M,), and sum_n rho_n."""

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


def maximised(gp: SparseGP, forward: Forward, backward: Callable[[Adjoint], Backward]) -> Collapsed:
    """F, its gradient and its q(v) from the sums over instances.

    Parameters
    ----------
    backward : the sums of the backward sweep, given its adjoint.
    """
    V_kappa = forward.V_kappa
    posterior = global_update(symmetric(forward.gram), V_kappa)
    m, M = posterior.m, len(gp.Z)
    value = forward.value + (0.5 * float(V_kappa @ m) - float(np.log(np.diag(posterior.R)).sum()))
    second = (posterior.S + np.outer(m, m))[:, :M]
    L_inverse = solve_lower(gp.L, np.eye(M))
    # dF/dK_xz = [Theta V, kappa] [-(S + m m') L^-1; a'] + 2 diag(rho') V L^-1, a = L^-T m
    gradient, moved = backward(Adjoint(np.vstack([-second, m[:M]]) @ L_inverse, L_inverse))
    # dF/dK_zz = L^-T [ (I - S - m m') / 2 - V' diag(rho') V ] L^-1
    core = 0.5 * (np.eye(M) - second[:M]) - moved
    gradient = gradient + gp.kernel.gram_adjoint(gp.Z, gp.Z, L_inverse.T @ core @ L_inverse)
    return Collapsed(value, gradient, gp, posterior)


@dataclass
class CollapsedBound:
    """F as a function of the kernel, for fixed theta and pi.

    Parameters
    ----------
    local : theta and pi of the last pass.
    log_z : whether to subtract Jensen's estimate of log Z.
    """

    problem: Problem
    local: Local
    log_z: bool = True
    kept: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        w = self.problem.instance_weights
        self.theta, self.kappa = w * self.local.theta, w * (self.local.pi - 0.5)
        self.scratch = Scratch()

    def __call__(self, gp: SparseGP) -> Collapsed:
        """F and dF / d log parameters at the kernel of ``gp``."""
        return maximised(gp, self.forward(gp), lambda adjoint: self.backward(gp, adjoint))

    def forward(self, gp: SparseGP) -> Forward:
        """The sums over instances that q(v) and F follow from."""
        total = Forward.zero(gp.size)
        if self.problem.device is not None:
            return sum((self._forward_on_device(gp, c) for c in self.problem.blocks), total)
        for part in ordered_map(lambda c: self._forward(gp, c), self.problem.chunks):
            total = total + part
        if not self._without_V(gp):
            return total
        A = gp.whitening
        return Forward(A.T @ symmetric(total.gram) @ A, A.T @ total.V_kappa, total.value)

    def backward(self, gp: SparseGP, adjoint: Adjoint) -> Backward:
        """The sums over instances that the gradient follows from."""
        total = Backward.zero(gp)
        if self.problem.device is not None:
            return sum((self._backward_on_device(gp, c, adjoint.weights) for c in self.problem.blocks), total)
        weights, L_inverse = adjoint
        if self._without_V(gp):  # Theta V W = Theta [K, b] (A W)
            weights = np.vstack([gp.whitening @ weights[:-1], weights[-1]])
        for part in ordered_map(lambda c: self._backward(gp, c, weights, L_inverse), self.problem.chunks):
            total = total + part
        return total

    def _forward(self, gp: SparseGP, chunk: Chunk) -> Forward:
        rows, dtype = slice(chunk.start, chunk.stop), self.problem.X.dtype
        _, V = self._project(gp, chunk, fresh=True)
        value, _ = self._separable(gp, chunk, V)
        W = self.scratch.array("W", V.shape, dtype)
        np.multiply(V, np.sqrt(self.theta[rows]).astype(dtype, copy=False)[:, None], out=W)
        gram = add_gram(np.zeros((gp.size, gp.size), dtype=dtype), W)
        return Forward(gram, self.kappa[rows].astype(dtype, copy=False) @ V, value)

    def _backward(self, gp: SparseGP, chunk: Chunk, weights: Array, L_inverse: Array) -> Backward:
        rows, dtype, M = slice(chunk.start, chunk.stop), self.problem.X.dtype, len(gp.Z)
        X = self.problem.X[rows]
        K, V = self._project(gp, chunk, fresh=False)
        left = self.scratch.array("left", (len(V), gp.size + 1), dtype)
        np.multiply(V, self.theta[rows].astype(dtype, copy=False)[:, None], out=left[:, :-1])
        left[:, -1] = self.kappa[rows]
        A = self.scratch.array("A", (len(V), M), dtype)
        np.matmul(left, weights.astype(dtype, copy=False), out=A)
        _, slope = self._separable(gp, chunk, V)
        moved = np.zeros((M, M))
        if slope is not None:
            scaled = slope.astype(dtype)[:, None] * V[:, :M]
            A += (2.0 * scaled) @ L_inverse.astype(dtype)
            moved = V[:, :M].T @ scaled
        gradient = gp.kernel.gram_adjoint(X, gp.Z.astype(dtype, copy=False), A, K)
        return Backward(gradient + self._by_diagonal(gp, chunk), moved)

    def _forward_on_device(self, gp: SparseGP, chunk: Chunk) -> Forward:
        rows = slice(chunk.start, chunk.stop)
        V = device_rows().features(gp, self.problem.X[rows], self.problem.device)
        value, _ = self._separable(gp, chunk, V.cpu().numpy()) if self._is_separable(gp) else (0.0, None)
        gram, V_kappa = device_rows().sums(V, self.theta[rows], self.kappa[rows])
        return Forward(gram, V_kappa, value)

    def _backward_on_device(self, gp: SparseGP, chunk: Chunk, weights: Array) -> Backward:
        rows = slice(chunk.start, chunk.stop)
        X, device, slope = self.problem.X[rows], self.problem.device, None
        if self._is_separable(gp):
            _, slope = self._separable(gp, chunk, device_rows().features(gp, X, device).cpu().numpy())
        gradient, moved = device_rows().adjoint(gp, X, device, self.theta[rows], self.kappa[rows], weights, slope)
        return Backward(gradient + self._by_diagonal(gp, chunk), moved)

    def _project(self, gp: SparseGP, chunk: Chunk, *, fresh: bool) -> tuple[Array, Array]:
        """K_xz and V of a chunk; kept from the forward to the backward sweep, in the same memory at every call.

        Both are [K_xz, b] where V is not needed.
        """
        rows, X = slice(chunk.start, chunk.stop), self.problem.X[chunk.start : chunk.stop]
        whiten = not self._without_V(gp)
        if not self.problem.cache:
            K = gp.features(X, whiten=False)
            return K[:, : len(gp.Z)], gp.features(X, K[:, : len(gp.Z)]) if whiten else K
        K = self._kept("K", gp)[rows]
        V = self._kept("V", gp)[rows] if whiten else K
        if fresh:
            gp.features(X, out=K, whiten=False)
            if whiten:
                gp.features(X, K[:, : len(gp.Z)], out=V)
        return K[:, : len(gp.Z)], V

    def _kept(self, name: str, gp: SparseGP) -> Array:
        if name not in self.kept:
            self.kept[name] = np.empty((len(self.problem.X), gp.size), dtype=self.problem.X.dtype)
        return self.kept[name]

    def _without_V(self, gp: SparseGP) -> bool:
        """Whether sums over [K_xz, b] are whitened at the end, which saves a triangular product per instance."""
        return gp.sums_can_be_whitened(self.problem.X.dtype) and not self._is_separable(gp)

    def _is_separable(self, gp: SparseGP) -> bool:
        """Whether F has terms of single instances, which need |v_n|^2."""
        return gp.residual == "full" or (self.log_z and not has_exact_log_z(self.problem.density))

    def _separable(self, gp: SparseGP, chunk: Chunk, V: Array) -> tuple[float, Array | None]:
        """sum_n rho_n(q_n) and rho'_n (n,), None where it is zero."""
        rows = slice(chunk.start, chunk.stop)
        X, w = self.problem.X[rows], self.problem.instance_weights[rows]
        value, slope = 0.0, None
        if gp.residual == "full":
            value -= 0.5 * float(self.theta[rows] @ gp.residual_variance(X, V))
            slope = 0.5 * self.theta[rows]
        if self.log_z and not has_exact_log_z(self.problem.density):
            r, dr = jensen(self.problem.density, gp.prior_variance(X, V))
            value -= float(w @ r)
            if gp.residual == "projected":
                slope = -w * dr
        return value, slope

    def _by_diagonal(self, gp: SparseGP, chunk: Chunk) -> Array:
        """(P,) the gradient by way of k(x_n, x_n)."""
        if gp.residual == "projected":
            return np.zeros(len(gp.kernel.log_parameters))
        rows = slice(chunk.start, chunk.stop)
        X, w = self.problem.X[rows], self.problem.instance_weights[rows]
        slope = -0.5 * self.theta[rows]
        if self.log_z and not has_exact_log_z(self.problem.density):
            slope = slope - w * jensen(self.problem.density, np.asarray(gp.kernel.diagonal(X)) + gp.bias**2)[1]
        return gp.kernel.diagonal_adjoint(X, slope)


def collapsed_bound(gp: SparseGP, local: Local, problem: Problem, *, log_z: bool = True) -> Collapsed:
    """F, its gradient and its q(v) at one kernel; see :class:`CollapsedBound` for several."""
    return CollapsedBound(problem, local, log_z)(gp)
