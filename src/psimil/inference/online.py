"""Bags that arrive over time: one step of q(v) for each batch, and scores before it has learned them.

How q(v) takes the bags in is the business of the algorithm that found it; every bag counts once. Scaling, inducing
points, kernel and coupling of neighbours stay those of the first batch. Calibration and thresholds come from the latest
bags as they were predicted before the model learned them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.bags import Bags
from psimil.predictive.aggregates import joined
from psimil.predictive.calibration import LatentBags
from psimil.predictive.thresholds import taught
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

REMEMBERED = 2000  # latest bags on which calibration and thresholds rest
ENOUGH = 20  # weight of bags of each label below which those of the first batch stay


@dataclass(frozen=True)
class Online:
    """A model that goes on learning: weight of the bags seen, steps taken, the latest bags before they were learned."""

    model: TrainedModel
    weight: float
    steps: int = 0
    unseen: LatentBags | None = None

    def learn(self, bags: Bags, supervision: Supervision, options: Options) -> Online:
        """The model after one step on these bags."""
        model, weights = self.model, supervision.weights
        bags = model.seen(bags)
        links = model.links(bags)
        how: dict[str, Any] = {"links": links, "sharing": model.sharing}
        labels = Labels(supervision.T, bags.offsets, np.log(options.H), supervision.known, **how)
        X = model.scaling.apply(bags.X, model.dtype)
        shard = Shard(X, labels, weights, options.density, options.rule, options.backend)
        with single_threaded_blas():
            found = model.latent_bags(X, bags.offsets, links, raw=True)
            q = options.algorithm(options, model.seed).more(model.gp, model.posterior, shard, self.weight, self.steps)
        latent, dependence = (found.mean, found.variance), found.dependence
        new = LatentBags(*latent, bags.offsets, supervision.T, weights, dependence=dependence).weighing()
        unseen = _joined(self.unseen, new)
        model = replace(model, posterior=q, chains=None)
        if min(unseen.weight_of(0), unseen.weight_of(1)) >= ENOUGH:
            model = taught(model, replace(unseen, aggregate=options.aggregate), options)
        return Online(model, self.weight + float(weights.sum()), self.steps + 1, unseen)


def _joined(before: LatentBags | None, new: LatentBags) -> LatentBags:
    """The latest bags of both."""
    if before is None:
        return new
    parts = (before, new)
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    first = max(0, len(sizes) - REMEMBERED)
    start = int(sizes[:first].sum())
    dependence = None
    if before.dependence is not None and new.dependence is not None:
        dependence = joined([before.dependence, new.dependence]).taken(np.arange(first, len(sizes)))
    return LatentBags(
        np.concatenate([part.mean for part in parts])[start:],
        np.concatenate([part.variance for part in parts])[start:],
        np.concatenate([[0], np.cumsum(sizes[first:])]),
        np.concatenate([part.T for part in parts])[first:],
        np.concatenate([part.weights for part in parts])[first:],
        new.aggregate,
        dependence,
    )
