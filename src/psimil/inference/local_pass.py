"""One pass over the data: local quantities, label posterior, statistics and bound, block by block.

Given q(v) everything local is a pure function of it, so a pass is a map over blocks of whole bags and a sum. Within a
block, threads share the rows of V for the two products that matter, and the bags for the elementwise work between.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.blas import add_gram, multiply_upper
from psimil.foundations.linalg import symmetric
from psimil.foundations.threads import OrderedMap, Scratch, ordered_map, workers
from psimil.inference.bound import Bound
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Chunk, Problem, chunk_rows
from psimil.inference.sparse_gp import SparseGP
from psimil.model.label_posteriors import RULES

Array = NDArray[Any]

# Parts of a block, and rows that make one worth its overhead; always the same however many threads work on them.
ELEMENTWISE_PARTS, ELEMENTWISE_ROWS = 4, 1000
GRAM_PARTS, GRAM_ROWS = 8, 250
_scratch = Scratch()  # of each thread, for blocks and chunks


@dataclass(frozen=True)
class Projection:
    """V and k~ of the training instances: kept when they fit, computed again chunk by chunk otherwise."""

    gp: SparseGP
    X: Array
    V: Any = None
    k: Array | None = None
    device: str | None = None

    @classmethod
    def build(cls, gp: SparseGP, problem: Problem) -> Projection:
        """Project all training instances, or none when the problem is to be streamed."""
        empty = cls.streamed(gp, problem)
        if not problem.cache:
            return empty
        return replace(
            empty, **dict(zip(("V", "k"), empty.project(slice(None), ordered_map, whiten=True), strict=True))
        )

    @classmethod
    def streamed(cls, gp: SparseGP, problem: Problem) -> Projection:
        """A projection that keeps nothing."""
        return cls(gp, problem.X, device=problem.device)

    @property
    def unwhitened(self) -> bool:
        """Whether blocks are K_xz: where V is not kept, whitening the sums instead saves a triangular product."""
        return self.V is None and self.gp.sums_can_be_whitened(self.X.dtype)

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """V (n, M) and k~ (n,) of instances start to stop - 1."""
        if self.V is not None and self.k is not None:
            V = self.V[start:stop]
            return (V if self.device is None else V.cpu().numpy()), self.k[start:stop]
        X = self.X[start:stop]
        V = self.gp.features(X)
        return V, self.gp.residual_variance(X, V)

    def block(self, block: Chunk, run: OrderedMap) -> tuple[Any, Array]:
        """V and k~ of a block, computed by all threads where they are not kept; K_xz for V when ``unwhitened``."""
        rows = slice(block.start, block.stop)
        if self.V is not None and self.k is not None:
            return self.V[rows], self.k[rows]
        room = _scratch.array("block", (block.stop - block.start, self.gp.size), self.X.dtype)
        return self.project(rows, run, whiten=not self.unwhitened, out=room)

    def project(self, rows: slice, run: OrderedMap, *, whiten: bool, out: Array | None = None) -> tuple[Any, Array]:
        """V (n, M), or K_xz with the column of the mean, and k~ (n,) of some rows; V stays on a device."""
        X = self.X[rows]
        if self.device is None:
            return _project(self.gp, X, run, whiten, out)
        V = device_rows().features(self.gp, X, self.device, whiten=whiten)
        needed = np.zeros((0, 0)) if self.gp.residual == "projected" else V.cpu().numpy()
        return V, self.gp.residual_variance(X, needed)


def device_rows() -> Any:
    """The torch twin of what follows, imported only where a device is named."""
    from psimil.inference import device_rows

    return device_rows


def _project(gp: SparseGP, X: Array, run: OrderedMap, whiten: bool, out: Array | None) -> tuple[Array, Array]:
    """V (n, M), or K_xz with the column of the mean, and k~ (n,) of X (n, D)."""
    V = np.empty((len(X), gp.size), dtype=X.dtype) if out is None else out
    k, step = np.empty(len(X)), chunk_rows(gp.size, X.dtype)

    def fill(start: int) -> None:
        rows = slice(start, start + step)
        gp.features(X[rows], out=V[rows], whiten=whiten)
        k[rows] = gp.residual_variance(X[rows], V[rows])

    for _ in run(fill, range(0, len(X), step)):
        pass
    return V, k


@dataclass(frozen=True)
class Local:
    """Per instance: latent mean mu, variance s2, theta (Eq. 28) and pi (Eq. 25), each (N,)."""

    mu: Array
    s2: Array
    theta: Array
    pi: Array


@dataclass(frozen=True)
class Statistics:
    """Sums over instances, Eqs. (58) to (60): V' Theta V (M, M), V' kappa (M,), and the data terms of the bound."""

    V_theta_V: Array
    V_kappa: Array
    potential: float
    scale_mixture: float
    bags: float
    entropy: float

    def __add__(self, other: Statistics) -> Statistics:
        """The sums over two sets of bags."""
        return Statistics(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def bound(self, kl: float, log_z: float) -> Bound:
        """L, given the two terms that are not sums over bags."""
        return Bound(kl, self.potential, self.scale_mixture, self.bags, self.entropy, log_z)


def local_pass(
    projection: Projection, posterior: Posterior, problem: Problem, pi: Array | None = None
) -> tuple[Local, Statistics]:
    """Everything that follows from q(v): Eqs. (25) and (28), and the sums behind Eqs. (26) and (27).

    mu_n is Eq. (48), kappa_n = pi_n - 1/2 that of Eqs. (56) and (57), c_n that of Eq. (64).

    Parameters
    ----------
    projection : V and k~ of the training instances.
    posterior : q(v).
    pi : (N,) previous pi, for label posteriors that iterate.
    """
    N, M = len(problem.X), len(posterior.m)
    local = Local(*(np.empty(N) for _ in range(4)))
    gram, V_kappa, terms = np.zeros((M, M)), np.zeros(M), np.zeros(4)
    raw = projection.unwhitened
    whitening = projection.gp.whitening if raw else None
    m, U = (posterior.m, posterior.U) if whitening is None else (whitening @ posterior.m, whitening @ posterior.U)
    with workers() as run:
        for block in problem.blocks:
            V, k = projection.block(block, run)
            if problem.device is None:
                _latent(V, k, m, U, block, local, run)
            else:
                rows = slice(block.start, block.stop)
                local.mu[rows], local.s2[rows] = device_rows().latent(V, m, U)
                local.s2[rows] += k
            terms += _labels_and_theta(problem, block, local, _surplus(projection.gp, problem, block), pi, run)
            _add_statistics(V, problem, block, local, gram, V_kappa, run)
    gram = symmetric(gram)
    if whitening is not None:
        gram, V_kappa = symmetric(whitening.T @ gram @ whitening), whitening.T @ V_kappa
    return local, Statistics(gram, V_kappa, *map(float, terms))


def _latent(V: Array, k: Array, m: Array, U: Array, block: Chunk, local: Local, run: OrderedMap) -> None:
    """mu = V m and s2 = k~ + |V U|^2 of a block, U = R^-T; V may be K_xz where m and U are whitened instead."""
    dtype = V.dtype
    m, U = m.astype(dtype), np.ascontiguousarray(U, dtype=dtype)
    mu, s2 = local.mu[block.start : block.stop], local.s2[block.start : block.stop]
    step = chunk_rows(V.shape[1], dtype)

    def piece(start: int) -> None:
        rows = slice(start, start + step)
        W = _scratch.array("W", V[rows].shape, dtype)
        np.copyto(W, V[rows])
        mu[rows] = W @ m
        multiply_upper(W, U)
        s2[rows] = k[rows] + np.vecdot(W, W)

    for _ in run(piece, range(0, len(V), step)):
        pass


def _surplus(gp: SparseGP, problem: Problem, block: Chunk) -> Array:
    """(n,) 1 - k_nn of a block, which the authors' code has too much in E f^2; 0 for other residuals."""
    if gp.residual != "unit":
        return np.zeros(block.stop - block.start)
    return 1.0 - np.asarray(gp.kernel.diagonal(problem.X[block.start : block.stop]), dtype=np.float64)


