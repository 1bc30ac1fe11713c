"""One task for many shards: a bounded number in flight, results in the order of the shards, late ones sent again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from psimil.cluster.workforce import Workforce, answering, in_short
from psimil.foundations.errors import ClusterFailure, NumericalFailure

AHEAD = 4  # shards on their way or waiting for an earlier one, per thread of the cluster


@dataclass(eq=False)
class ShardJob:
    """The task of one shard.

    Parameters
    ----------
    number : of the shard in the data set; chooses its worker.
    name : for messages.
    submit : sends it to a worker, and with True relies on nothing that was sent before; the future of its result and
        of the seconds that it took.
    futures : those that may still bring the result.
    sent : how often it was sent.
    due : time on the monotonic clock when it goes to another worker.
    """

    number: int
    name: str
    submit: Callable[[str, bool], Any]
    futures: list[Any] = field(default_factory=list)
    sent: int = 0
    due: float = 0.0

    def cancel(self) -> None:
        """Give up what still runs."""
        for future in self.futures:
            future.release()
        self.futures.clear()


class Dispatch:
    """Jobs on their way.

    Dask runs a job again that failed or whose worker died. What it does not do is done here: a job whose rows were lost
    with the only worker that held them, or that is overdue because its worker hangs, is sent once more, and the first
    answer counts.

    Parameters
    ----------
    workforce : who works.
    retries : how often an overdue job is sent again before the fit is given up.
    """

    def __init__(self, workforce: Workforce, retries: int) -> None:
        self.workforce, self.retries = workforce, retries
        self._pending: dict[str, ShardJob] = {}  # by key of the future

    def results(self, jobs: list[ShardJob]) -> Iterator[Any]:
        """One result per job, in their order."""
        todo, ready = deque(jobs), dict[ShardJob, Any]()
        try:
            with answering():
                self._look()
                for job in jobs:
                    while job not in ready:
                        while todo and len(self._pending) + len(ready) < AHEAD * len(self._seats):
                            self._send(todo.popleft())
                        ready |= self._arrived()
                    yield ready.pop(job)
        finally:
            for job in self._pending.values():
                job.cancel()

    def _send(self, job: ShardJob) -> None:
        future = job.submit(self._seats[(job.number + job.sent) % len(self._seats)], job.sent > 0)
        job.due = time.monotonic() + self.workforce.limit * 2**job.sent
        job.sent += 1
        job.futures.append(future)
        self._pending[future.key] = job
        self._answers.add(future)

    def _arrived(self) -> dict[ShardJob, Any]:
        """The next result, with its job; nothing if none came for a while, or if the job goes on."""
        try:
            future, result = next(self._answers)
        except (TimeoutError, StopIteration):
            self._look()
            return {}
        job = self._pending.pop(future.key, None)
        if job is None:  # cancelled
            return {}
        job.futures.remove(future)
        if future.status == "finished" and not isinstance(result, CancelledError):
            self.workforce.seconds.append(result[1])
            for late in job.futures:
                del self._pending[late.key]
            job.cancel()
            return {job: result[0]}
        if not job.futures:
            error = future.exception() if future.status == "error" else None
            if isinstance(error, NumericalFailure):
                raise error
            if error is not None:  # however often Dask tried
                raise ClusterFailure(f"{job.name} failed on the cluster, at last with: {in_short(error)}.") from error
            self._seats = self.workforce.seats()
            self._send(job)  # it was lost
        return {}

    def _look(self) -> None:
        """Whether the cluster is there, and which jobs are overdue."""
        from distributed import as_completed

        jobs = set(self._pending.values())
        futures = [future for job in jobs for future in job.futures]
        overdue = [job for job in jobs if time.monotonic() > job.due]
        for job in overdue:
            if job.sent > self.retries:
                raise ClusterFailure(f"{job.name} got no answer from the cluster, sent {job.sent} times.")
            self.workforce.suspect_holders(job.futures[-1].key)
        self._seats = self.workforce.seats()
        every = {"loop": self.workforce.client.loop, "timeout": self.workforce.limit / 10}
        self._answers: Any = as_completed(futures, with_results=True, raise_errors=False, **every)  # type: ignore[no-untyped-call]
        for job in overdue:
            self._send(job)
