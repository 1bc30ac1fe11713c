"""Whole bags in shards: a pass is a map over shards and a sum in their order, however and wherever they are worked out.

In memory there is one shard, whose V is kept from pass to pass. Streaming and minibatches read many, a cluster has
them on its workers; each is a problem of its own, and what is done to it a pure function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, pairwise
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from psimil.compute.backend import Backend
from psimil.compute.numpy_backend import NUMPY
from psimil.foundations.phases import tell
from psimil.model.bag_likelihoods import BagLikelihood, Labels
from psimil.model.bag_ranges import BagRange, split_bags
from psimil.model.chains import ChainLabels
from psimil.model.densities import Density, jensen
from psimil.model.scaling import Scaling
from psimil.model.shared_labels import SharedLabels
from psimil.model.sparse_gp import SparseGP

Array = NDArray[Any]
Result = TypeVar("Result")

MANY = 2048  # instances above which single precision does: what is rounded of one, others even out
SHARD_ROWS = 16_384  # target number of instances per shard: full speed of products, and small enough to read ahead


@dataclass(frozen=True, eq=False)
class Shard:
    """Bags in model coordinates with the model's fixed choices: everything a pass reads, nothing it changes.

    Data in memory are one such shard, which therefore has what :class:`Shards` asks for.

    Parameters
    ----------
    X : (n, D) features in model coordinates, bag after bag.
    labels : bag labels, offsets, log H and known instance labels.
    weights : (B,) weight of each bag; weight 2 equals the bag twice.
    density : psi.
    rule : of the label posterior, for algorithms that have one; None is the exact one.
    backend : works out the products.
    rows : instances that are worked on within the cache of a core, at most.
    keep : whether V stays in memory from pass to pass.
    whole : whether a pass takes all rows at once; otherwise nothing of the size of V is ever in memory.
    single : whether single precision does for what is worked out for every instance and draw, and for V.
    first : number of its first bag among those of the whole data set.
    """

    X: Array
    labels: Labels
    weights: Array
    density: Density
    rule: Any = None
    backend: Backend = NUMPY
    rows: int = 2000
    keep: bool = False
    whole: bool = True
    single: bool = False
    first: int = 0
    kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def ranges(self) -> list[BagRange]:
        """The bags in ranges of at most ``rows`` instances, but for larger bags."""
        return self.ranges_of(BagRange(0, len(self.labels.T), 0, len(self.X)), self.rows)

    def ranges_of(self, block: BagRange, rows: int, ends: Sequence[int] = ()) -> list[BagRange]:
        """The bags of a block in ranges of at most ``rows`` instances, but for larger bags; none goes beyond an end."""
        offsets, cuts = self.labels.offsets, [block.first]
        for end in (*ends, block.last):
            while cuts[-1] < end:
                fits = int(np.searchsorted(offsets, offsets[cuts[-1]] + rows, side="right")) - 1
                cuts.append(min(max(fits, cuts[-1] + 1), end))
        return [BagRange(a, b, int(offsets[a]), int(offsets[b])) for a, b in pairwise(cuts)]

    @property
    def blocks(self) -> list[BagRange]:
        """What a pass takes at once."""
        return [BagRange(0, len(self.labels.T), 0, len(self.X))] if self.whole else self.ranges

    @property
    def precision(self) -> Any:
        """Of what is worked out for every instance and draw."""
        return np.float32 if self.single else np.float64

    def features(self, gp: SparseGP, block: BagRange) -> tuple[Any, Array]:
        """V and k~ of a block; [K_xz, b] for V where that is enough, see :meth:`unwhitened`."""
        rounded = min(self.X.dtype, np.dtype(self.precision))
        if not self.keep:
            X, whiten = self.X[block.rows], not self.unwhitened(gp)
            V = self.backend.features(gp, X, rounded if whiten else X.dtype, whiten=whiten, reuse=True)
            return V, gp.residual_variance(X, V, self.backend.on_host)
        if self.kept.get("gp") is not gp:
            self.kept.pop("V", None)  # before there are two
            V = self.backend.features(gp, self.X, rounded)
            self.kept.update(gp=gp, V=V, k=gp.residual_variance(self.X, V, self.backend.on_host))
        return self.kept["V"][block.rows], self.kept["k"][block.rows]

    def unwhitened(self, gp: SparseGP) -> bool:
        """Whether blocks are [K_xz, b]: where V is not kept, whitening the sums instead saves a triangular product."""
        return not self.keep and gp.sums_can_be_whitened(self.X.dtype)

    def rows_of_V(self, gp: SparseGP, rows: slice | Array) -> tuple[Array, Array]:
        """V (n, M) and k~ (n,) of some instances on the host."""
        if self.keep:
            V, k = self.features(gp, BagRange(0, len(self.labels.T), 0, len(self.X)))
            return self.backend.on_host(V[rows]), k[rows]
        X = self.X[rows]
        V = NUMPY.features(gp, X)
        return V, gp.residual_variance(X, V)

    @cached_property
    def keys(self) -> Array:
        """(n,) a number made of each instance's features, the same wherever the instance stands."""
        return np.asarray(self.X @ np.cos(np.arange(1.0, self.X.shape[1] + 1)), dtype=np.float64)

    @cached_property
    def likelihood(self) -> BagLikelihood:
        """log p(T | f) of the bags."""
        return SharedLabels(self.density) if self.labels.links is None else ChainLabels(self.density)

    @cached_property
    def instance_weights(self) -> Array:
        """(n,) weight of each instance: that of its bag."""
        return self.labels.spread(self.weights)

    @property
    def in_memory(self) -> Shard:
        """Itself."""
        return self

    def labelled(self, labels: Labels) -> Self:
        """The same with other labels of the same bags."""
        found = replace(self, labels=labels)
        found.kept.update(self.kept)
        return found

    def map(self, task: Callable[[Shard], Result], ranges: Iterable[BagRange] | None = None) -> Iterator[Result]:
        """One result."""
        yield task(self)


