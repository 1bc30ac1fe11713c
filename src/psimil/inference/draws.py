"""Draws of v, by which expectations over q(v) are worked out: shared by all bags, or other ones for groups of them.

Where there are many bags, groups of them have draws of their own: what chance does to one, it undoes to another. And
the values f = V v of an instance are stretched to the variance that q(v) gives them. So few draws for each are enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.compute.backend import Backend
from psimil.foundations.linalg import stretch
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange
from psimil.model.sparse_gp import Posterior

Array = NDArray[Any]

DRAWED, FEWEST, MOST = 2.0**21, 16, 512  # instances times draws, about; and the fewest and the most draws
BLOCKS = 32  # of draws, at most, for as many groups of bags
CACHED = {8: 1 << 14, 4: 1 << 16}  # instances times draws at a time, by bytes: a dozen arrays are kept in a cache


class Draws(NamedTuple):
    """Draws of a vector of M numbers, other ones for every group of bags.

    Parameters
    ----------
    blocks : (K, M, S) draws; the first group of bags has the first block, the group after the last block the first.
    group : number of bags in a group.
    root : (M, M) upper triangular root of the covariance that they are draws of; None where that does not matter.
    """

    blocks: Array
    group: int = 1 << 62
    root: Array | None = None

    @classmethod
    def shared(cls, v: Array) -> Draws:
        """Draws (M, S) that all bags share."""
        return cls(v[None])

    @classmethod
    def for_bags(cls, size: int, labels: Labels, seed: int, fewer: int = 1) -> Draws:
        """Standard normal ones for a data set: as many as are cheap next to the products, in antithetic pairs.

        Up to 512 that all bags share; where that would be dear, fewer, and groups with their own.

        Parameters
        ----------
        fewer : times fewer of them are wanted.

        Examples
        --------
        >>> one, many = (Labels(np.ones(n), np.arange(n + 1)) for n in (100, 10**5))
        >>> Draws.for_bags(3, one, seed=0).blocks.shape, Draws.for_bags(3, many, seed=0).blocks.shape
        ((1, 3, 512), (25, 3, 16))
        """
        instances, bags = int(labels.offsets[-1]), len(labels.T)
        count = 2 ** int(np.log2(max(DRAWED / instances, 1.0)))
        count = int(np.clip(min(count, MOST) // fewer, FEWEST, MOST))
        if DRAWED / instances >= MOST:
            return cls.shared(antithetic_draws(size, count, seed))
        group = max(1, round(CACHED[4] / count * bags / instances))
        seeds = np.random.SeedSequence(seed).generate_state(min(BLOCKS, -(-bags // group)))
        blocks = np.stack([antithetic_draws(size, count, int(one)) for one in seeds])
        return cls(blocks, group)

    def of(self, posterior: Posterior) -> Draws:
        """Draws m + U noise of q(v), where these are standard normal noise.

        Examples
        --------
        >>> Draws.shared(np.array([[1.0, -1.0]])).of(Posterior.prior(1)).blocks
        array([[[ 1., -1.]]])
        """
        return self._replace(blocks=posterior.m[:, None] + posterior.U @ self.blocks, root=posterior.U)

    def times(self, A: Array) -> Draws:
        """A v for every draw v, A upper triangular."""
        return self._replace(blocks=A @ self.blocks, root=None if self.root is None else A @ self.root)

    def latent(self, backend: Backend, V: Any, bag: int) -> tuple[Array, Array]:
        """Means (n,) of f = V v of a bag's block of draws, and deviations (S, n) from them with the variance of f."""
        v = self.blocks[self.block(bag)]
        deviations = backend.products(V, v)
        mean = deviations.mean(axis=0)
        deviations -= mean
        if self.root is not None:
            own = np.einsum("sn,sn->n", deviations, deviations) / len(deviations)
            deviations *= stretch(own, backend.row_squares(V, v[:, 0], self.root)[1]).astype(deviations.dtype)
        return mean, deviations

    def excess(self, deviations: Array, w: Array, gradient: Array) -> Array:
        """(S,) what each draw adds to a log-likelihood by squares that are larger than their mean, which add nothing.

        All draws together cannot err in these squares, for they are stretched; so this is no error of theirs.

        Parameters
        ----------
        deviations, gradient : (S, n) of latent values, and the gradient there of instances with weights w (n,).
        """
        if self.root is None:
            return np.zeros(len(deviations))
        squares = np.square(deviations)
        slope = np.einsum("sn,sn->n", deviations, gradient) / np.maximum(
            squares.sum(axis=0), np.finfo(squares.dtype).tiny
        )
        found = squares @ (0.5 * w * slope).astype(squares.dtype)
        return np.asarray(found - found.mean(), dtype=np.float64)

    def block(self, bag: int) -> int:
        """Which block a bag has."""
        return (bag // self.group) % len(self.blocks)

    def ranges(self, shard: Shard, block: BagRange) -> list[BagRange]:
        """The bags of a block of a shard in ranges of one group each, whose values stay in the cache of a core."""
        rows, first = max(CACHED[np.dtype(shard.precision).itemsize] // self.blocks.shape[2], 1), shard.first
        cuts = range(self.group - (first + block.first) % self.group + block.first, block.last, self.group)
        return shard.ranges_of(block, rows, list(cuts) if len(self.blocks) > 1 else [])
