"""The shards of a data set on a Dask cluster: workers do the tasks, this process adds up what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Self, TypeVar

from psimil.cluster.worker import StoredRows, received, run_shard, store_fingerprint
from psimil.cluster.workforce import Dispatch, ShardJob, Workforce
from psimil.foundations.phases import tell
from psimil.inference.shards import Shard, StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange
from psimil.model.bags import Bags
from psimil.model.context import RowsInContext

Result = TypeVar("Result")

RETRIES, TIMEOUT, PATIENCE = 3, 30.0, 60.0
ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # rows go with a task only after a loss


class DaskShards:
    """The shards of a data set, worked out by the workers of a Dask cluster.

    Every shard is a pure task, so on like machines its bits do not depend on who works it out, and sums are added here,
    in the order of the shards: neither the number of workers nor what happens to them changes a result.

    Parameters
    ----------
    shards : the data as one process sees them.
    client : ``distributed.Client``.
    bags : whose rows the shards are, without their context; workers read those of a store themselves, under the same
        path.
    ranges : bags and rows of each shard; by default those of ``shards``.
    retries : how often Dask tries a task again that failed, and how often one without an answer is sent again.
    timeout : seconds after which a task is sent to another worker, or ten times what tasks took if that is more.
    patience : seconds to wait for a scheduler or for workers that are gone.
    """

    def __init__(
        self,
        shards: StreamedShards,
        client: Any,
        bags: Bags | None = None,
        *,
        ranges: list[BagRange] | None = None,
        retries: int = RETRIES,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        from psimil.store import StoredBags

        self._see(shards)
        self.retries = retries
        self.ranges = shards.ranges if ranges is None else ranges
        self.workforce = Workforce(client, patience, timeout)
        self.store: tuple[str, str] | None = None  # path and fingerprint
        if isinstance(bags, StoredBags):
            path = str(bags.path.resolve())
            self.store = (path, store_fingerprint(path))
        self._numbers = {bags: number for number, bags in enumerate(self.ranges)}

    in_memory = None  # only sums over shards can be had

    def labelled(self, labels: Labels) -> Self:
        """The same with other labels of the same bags."""
        self._see(self.shards.labelled(labels))
        return self

    def _see(self, shards: StreamedShards) -> None:
        """Take the data as one process sees them; nothing of them has been sent yet."""
        self.shards, self.labels, self.weights = shards, shards.labels, shards.weights
        self.density, self.single = shards.density, shards.single
        self.scattered: dict[BagRange, tuple[str, Any]] = {}  # the worker that was sent a shard, and the future of it

    def map(self, task: Callable[[Shard], Result], ranges: Iterable[BagRange] | None = None) -> Iterator[Result]:
        """The task's results for these shards, or for all, in their order."""
        jobs, tasks = [], dict[str, Any]()
        for bags in self.ranges if ranges is None else ranges:
            number = self._numbers[bags]
            submit = partial(self._submit, bags, task, tasks)
            jobs.append(ShardJob(number, f"shard {number + 1} of {len(self.ranges)}", submit))
        for done, result in enumerate(Dispatch(self.workforce, self.retries).results(jobs), start=1):
            if len(jobs) > 1:
                tell("parts of the data", done, len(jobs))
            yield result

    def _submit(self, bags: BagRange, task: Any, tasks: dict[str, Any], worker: str, again: bool) -> Any:
        """The future of one shard's result; each worker is told the task once."""
        import dask

        submit = partial(self.workforce.client.submit, pure=False, workers=[worker], allow_other_workers=True)
        with dask.config.set(ANY_SIZE):
            if not again and worker not in tasks:
                tasks[worker] = submit(received, task)
            shard = self._shard(bags) if again or self.store else self._scatter(bags, worker)
            return submit(run_shard, shard, task if again else tasks[worker], self.density, retries=self.retries)

    def _scatter(self, bags: BagRange, worker: str) -> Any:
        """A future of the shard on that worker, sent once; the shard itself where the worker does not take it."""
        home, future = self.scattered.get(bags, ("", None))
        if home == worker and future.status == "finished":
            return future
        shard, client = self._shard(bags), self.workforce.client
        if self.workforce.suspected(worker):
            return shard
        try:
            limit = self.workforce.limit
            future = client.sync(client.scatter, shard, workers=[worker], hash=False, callback_timeout=limit)
        except Exception:  # it died or hangs: the shard can go with the task instead
            self.workforce.suspect(worker)
            return shard
        self.scattered[bags] = (worker, future)
        return future

    def _shard(self, bags: BagRange) -> Shard:
        mine = self.shards
        if self.store is None:
            return mine.shard(bags)
        context = isinstance(mine.X, RowsInContext)
        rows: Any = StoredRows(*self.store, bags.start, bags.stop, mine.scaling, mine.dtype, context)
        weights = mine.weights[bags.first : bags.last]
        labels = mine.labels.chunk(bags.first, bags.last)
        return Shard(rows, labels, weights, mine.density, mine.rule, single=mine.single, first=bags.first)