def prior_log_z(shard: Shard, gp: SparseGP) -> float:
    """Jensen's log Z of the shard's instances, summed."""
    if shard.keep and shard.kept.get("log_z_of") is gp:
        return float(shard.kept["log_z"])
    total = 0.0
    for bags in shard.ranges:
        V, _ = shard.rows_of_V(gp, bags.rows)
        value, _ = jensen(shard.density, gp.prior_variance(shard.X[bags.rows], V))
        total += float(shard.instance_weights[bags.rows] @ value)
    if shard.keep:
        shard.kept.update(log_z_of=gp, log_z=total)
    return total


class Shards(Protocol):
    """A data set that is worked out shard by shard."""

    @property
    def labels(self) -> Labels:
        """Of all bags."""

    @property
    def weights(self) -> Array:
        """(B,) weight of each bag."""

    @property
    def density(self) -> Density:
        """Of the model."""

    @property
    def single(self) -> bool:
        """Whether single precision does for what is worked out for every instance and draw."""

    @property
    def ranges(self) -> Sequence[BagRange]:
        """The bags of each shard."""

    @property
    def in_memory(self) -> Shard | None:
        """All data as one shard; None where only sums over shards can be had."""

    def labelled(self, labels: Labels) -> Self:
        """The same with other labels of the same bags."""

    def map(self, task: Callable[[Shard], Result], ranges: Iterable[BagRange] | None = None) -> Iterator[Result]:
        """The task's results for these shards, or for all, in their order."""


@dataclass(frozen=True, eq=False)
class StreamedShards:
    """Shards that are read one after another, the next one while the last one is worked out.

    Parameters
    ----------
    X : (N, D) features as stored, any array that gives rows for a slice.
    labels, weights : of all bags.
    scaling : to model coordinates.
    density, rule : of the model.
    rows : target number of instances per shard.
    dtype : of the model's features.
    backend : works out the products.
    single : whether single precision does for what is worked out for every instance and draw.
    """

    X: Any
    labels: Labels
    weights: Array
    scaling: Scaling
    density: Density
    rule: Any = None
    rows: int = SHARD_ROWS
    dtype: str = "float64"
    backend: Backend = NUMPY
    single: bool = False

    in_memory = None

    def labelled(self, labels: Labels) -> Self:
        """The same with other labels of the same bags."""
        return replace(self, labels=labels)

    @cached_property
    def ranges(self) -> list[BagRange]:
        """The bags of each shard."""
        return split_bags(self.labels.offsets, self.rows)

    def shard(self, bags: BagRange) -> Shard:
        """One shard, read and scaled."""
        X = self.scaling.apply(np.asarray(self.X[bags.rows]), self.dtype)
        weights = self.weights[bags.first : bags.last]
        labels = self.labels.chunk(bags.first, bags.last)
        how: dict[str, Any] = {"single": self.single, "first": bags.first}
        return Shard(X, labels, weights, self.density, self.rule, self.backend, **how)

    def map(self, task: Callable[[Shard], Result], ranges: Iterable[BagRange] | None = None) -> Iterator[Result]:
        """The task's results in order, each told; reading goes one shard ahead."""
        ranges = list(self.ranges if ranges is None else ranges)
        todo = iter(ranges)
        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(self.shard, bags) for bags in [next(todo, None)] if bags is not None]
            for number in range(len(ranges)):
                shard = waiting.pop().result()
                waiting += [reader.submit(self.shard, bags) for bags in [next(todo, None)] if bags is not None]
                result = task(shard)
                if len(ranges) > 1:
                    tell("parts of the data", number + 1, len(ranges))
                yield result


def epochs(
    shards: Shards, rng: np.random.Generator, done: int = 0
) -> Iterator[tuple[int, Iterator[tuple[BagRange, float]]]]:
    """Passes in minibatches, without end: the number of each, and its batches with their shares of all weight.

    Parameters
    ----------
    shards : each of them is a batch; their order is drawn anew for every pass.
    done : passes of an earlier run.
    """
    ranges, total = list(shards.ranges), float(shards.weights.sum())

    def batches() -> Iterator[tuple[BagRange, float]]:
        for place, batch in enumerate(ranges[i] for i in rng.permutation(len(ranges))):
            yield batch, float(shards.weights[batch.first : batch.last].sum()) / total
            tell("minibatches", place + 1, len(ranges))

    return ((number, batches()) for number in count(done + 1))
