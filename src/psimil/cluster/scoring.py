"""Predictions on a Dask cluster, with the bits of one process: latent moments of instances, and whole predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.cluster.dask_shards import PATIENCE, TIMEOUT, DaskShards
from psimil.compute.numpy_backend import chunk_rows
from psimil.inference.prediction import Prediction
from psimil.inference.shards import SHARD_ROWS, Shard, StreamedShards
from psimil.inference.sparse_gp import Posterior, SparseGP, latent_moments
from psimil.inference.trained import ROWS, TrainedModel
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant

Array = NDArray[Any]


@dataclass(frozen=True)
class LatentTask:
    """Mean and variance of f at the instances of a shard, each (n,)."""

    gp: SparseGP
    posterior: Posterior

    def __call__(self, shard: Shard) -> tuple[Array, Array]:
        """Moments of the shard."""
        return latent_moments(self.gp, self.posterior, shard.X)


def predict_parts(
    model: TrainedModel,
    bags: Bags,
    client: Any,
    *,
    raw: bool = False,
    timeout: float = TIMEOUT,
    patience: float = PATIENCE,
) -> tuple[Array, Array]:
    """Mean and variance (N,) of f at every instance, calibrated unless ``raw``; :func:`predict_bags` goes on.

    Shards end where a chunk of one process ends, so every product has the shape it has there.

    Parameters
    ----------
    model : of a fitted estimator, its ``model_``.
    client : ``distributed.Client``.
    timeout, patience : see :class:`psimil.cluster.dask_shards.DaskShards`.

    Examples
    --------
    >>> from distributed import Client
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=20, seed=1)
    >>> model = VGPMIL(n_inducing=5, max_iter=5, tol=0, random_state=0).fit(bags, y).model_
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     mean, variance = predict_parts(model, bags, client)
    >>> bool((mean == model.latent(bags.X)[0]).all())
    True
    """
    cuts = part_cuts(bags.n_instances, chunk_rows(model.gp.size, model.dtype))
    ranges = [BagRange(i, i + 1, int(cuts[i]), int(cuts[i + 1])) for i in range(len(cuts) - 1)]
    labels = Labels(np.zeros(len(ranges), dtype=np.int64), cuts)
    weights, density = np.ones(len(ranges)), HyperbolicSecant()
    shards = StreamedShards(model.seen(bags).stream, labels, weights, model.scaling, density, dtype=model.dtype)
    spread = DaskShards(shards, client, bags, ranges=ranges, timeout=timeout, patience=patience)
    mean, variance = np.empty(bags.n_instances), np.empty(bags.n_instances)
    for part, moments in zip(ranges, spread.map(LatentTask(model.gp, model.posterior)), strict=True):
        mean[part.rows], variance[part.rows] = moments
    return (mean, variance) if raw else model.calibration.apply(mean, variance)


def predict_bags(
    model: TrainedModel, bags: Bags, client: Any, *, timeout: float = TIMEOUT, patience: float = PATIENCE
) -> Prediction:
    """What ``model.predict`` says, with the same bits. Where that is a mean over draws, parts are whole bags.

    Parameters
    ----------
    model, client, timeout, patience : as of :func:`predict_parts`.
    bags : with D features, without their context.

    Examples
    --------
    >>> from distributed import Client
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=20, seed=1)
    >>> model = VGPMIL(n_inducing=5, labels="chain", max_iter=5, tol=0, random_state=0).fit(bags, y).model_
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     found = predict_bags(model, bags, client)
    >>> bool((found.prob == model.predict(bags).prob).all())
    True
    """
    if not model.by_draws:
        return model.predict(bags, latent=predict_parts(model, bags, client, timeout=timeout, patience=patience))
    seen, task, B = model.seen(bags), model.draw_task(), len(bags)
    labels = Labels(np.zeros(B, dtype=np.int64), seen.offsets, links=model.links(seen))
    rows, density = max(ROWS // len(task.v), 1), HyperbolicSecant()
    shards = StreamedShards(seen.stream, labels, np.ones(B), model.scaling, density, rows=rows, dtype=model.dtype)
    spread = DaskShards(shards, client, bags, timeout=timeout, patience=patience)
    return model.put_together(seen, list(spread.map(task)), task.level)


def part_cuts(n_rows: int, step: int) -> Array:
    """Row numbers at which shards begin and end: whole chunks of ``step`` rows within what one process takes at once.

    Examples
    --------
    >>> part_cuts(40_000, 1000)
    array([    0, 16000, 32000, 40000])
    """
    rows = max(1, SHARD_ROWS // step) * step
    firsts = [start for block in range(0, n_rows, ROWS) for start in range(block, min(block + ROWS, n_rows), rows)]
    return np.array([*firsts, n_rows])
