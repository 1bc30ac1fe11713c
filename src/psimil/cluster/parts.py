"""Parts on a Dask cluster: workers do the tasks, this process adds up what they give in the order of the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, Self, TypeVar

from numpy.typing import NDArray

from psimil.cluster.cluster import Cluster
from psimil.cluster.round import Round
from psimil.cluster.worker import Order, Part, StoredRows, run_part, store_fingerprint
from psimil.inference.parts import StreamedParts
from psimil.inference.problem import Chunk, Problem
from psimil.model.bags import Bags
from psimil.model.densities import Density
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]
Result = TypeVar("Result")

RETRIES, TIMEOUT, PATIENCE = 3, 30.0, 60.0


@dataclass(frozen=True, eq=False)
class DaskParts:
    """The parts of a data set, worked out by the workers of a Dask cluster.

    Every part is a pure task, so on like machines its bits do not depend on who works it out, and sums are added here,
    in the order of the parts: neither the number of workers nor what happens to them changes a result. An answer
    counts when it belongs to the round and the part, has the right shapes, is finite and arrives as it was sent;
    otherwise the part is asked for again, of another worker if there is one.

    Parameters
    ----------
    parts : the data as one process sees them.
    cluster : who works.
    store : absolute path and fingerprint of the store that the rows come from; None sends the rows to the workers.
    retries : further attempts for a part, before the fit is given up.
    run : what a worker does.
    """

    parts: StreamedParts
    cluster: Cluster
    store: tuple[str, str] | None = None
    retries: int = RETRIES
    run: Callable[..., Any] = run_part
    held: dict[Chunk, Any] = field(default_factory=dict)
    rounds: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    def of(
        cls,
        parts: StreamedParts,
        client: Any,
        bags: Bags | None = None,
        *,
        retries: int = RETRIES,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        run: Callable[..., Any] = run_part,
    ) -> Self:
        """The same parts on the cluster of a client.

        Parameters
        ----------
        client : ``distributed.Client``.
        bags : whose rows the parts are; workers read those of a store themselves, under the same path.
        timeout : seconds after which a part is asked for again, or ten times what parts took so far if that is more.
        patience : seconds to wait for a scheduler or for workers that are gone.
        """
        from psimil.store import StoredBags

        store = None
        if isinstance(bags, StoredBags):
            path = str(bags.path.resolve())
            store = (path, store_fingerprint(path))
        return cls(parts, Cluster(client, patience, timeout), store, retries, run)

    @property
    def labels(self) -> Labels:
        """Of all bags."""
        return self.parts.labels

    @property
    def weights(self) -> Array:
        """(B,) weight of each bag."""
        return self.parts.weights

    @property
    def density(self) -> Density:
        """Of the model."""
        return self.parts.density

    @property
    def chunks(self) -> list[Chunk]:
        """The parts."""
        return self.parts.chunks

    def with_density(self, density: Density) -> DaskParts:
        """The same data, where they are, under another density."""
        return replace(self, parts=self.parts.with_density(density))

    def map(self, task: Callable[[Problem], Result], chunks: Iterable[Chunk] | None = None) -> Iterator[Result]:
        """The task's results for these parts, or for all, in their order."""
        todo = list(self.chunks if chunks is None else chunks)
        numbers = [self._numbers[chunk] for chunk in todo]
        turn = Round(
            self.cluster,
            self.run,
            Order(task, self.density),
            next(self.rounds),
            self._part,
            sticky=self.store is not None,
            retries=self.retries,
        )
        yield from turn.answers(todo, numbers, len(self.chunks))

    @cached_property
    def _numbers(self) -> dict[Chunk, int]:
        return {chunk: number for number, chunk in enumerate(self.chunks)}

    def _part(self, chunk: Chunk, fresh: bool) -> Any:
        """A part as it goes to a worker: a future of what was sent before, or the part itself."""
        held = self.held.get(chunk)
        fresh = fresh or not self.cluster.sends
        if not fresh and held is not None and held.status == "finished":
            return held
        part = self._built(chunk)
        if fresh:
            return part
        sent = self.cluster.sent(part)
        if sent is not part:
            self.held[chunk] = sent
        return sent

    def _built(self, chunk: Chunk) -> Part:
        mine = self.parts
        if self.store is None:
            found = mine.problem(chunk)
            return Part(found.X, found.labels, found.weights, mine.rule)
        rows = StoredRows(*self.store, chunk.start, chunk.stop, mine.scaling, mine.dtype)
        weights = mine.weights[chunk.first : chunk.last]
        return Part(rows, mine.labels.chunk(chunk.first, chunk.last), weights, mine.rule)
