"""Bags that arrive over time: one natural-gradient step of q(v) for each batch, and scores before it has learned them.

With W bags seen before and w new ones, the sums behind q(v) grow by (W + w) / W, as if the bags seen so far spoke for
all, and q(v) moves towards the sums of the new bags by a step of :func:`psimil.inference.minibatches.step_size` with
share w / (W + w). At that share every bag counts once. Scaling, inducing points and kernel stay those of the first
batch. Calibration and thresholds come from the latest bags as they were predicted before the model learned them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.calibration import LatentBags
from psimil.inference.minibatches import natural_step, step_size
from psimil.inference.options import Options
from psimil.inference.passes import run_pass
from psimil.inference.posterior import Posterior, from_natural
from psimil.inference.preparation import Supervision
from psimil.inference.shards import Shard
from psimil.inference.thresholds import taught
from psimil.inference.trained import TrainedModel
from psimil.model.bags import Bags
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]

REMEMBERED = 2000  # latest bags on which calibration and thresholds rest
ENOUGH = 20  # bags of each label below which those of the first batch stay


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
        labels = Labels(supervision.T, bags.offsets, np.log(options.H), supervision.known)
        X = model.scaling.apply(bags.X, model.dtype)
        shard = Shard(X, labels, weights, options.density, options.rule, options.backend)
        with single_threaded_blas():
            local, statistics = run_pass(shard, model.gp, model.posterior)
        unseen = _joined(self.unseen, LatentBags(local.mu, local.s2, bags.offsets, supervision.T, weights))
        total = self.weight + float(weights.sum())
        share = float(weights.sum()) / total
        q = grown(model.posterior, total / self.weight)
        rho = step_size(self.steps, share, len(X) / model.gp.size)
        q = natural_step(q, statistics.scaled(1.0 / share), rho)
        model = replace(model, posterior=q)
        if min(unseen.T.sum(), len(unseen.T) - unseen.T.sum()) >= ENOUGH:
            aggregate = "noisy_or" if options.aggregate == "auto" else options.aggregate
            model = taught(model, replace(unseen, aggregate=aggregate), options)
        return Online(model, total, self.steps + 1, unseen)


def grown(posterior: Posterior, factor: float) -> Posterior:
    """q(v) after ``factor`` times as much of the same data.

    Examples
    --------
    >>> grown(Posterior(np.array([0.5]), np.array([[np.sqrt(2.0)]])), 3.0).m  # 1 = 2 x 0.5 becomes 3 = 4 x 0.75
    array([0.75])
    """
    identity = np.eye(len(posterior.m))
    precision = posterior.R @ posterior.R.T
    return from_natural(identity + factor * (precision - identity), factor * (precision @ posterior.m))


def _joined(before: LatentBags | None, new: LatentBags) -> LatentBags:
    """The latest bags of both."""
    if before is None:
        return new
    parts = (before, new)
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    first = max(0, len(sizes) - REMEMBERED)
    start = int(sizes[:first].sum())
    return LatentBags(
        np.concatenate([part.mean for part in parts])[start:],
        np.concatenate([part.variance for part in parts])[start:],
        np.concatenate([[0], np.cumsum(sizes[first:])]),
        np.concatenate([part.T for part in parts])[first:],
        np.concatenate([part.weights for part in parts])[first:],
        new.aggregate,
    )
