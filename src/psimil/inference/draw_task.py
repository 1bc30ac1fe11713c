"""What draws of v say of some bags: the task that predictions from draws map over their parts, wherever those are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from psimil.compute.numpy_backend import NUMPY
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.shards import Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.predictive.aggregates import stretch
from psimil.predictive.drawn import Drawn, from_draws
from psimil.predictive.moments import Calibration
from psimil.predictive.novelty import Novelty, reverted, widened

Array = NDArray[Any]


@dataclass(frozen=True)
class DrawTask:
    """Bags from draws v (S, M), with latent values calibrated and those of novel instances drawn to the prior.

    Parameters
    ----------
    prior_mean : the learned constant mean.
    level : mass of the intervals.
    seed : of the noise that widens what draws of v say of novel instances.
    """

    gp: SparseGP
    v: Array
    calibration: Calibration
    novelty: Novelty | None
    prior_mean: float
    aggregate: str
    level: float
    seed: int

    def __call__(self, shard: Shard) -> Drawn:
        """Of the bags of a shard, of whose labels only the links are looked at."""
        return self.of(shard.X, shard.labels.offsets, shard.labels.links)

    def of(self, X: Array, offsets: Array, links: Array | None) -> Drawn:
        """Of bags with instances X (n, D) in model coordinates, their own offsets, and J (n,) between neighbours."""
        f = NUMPY.products(self.gp.features(X), self.v.T)
        mean, variance = f.mean(axis=0), f.var(axis=0)
        latent, novelty = self.calibration.apply(mean, variance), None
        if self.novelty is not None:
            novelty = self.novelty.of(X, self.gp.Z)
            latent = reverted(latent, (self.prior_mean, self.gp.full_variance(X)), novelty)
        df = widened(f - mean, variance, latent[1], antithetic_draws(1, len(self.v), self.seed)[0])
        f = latent[0] + stretch(df.var(axis=0), latent[1]) * df
        return from_draws(f, offsets, self.aggregate, self.level, links)._replace(novelty=novelty)