def _labels_and_theta(
    problem: Problem, block: Chunk, local: Local, surplus: Array, pi: Array | None, run: OrderedMap
) -> Array:
    """Eqs. (25) and (28) of a block; returns the four data terms of its bound."""
    rule, offsets = RULES[problem.rule], problem.labels.offsets
    parts = min(ELEMENTWISE_PARTS, 1 + (block.stop - block.start) // ELEMENTWISE_ROWS)
    edges = _edges(block.first, block.last, parts)

    def part(i: int) -> Array:
        bags = Chunk(int(edges[i]), int(edges[i + 1]), int(offsets[edges[i]]), int(offsets[edges[i + 1]]))
        rows, w_bags = slice(bags.start, bags.stop), problem.weights[bags.first : bags.last]
        mu = local.mu[rows]
        extra = surplus[bags.start - block.start : bags.stop - block.start]
        c = np.sqrt(np.abs(mu * mu + local.s2[rows] + extra))
        q = rule(mu, problem.chunk_labels(bags), None if pi is None else pi[rows])
        local.theta[rows], local.pi[rows] = problem.density.theta(c), q.pi
        scale_mixture = problem.instance_weights[rows] @ problem.density.log_prob(c)
        return np.array([w_bags @ q.potential, scale_mixture, w_bags @ q.bags, w_bags @ q.entropy])

    return np.asarray(np.sum(list(run(part, range(len(edges) - 1))), axis=0))


def _edges(first: int, last: int, parts: int) -> list[int]:
    """Where up to so many parts of nearly equal length begin and end."""
    return sorted({first + (last - first) * i // parts for i in range(parts + 1)})


def _add_statistics(
    V: Any, problem: Problem, block: Chunk, local: Local, gram: Array, V_kappa: Array, run: OrderedMap
) -> None:
    """Add V' Theta V (upper triangle) and V' kappa of a block."""
    rows = slice(block.start, block.stop)
    theta, kappa = local.theta[rows], local.pi[rows] - 0.5
    if problem.weighted:
        w = problem.instance_weights[rows]
        theta, kappa = w * theta, w * kappa
    if problem.device is not None:
        on_device = device_rows().sums(V, theta, kappa)
        gram += on_device[0]
        V_kappa += on_device[1]
        return
    dtype = V.dtype
    root, kappa = np.sqrt(theta).astype(dtype, copy=False)[:, None], kappa.astype(dtype, copy=False)
    step = chunk_rows(V.shape[1], dtype)
    edges = _edges(0, len(V), min(GRAM_PARTS, 1 + len(V) // GRAM_ROWS))

    def part(i: int) -> tuple[Array, Array]:
        partial, linear = np.zeros(gram.shape, dtype=dtype), np.zeros(len(V_kappa), dtype=dtype)
        for start in range(edges[i], edges[i + 1], step):
            piece = slice(start, min(start + step, edges[i + 1]))
            W = _scratch.array("W", V[piece].shape, dtype)
            np.multiply(V[piece], root[piece], out=W)
            add_gram(partial, W)
            linear += kappa[piece] @ V[piece]
        return partial, linear

    for partial, linear in run(part, range(len(edges) - 1)):
        gram += partial
        V_kappa += linear
