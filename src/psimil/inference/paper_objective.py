"""J(lambda) of Eq. (29): the paper's objective for the kernel, with q(u) and pi held fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import cholesky, solve_lower, solve_upper
from psimil.foundations.quadrature import gauss_hermite
from psimil.foundations.threads import ordered_map
from psimil.inference.log_z import jensen, random_fourier
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Chunk, Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class PaperObjective:
    """What stays fixed while the kernel moves, and how J is estimated.

    Parameters
    ----------
    m, S : (M,), (M, M) mean and covariance of q(u), the constant mean as last entry when there is one.
    pi : (N,) label posterior.
    samples : Monte Carlo draws of f per instance (common random numbers); None for Gauss-Hermite.
    log_z : "jensen", "rff" or "none".
    scaled : J / N with KL / M, as the authors' code has it.
    """

    m: Array
    S: Array
    pi: Array
    problem: Problem
    samples: int | None = None
    log_z: str = "rff"
    scaled: bool = False
    seed: int = 0

    def __call__(self, gp: SparseGP) -> tuple[float, Array, float]:
        """J, its gradient by the log kernel parameters, and the effective sample size of log Z (inf if exact)."""
        problem, M, full = self.problem, len(gp.Z), gp.residual
        w = problem.instance_weights
        kappa = w * (self.pi - 0.5)
        by_data, by_kl = (1.0 / len(problem.X), 1.0 / len(self.m)) if self.scaled else (1.0, 1.0)
        kl, kl_adjoint = self._kl(gp)
        inverse = solve_upper(gp.L.T, solve_lower(gp.L, np.eye(M)))
        Z = gp.Z

        def part(chunk: Chunk) -> tuple[float, Array, Array]:
            rows = slice(chunk.start, chunk.stop)
            X = problem.X[rows].astype(np.float64)
            K = gp.kernel.gram(X, Z)
            A = K @ inverse
            B = np.column_stack([A, np.full(len(A), gp.bias)]) if gp.bias else A
            BS = B @ self.S
            mu = B @ self.m
            prior = 1.0 if full == "unit" else gp.kernel.diagonal(X)
            left = 0.0 if full == "projected" else prior - np.vecdot(A, K)
            s2 = np.maximum(left, 0.0) + np.vecdot(BS, B)
            value, g_mu, g_s2 = self._expected_log_psi(mu, np.maximum(s2, 1e-12), chunk.start)
            wide = w[rows] * g_s2
            total = float(kappa[rows] @ mu + w[rows] @ value)
            A_bar = np.outer(kappa[rows] + w[rows] * g_mu, self.m[:M]) + 2.0 * wide[:, None] * BS[:, :M]
            K_bar = np.zeros_like(K)
            gradient = np.zeros(len(gp.kernel.log_parameters))
            if full != "projected":
                inside = wide * (left > 0)
                A_bar -= inside[:, None] * K
                K_bar -= inside[:, None] * A
                if full == "full":
                    gradient += gp.kernel.diagonal_adjoint(X, inside)
            K_bar += A_bar @ inverse
            gradient += gp.kernel.gram_adjoint(X, Z, K_bar, K)
            return total, gradient, A.T @ (A_bar @ inverse)

        value, gradient, moved = 0.0, np.zeros(len(gp.kernel.log_parameters)), np.zeros((M, M))
        for chunk_value, chunk_gradient, chunk_moved in ordered_map(part, problem.chunks):
            value += chunk_value
            gradient += chunk_gradient
            moved += chunk_moved
        z, z_gradient, sample_size = self._log_z(gp)
        gradient += gp.kernel.gram_adjoint(Z, Z, -moved)
        gradient = by_data * (gradient - z_gradient) - by_kl * gp.kernel.gram_adjoint(Z, Z, kl_adjoint)
        return by_data * (value - z) - by_kl * kl, gradient, sample_size

    def _kl(self, gp: SparseGP) -> tuple[float, Array]:
        """KL(q(u) || p(u)) and its adjoint by K_zz."""
        M = len(gp.Z)
        m, S = self.m[:M], self.S[:M, :M]
        inverse = solve_upper(gp.L.T, solve_lower(gp.L, np.eye(M)))
        second = S + np.outer(m, m)
        extra = 0.5 * (self.S[-1, -1] + self.m[-1] ** 2 - 1.0) if gp.bias else 0.0
        log_det = 2.0 * np.log(np.diag(gp.L)).sum() - float(np.linalg.slogdet(self.S)[1])
        kl = 0.5 * (float(np.vdot(inverse, second)) - M + log_det) + extra
        return kl, 0.5 * (inverse - inverse @ second @ inverse)

    def _expected_log_psi(self, mu: Array, s2: Array, start: int) -> tuple[Array, Array, Array]:
        """E log psi(f) and its derivatives by mean and variance, each (n,)."""
        density = self.problem.density
        if self.samples is None:
            x, weights = gauss_hermite()
            noise = x[None, :]
        else:
            noise = np.random.default_rng([self.seed, start]).standard_normal((len(mu), self.samples))
            weights = np.full(self.samples, 1.0 / self.samples)
        scale = np.sqrt(s2)
        f = mu[:, None] + scale[:, None] * noise
        slope = -f * density.theta(np.abs(f))
        return density.log_prob(f) @ weights, slope @ weights, (slope * noise) @ weights / (2.0 * scale)

    def _log_z(self, gp: SparseGP) -> tuple[float, Array, float]:
        problem, zero = self.problem, np.zeros(len(gp.kernel.log_parameters))
        if self.log_z == "none":
            return 0.0, zero, np.inf
        if self.log_z == "rff":
            found = random_fourier(gp.kernel, problem, bias=gp.bias, seed=self.seed)
            return found.value, found.gradient, found.effective_sample_size
        w = problem.instance_weights
        if gp.residual == "projected":  # the prior variance is |v_n|^2 + b^2 and moves with K_xz and K_zz
            X = problem.X.astype(np.float64)
            K = gp.kernel.gram(X, gp.Z)
            A = solve_upper(gp.L.T, solve_lower(gp.L, K.T)).T
            r, dr = jensen(problem.density, np.vecdot(A, K) + gp.bias**2)
            weighted = (w * dr)[:, None] * A
            moved = gp.kernel.gram_adjoint(gp.Z, gp.Z, A.T @ weighted)
            return float(w @ r), gp.kernel.gram_adjoint(X, gp.Z, 2.0 * weighted, K) - moved, np.inf
        prior = np.asarray(gp.kernel.diagonal(problem.X), dtype=np.float64) + gp.bias**2
        r, dr = jensen(problem.density, prior)
        return float(w @ r), gp.kernel.diagonal_adjoint(problem.X, w * dr), np.inf


def unwhiten(gp: SparseGP, posterior: Posterior) -> tuple[Array, Array]:
    """Mean and covariance of q(u), u = L v, the constant mean kept as it is."""
    M = len(gp.Z)
    L = np.eye(gp.size)
    L[:M, :M] = gp.L
    LU = L @ posterior.U
    return L @ posterior.m, LU @ LU.T


def whiten(gp: SparseGP, m: Array, S: Array) -> Posterior:
    """q(v) under another kernel for the same q(u)."""
    M = len(gp.Z)
    L = np.eye(gp.size)
    L[:M, :M] = gp.L
    half = solve_lower(cholesky(S).L, L)  # precision of v: L' S^-1 L
    return Posterior(solve_lower(L, m), cholesky(half.T @ half).L)
