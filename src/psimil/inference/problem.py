"""The training problem in model coordinates: everything a pass reads, nothing it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.model.densities import Density
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]

CHUNK_BYTES = 3_200_000  # of V in a chunk: what a core works on within its cache; chosen by benchmarks/bench_pass.py


def chunk_rows(columns: int, dtype: Any = np.float64) -> int:
    """Rows of a chunk of V with this many columns.

    Examples
    --------
    >>> chunk_rows(200)
    2000
    """
    return max(CHUNK_BYTES // (columns * int(np.dtype(dtype).itemsize)), 64)


class Chunk(NamedTuple):
    """Whole bags first to last - 1, instances start to stop - 1."""

    first: int
    last: int
    start: int
    stop: int


@dataclass(frozen=True)
class Problem:
    """Features, labels and the model's fixed choices.

    Parameters
    ----------
    X : (N, D) features in model coordinates, bag after bag.
    labels : bag labels, offsets, log H and known instance labels.
    weights : (B,) weight of each bag; weight 2 equals the bag twice.
    density : psi.
    rule : name of the label posterior.
    chunk_rows : instances per chunk, at least (bags stay whole).
    cache : whether V may stay in memory between passes.
    device : torch device that works out the products; None for NumPy.
    """

    X: Array
    labels: Labels
    weights: Array
    density: Density
    rule: str = "exact"
    chunk_rows: int = 2000
    cache: bool = True
    device: str | None = None

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Fixed chunks of whole bags, the same however many threads work on them."""
        offsets = self.labels.offsets
        chunks, first = [], 0
        while first < len(offsets) - 1:
            target = offsets[first] + self.chunk_rows
            last = max(int(np.searchsorted(offsets, target, side="right")) - 1, first + 1)
            chunks.append(Chunk(first, last, int(offsets[first]), int(offsets[last])))
            first = last
        return chunks

    @property
    def blocks(self) -> list[Chunk]:
        """What a pass takes at once: everything when V stays in memory, else chunk by chunk."""
        if not self.cache:
            return self.chunks
        return [Chunk(0, len(self.labels.T), 0, len(self.X))]

    @cached_property
    def keys(self) -> Array:
        """(N,) a number made of each instance's features, the same wherever the instance stands."""
        return np.asarray(self.X @ np.cos(np.arange(1.0, self.X.shape[1] + 1)), dtype=np.float64)

    def chunk_labels(self, chunk: Chunk) -> Labels:
        """The labels of a chunk, with keys where the label posterior breaks ties."""
        labels = self.labels.chunk(chunk.first, chunk.last)
        return replace(labels, keys=self.keys[chunk.start : chunk.stop]) if self.rule == "mean_field" else labels

    @cached_property
    def instance_weights(self) -> Array:
        """(N,) weight of each instance: that of its bag."""
        return self.labels.spread(self.weights)

    @property
    def weighted(self) -> bool:
        """Whether any bag weight differs from 1."""
        return bool((self.weights != 1).any())
