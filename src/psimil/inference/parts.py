"""A data set in parts of whole bags: each part is worked out alone, and sums are added in the order of the parts.

Streaming, minibatches and a cluster differ only in who works out a part and when. What is done to a part is one of
the tasks below, each a pure function of the part, so results do not depend on who did it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from psimil.inference.problem import Chunk, Problem
from psimil.model.densities import Density
from psimil.model.label_posteriors import Labels
from psimil.model.scaling import Scaling

Array = NDArray[Any]
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

PART_ROWS = 16_384  # instances of a part, about: large enough for products at full speed, small enough to read ahead


class Task(Protocol[Result_co]):
    """What is done to one part."""

    def __call__(self, problem: Problem) -> Result_co:
        """The part's share of a result."""


class Parts(Protocol):
    """A data set that is worked out part by part."""

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
    def chunks(self) -> Sequence[Chunk]:
        """The parts."""

    def with_density(self, density: Density) -> Parts:
        """The same data under another density."""

    def map(self, task: Task[Result], chunks: Iterable[Chunk] | None = None) -> Iterator[Result]:
        """The task's results for these parts, or for all, in their order."""


def split_bags(offsets: Array, rows: int) -> list[Chunk]:
    """Parts of about ``rows`` instances, each of whole bags, the same for every way of running.

    Examples
    --------
    >>> split_bags(np.array([0, 3, 4, 8]), 4)
    [Chunk(first=0, last=2, start=0, stop=4), Chunk(first=2, last=3, start=4, stop=8)]
    """
    targets = np.arange(rows, offsets[-1], rows)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, targets), [len(offsets) - 1]]))
    return [Chunk(int(a), int(b), int(offsets[a]), int(offsets[b])) for a, b in pairwise(cuts)]


@dataclass(frozen=True, eq=False)
class StreamedParts:
    """Parts that are read one after another, the next one while the last one is worked out.

    Parameters
    ----------
    X : (N, D) features as stored, any array that gives rows for a slice.
    labels, weights : of all bags.
    scaling : to model coordinates.
    density, rule : of the model.
    rows : instances of a part, about.
    dtype : of the model's features.
    device : torch device that works out the products; None for NumPy.
    """

    X: Any
    labels: Labels
    weights: Array
    scaling: Scaling
    density: Density
    rule: str = "exact"
    rows: int = PART_ROWS
    dtype: str = "float64"
    device: str | None = None

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The parts."""
        return split_bags(self.labels.offsets, self.rows)

    def with_density(self, density: Density) -> StreamedParts:
        """The same data under another density."""
        return replace(self, density=density)

    def problem(self, chunk: Chunk) -> Problem:
        """One part as a problem of its own."""
        X = self.scaling.apply(np.asarray(self.X[chunk.start : chunk.stop]), self.dtype)
        weights = self.weights[chunk.first : chunk.last]
        labels = self.labels.chunk(chunk.first, chunk.last)
        return Problem(X, labels, weights, self.density, self.rule, device=self.device)

    def map(self, task: Callable[[Problem], Result], chunks: Iterable[Chunk] | None = None) -> Iterator[Result]:
        """The task's results in order; reading goes one part ahead."""
        todo = iter(self.chunks if chunks is None else chunks)
        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(self.problem, chunk) for chunk in [next(todo, None)] if chunk is not None]
            while waiting:
                problem = waiting.pop().result()
                waiting += [reader.submit(self.problem, chunk) for chunk in [next(todo, None)] if chunk is not None]
                yield task(problem)
