"""Predictions on a Dask cluster, with the bits of one process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from psimil.cluster.dask_shards import DaskShards
from psimil.foundations.arrays import Array
from psimil.inference.shards import Shard, StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange, split_bags
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant
from psimil.predictive.drawn import Drawn, Latent
from psimil.predictive.predicted_ranges import RANGE_ROWS, layout_of
from psimil.predictive.prediction import Prediction
from psimil.predictive.trained import TrainedModel

Result = TypeVar("Result")


def _part(model: TrainedModel, shard: Shard) -> Drawn | Latent:
    """What the model says of the bags of a shard, of whose labels only the links are looked at."""
    return model.part(shard.X, shard.labels.offsets, shard.labels.links)


def predict_bags(model: TrainedModel, bags: Bags, client: Any) -> Prediction:
    """What ``model.predict`` says, with the same bits; :func:`predict_ranges` for more bags than memory can hold.

    Parameters
    ----------
    model : of a fitted estimator, its ``model_``.
    bags : with D features, without their context.
    client : ``distributed.Client``.

    Examples
    --------
    >>> from distributed import Client
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=20, seed=1)
    >>> model = VGPMIL(n_inducing=5, labels="chain", max_iter=5, tol=0, random_state=0).fit(bags, y).model_
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     found = predict_bags(model, bags, client)
    >>> bool((found.prob == model.predict(bags).prob).all())
    True
    """
    (prediction,) = predict_ranges(model, bags, client, bags.n_instances)
    return prediction


def predict_ranges(model: TrainedModel, bags: Bags, client: Any, rows: int = RANGE_ROWS) -> Iterator[Prediction]:
    """What :func:`psimil.predictive.predicted_ranges.predict_ranges` says, with the same bits, one range after another.

    Workers go on with later ranges meanwhile.

    Parameters
    ----------
    model, bags, client : as of :func:`predict_bags`.
    rows : target number of instances of a range.

    Examples
    --------
    >>> from distributed import Client
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=20, bag_size=(5, 5), seed=1)
    >>> model = VGPMIL(n_inducing=5, max_iter=5, tol=0, random_state=0).fit(bags, y).model_
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     [len(part.prob) for part in predict_ranges(model, bags, client, 40)]
    [8, 8, 4]
    """
    ranges, rng = split_bags(bags.offsets, rows), np.random.default_rng(model.seed)
    seen, B = model.seen(bags), len(bags)
    labels = Labels(np.zeros(B, dtype=np.int64), seen.offsets, links=model.links(seen))
    shards = StreamedShards(seen.stream, labels, np.ones(B), model.scaling, HyperbolicSecant(), dtype=model.dtype)
    parts = [part for some in ranges for part in parts_of(some, bags.offsets, model.instances_at_once())]
    spread = DaskShards(shards, client, bags, ranges=parts)
    for some, found in _by_range(ranges, parts, spread.map(partial(_part, model))):
        yield model.put_together(layout_of(bags, some), found, rng=rng)


def _by_range(
    ranges: list[BagRange], parts: list[BagRange], results: Iterator[Result]
) -> Iterator[tuple[BagRange, list[Result]]]:
    """Each range with the results of its parts."""
    ends, of_range = iter(ranges), list[Result]()
    some = next(ends)
    for part, result in zip(parts, results, strict=True):
        of_range.append(result)
        if part.stop == some.stop:
            yield some, of_range
            some, of_range = next(ends, some), []


def parts_of(some: BagRange, offsets: Array, rows: int) -> list[BagRange]:
    """The parts of ``rows`` instances, about, that one process makes of a range of bags with offsets (B + 1,).

    Examples
    --------
    >>> parts_of(BagRange(1, 3, 3, 8), np.array([0, 3, 4, 8]), 1)
    [BagRange(first=1, last=2, start=3, stop=4), BagRange(first=2, last=3, start=4, stop=8)]
    """
    own, here = offsets[some.first : some.last + 1] - some.start, (some.first, some.first, some.start, some.start)
    return [BagRange(*map(sum, zip(part, here, strict=True))) for part in split_bags(own, rows)]
