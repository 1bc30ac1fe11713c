"""The exact posterior of v, log p(T | V v) - |v|^2 / 2, as sampling asks for it: a step is a map over shards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.hamiltonian import LogPosterior
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard, Shards
from psimil.model.bag_ranges import BagRange
from psimil.model.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class GradientTask:
    """Log-likelihoods (S,) of draws v (M, S), and their gradients by v, (M, S): what sampling asks of a shard."""

    gp: SparseGP
    v: Array

    def __call__(self, shard: Shard) -> tuple[Array, Array]:
        """Sums over the shard."""
        A = self.gp.whitening if shard.unwhitened(self.gp) else None
        v = self.v if A is None else A @ self.v
        value, gradient = np.zeros(v.shape[1]), np.zeros_like(v)
        for bags in shard.blocks:
            V, _ = shard.features(self.gp, bags)
            ranges = Draws.shared(v).ranges(shard, bags)
            for share, slope in shard.backend.map(partial(_gradients, shard, V, bags.start, v), ranges):
                value += share
                gradient += slope
        return value, gradient if A is None else A.T @ gradient


def _gradients(shard: Shard, V: Any, start: int, v: Array, bags: BagRange) -> tuple[Array, Array]:
    V = V[bags.start - start : bags.stop - start]
    found = shard.likelihood.derivatives(shard.backend.products(V, v), shard.labels.chunk(bags.first, bags.last))
    weighted = found.gradient * shard.instance_weights[bags.rows]
    return found.value @ shard.weights[bags.first : bags.last], shard.backend.transposed_products(V, weighted)


def log_posterior(shards: Shards, gp: SparseGP) -> LogPosterior:
    """log p(T | V v) - |v|^2 / 2 and its gradient as a function of v (M, S): (S,) and (M, S)."""

    def at(v: Array) -> tuple[Array, Array]:
        value, gradient = -0.5 * np.square(v).sum(axis=0), -v
        for share, slope in shards.map(GradientTask(gp, v)):
            value, gradient = value + share, gradient + slope
        return value, gradient

    return at
