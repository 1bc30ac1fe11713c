"""J(lambda) of Eq. (29): the paper's objective for the kernel, with q(u) and pi held fixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from psimil.compute.numpy_backend import ordered_map, scratch
from psimil.foundations.arrays import Array
from psimil.foundations.linalg import cholesky, solve_lower, solve_upper
from psimil.foundations.logistic import gauss_hermite
from psimil.inference.shards import Shard
from psimil.model.densities import jensen
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.fourier_log_z import random_fourier
from psimil.paper.moving_gram import MovingGram

SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True)
class PaperObjective:
    """J of Eq. (29): what stays fixed while the kernel moves, and how J is estimated.

    Distances and noise are kept from call to call, so the inducing points must stay the same. The prior variance is
    that of the kernel in the authors' code, too: it has its 1 in the passes only.

    Parameters
    ----------
    m, S : (M,), (M, M) mean and covariance of q(u), the constant mean as last entry when there is one.
    pi : (N,) label posterior.
    samples : Monte Carlo draws of f per instance (common random numbers); None for Gauss-Hermite.
    log_z : "jensen", "rff" or "none".
    scaled : J / N with KL / M, as the authors' code has it.
    kl_weight : factor of the KL.
    """

    m: Array
    S: Array
    pi: Array
    shard: Shard
    samples: int | None = None
    log_z: str = "rff"
    scaled: bool = False
    seed: int = 0
    kl_weight: float = 1.0
    _grams: list[MovingGram] = field(default_factory=list, init=False, repr=False, compare=False)

    def __call__(self, gp: SparseGP) -> tuple[float, Array, float]:
        """J, its gradient by the log kernel parameters, and the effective sample size of log Z (inf if exact).

        With k_n the rows of K_xz and P = K_zz^-1 the moments are mu_n = k_n'P m and s2_n = k_nn + k_n'Q k_n,
        Q = P S P - P (P S P for the projected model), so that one product with Q and one weighted gram of K_xz do.
        """
        shard, M, kernel = self.shard, len(gp.Z), gp.kernel
        by_data, by_kl = (1.0 / len(shard.X), 1.0 / len(self.m)) if self.scaled else (1.0, 1.0)
        by_kl *= self.kl_weight
        full = 0.0 if gp.residual == "projected" else 1.0
        m, S, cross = self.m[:M], self.S[:M, :M], gp.bias * self.S[:M, M:].sum(axis=1)
        P = gp.L_inverse_T @ gp.L_inverse_T.T
        PSP = P @ S @ P
        Q, columns = PSP - full * P, P @ np.column_stack([m, 2.0 * cross])
        value, gradient = 0.0, np.zeros(len(kernel.log_parameters))
        second, first = np.zeros((M, M)), np.zeros((M, 2))
        of_points, *of_rows = self._moving(gp)

        def part(i: int) -> tuple[float, Array, Array, Array]:
            return self._rows(i, of_rows[i], gp, Q, columns)

        chunks = range(len(of_rows))
        for found in ordered_map(part, chunks) if len(of_rows) > 1 else map(part, chunks):
            value += found[0]
            gradient += found[1]
            second += found[2]
            first += found[3]
        kl, kl_adjoint = self._kl(gp, P, PSP, columns[:, 0])
        z, z_gradient, sample_size = self._log_z(gp)
        moved = P @ second @ (full * P - 2.0 * PSP) - (P @ first) @ columns.T
        adjoint = by_data * moved - by_kl * kl_adjoint
        by_points = of_points.adjoint(kernel, adjoint, of_points.gram(kernel))
        return by_data * (value - z) - by_kl * kl, by_data * (gradient - z_gradient) + by_points, sample_size

    def _moving(self, gp: SparseGP) -> list[MovingGram]:
        """Inducing points, then the rows of each chunk, against the inducing points."""
        if not self._grams:
            rows = (self.shard.X[c.start : c.stop].astype(np.float64, copy=False) for c in self.shard.ranges)
            keep = self.shard.whole
            self._grams.extend(MovingGram.build(X, gp.Z, gp.kernel, keep=keep) for X in (gp.Z, *rows))
        return self._grams

    @cached_property
    def _noise(self) -> list[tuple[Array, Array]]:
        """Per chunk, standardised values of f (n or 1, L) and their weights (L,)."""
        chunks = self.shard.ranges
        if self.samples is None:
            x, weights = gauss_hermite()
            return [(x[None, :], weights)] * len(chunks)
        weights = np.full(self.samples, 1.0 / self.samples)
        generators = (np.random.default_rng([self.seed, c.start]) for c in chunks)
        return [
            (g.standard_normal((c.stop - c.start, self.samples)), weights)
            for g, c in zip(generators, chunks, strict=True)
        ]

    def _rows(
        self, i: int, moving: MovingGram, gp: SparseGP, Q: Array, columns: Array
    ) -> tuple[float, Array, Array, Array]:
        """Of a chunk: the data terms, their gradient with K_zz held, sum g_s2 k k' (M, M) and sum k (g_mu, g_s2)'."""
        shard, chunk, kernel = self.shard, self.shard.ranges[i], gp.kernel
        rows = slice(chunk.start, chunk.stop)
        w, shape = shard.instance_weights[rows], (len(moving.X), len(Q))
        K, KQ, wide_K = (scratch(name, shape, np.float64) for name in ("K", "KQ", "wide K"))
        moving.gram(kernel, out=K)
        np.matmul(K, Q, out=KQ)
        linear = K @ columns
        mu, s2 = linear[:, 0], linear[:, 1] + np.vecdot(KQ, K)
        if gp.bias:
            mu, s2 = mu + gp.bias * self.m[-1], s2 + gp.bias**2 * self.S[-1, -1]
        if gp.residual != "projected":
            s2 = s2 + kernel.diagonal(moving.X)
        inside = s2 > SMALLEST_VARIANCE
        value, g_mu, g_s2 = self._expected_log_psi(mu, np.maximum(s2, SMALLEST_VARIANCE), i)
        kappa, wide = w * (self.pi[rows] - 0.5), w * g_s2 * inside
        slopes = np.column_stack([kappa + w * g_mu, wide])
        second, first = K.T @ np.multiply(K, wide[:, None], out=wide_K), K.T @ slopes
        KQ *= 2.0 * wide[:, None]
        KQ += np.matmul(slopes, columns.T, out=wide_K)
        gradient = moving.adjoint(kernel, KQ, K)
        if gp.residual != "projected":
            gradient += kernel.diagonal_adjoint(moving.X, wide)
        return float(kappa @ mu + w @ value), gradient, second, first

    @cached_property
    def _log_det(self) -> float:
        return float(np.linalg.slogdet(self.S)[1])

    def _kl(self, gp: SparseGP, P: Array, PSP: Array, Pm: Array) -> tuple[float, Array]:
        """KL(q(u) || p(u)) and its adjoint by K_zz."""
        M = len(gp.Z)
        extra = 0.5 * (self.S[-1, -1] + self.m[-1] ** 2 - 1.0) if gp.bias else 0.0
        quadratic = float(np.vdot(P, self.S[:M, :M]) + self.m[:M] @ Pm)
        log_det = 2.0 * float(np.log(np.diag(gp.L)).sum()) - self._log_det
        return 0.5 * (quadratic - M + log_det) + extra, 0.5 * (P - PSP - np.outer(Pm, Pm))

    def _expected_log_psi(self, mu: Array, s2: Array, i: int) -> tuple[Array, Array, Array]:
        """E log psi(f) and its derivatives by mean and variance, each (n,), for the noise of chunk i."""
        density, (noise, weights), scale = self.shard.density, self._noise[i], np.sqrt(s2)
        f = mu[:, None] + scale[:, None] * noise
        slope = -f * density.theta(np.abs(f))
        return density.log_prob(f) @ weights, slope @ weights, (slope * noise) @ weights / (2.0 * scale)

    def _log_z(self, gp: SparseGP) -> tuple[float, Array, float]:
        shard, zero = self.shard, np.zeros(len(gp.kernel.log_parameters))
        if self.log_z == "none":
            return 0.0, zero, np.inf
        if self.log_z == "rff":
            found = random_fourier(gp.kernel, shard, bias=gp.bias, seed=self.seed)
            return found.value, found.gradient, found.effective_sample_size
        w = shard.instance_weights
        if gp.residual == "projected":  # the prior variance is |v_n|^2 + b^2 and moves with K_xz and K_zz
            X = shard.X.astype(np.float64)
            K = gp.kernel.gram(X, gp.Z)
            A = solve_upper(gp.L.T, solve_lower(gp.L, K.T)).T
            r, dr = jensen(shard.density, np.vecdot(A, K) + gp.bias**2)
            weighted = (w * dr)[:, None] * A
            moved = gp.kernel.gram_adjoint(gp.Z, gp.Z, A.T @ weighted)
            return float(w @ r), gp.kernel.gram_adjoint(X, gp.Z, 2.0 * weighted, K) - moved, np.inf
        prior = np.asarray(gp.kernel.diagonal(shard.X), dtype=np.float64) + gp.bias**2
        r, dr = jensen(shard.density, prior)
        return float(w @ r), gp.kernel.diagonal_adjoint(shard.X, w * dr), np.inf


def unwhiten(gp: SparseGP, posterior: Posterior) -> tuple[Array, Array]:
    """Mean and covariance of q(u), u = L v, the constant mean kept as it is."""
    L = _factor(gp)
    LU = L @ posterior.U
    return L @ posterior.m, LU @ LU.T


def whiten(gp: SparseGP, m: Array, S: Array) -> Posterior:
    """q(v) under another kernel for the same q(u)."""
    L = _factor(gp)
    half = solve_lower(cholesky(S).L, L)  # precision of v: L' S^-1 L
    return Posterior(solve_lower(L, m), cholesky(half.T @ half).L)


def _factor(gp: SparseGP) -> Array:
    """L, with 1 for the constant mean."""
    L = np.eye(gp.size)
    L[: len(gp.Z), : len(gp.Z)] = gp.L
    return L
