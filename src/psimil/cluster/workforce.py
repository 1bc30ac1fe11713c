"""The workers of a Dask cluster: how to reach them, who may be given work, and the jobs that are on their way.

A bounded number of jobs is in flight, results come in the order of the shards, and late ones are sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from psimil.foundations.errors import ClusterFailure, InputError, NumericalFailure
from psimil.foundations.extras import needed

AHEAD = 4  # shards on their way or waiting for an earlier one, per thread of the cluster
ANSWER_WITHIN = 10  # seconds for a scheduler that is asked for the first time
SUSPECTED = 300.0  # seconds during which a worker that did not answer gets no work; Dask itself gives it up then
SCHEDULER_LOST = "the Dask scheduler does not answer any more. Start it again, and the fit from its checkpoint."
NO_WORKERS = "the Dask cluster has no workers. Start some, and the fit again."


def connect(address: str, security: Any = None) -> Any:
    """A client of the Dask scheduler at an address such as ``tcp://host:8786`` or ``tls://host:8786``.

    Parameters
    ----------
    security : ``distributed.Security`` with the TLS files; None for those of Dask's own configuration.

    Raises
    ------
    InputError
        When the address is no text, no scheduler answers within 10 seconds, or Dask is not installed.

    Examples
    --------
    >>> connect("nowhere:name")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: no Dask scheduler answers at nowhere:name: ...
    """
    if not isinstance(address, str) or not address.strip():
        raise InputError(
            f"address must be that of a Dask scheduler, got {address!r}. Write e.g. connect('tcp://127.0.0.1:8786')."
        )
    with needed("a cluster needs Dask", "distributed"):
        from distributed import Client
    try:
        return Client(  # type: ignore[no-untyped-call]
            address, timeout=ANSWER_WITHIN, security=security, set_as_default=False
        )
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: {_in_short(error)}.") from error


def _in_short(error: BaseException) -> str:
    """The first line of an error's message, without its full stop."""
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")


@contextmanager
def _answering() -> Iterator[None]:
    """Within the block a scheduler that is gone gives a :class:`ClusterFailure`."""
    from distributed.client import ClosedClientError

    try:
        yield
    except (OSError, TimeoutError, CancelledError, ClosedClientError) as error:
        raise ClusterFailure(SCHEDULER_LOST) from error


class Workforce:
    """A client, with a memory of how long jobs take and of the workers that did not answer.

    Parameters
    ----------
    client : ``distributed.Client``.
    patience : seconds to wait for a scheduler or for workers that are gone.
    timeout : seconds that a job may take, at least; more when jobs take long.
    """

    def __init__(self, client: Any, patience: float, timeout: float) -> None:
        if not hasattr(client, "scatter") or getattr(client, "asynchronous", False):
            raise InputError(
                f"client must be a distributed.Client that is not asynchronous, got {type(client).__name__}."
            )
        self.client, self.patience, self.timeout = client, patience, timeout
        self.seconds: deque[float] = deque(maxlen=200)
        self._suspects: dict[str, float] = {}

    @property
    def limit(self) -> float:
        """Seconds after which a job is overdue: the timeout, or ten times what jobs took so far."""
        return max(self.timeout, 10.0 * median(self.seconds)) if self.seconds else self.timeout

    def seats(self) -> list[str]:
        """The address of every worker once per thread, without suspects if others are left; waits for the first."""
        until = time.monotonic() + self.patience
        while True:
            running = self.client.status == "running"
            threads: dict[str, int] = dict(self.client.nthreads()) if running else {}
            if threads:
                trusted = [worker for worker in threads if not self.suspected(worker)] or threads
                return [worker for worker in sorted(trusted) for _ in range(threads[worker])]
            if self.client.status in ("closed", "closing") or time.monotonic() > until:
                raise ClusterFailure(NO_WORKERS if running else SCHEDULER_LOST)
            time.sleep(0.1)

    def suspect(self, worker: str) -> None:
        """Give a worker nothing for a while, if there are others."""
        self._suspects[worker] = time.monotonic() + SUSPECTED

    def suspect_holders(self, key: str) -> None:
        """Suspect the workers that have this task before them, or its result."""
        for table in (self.client.processing(), self.client.has_what()):
            for worker in [str(worker) for worker, keys in table.items() if key in keys]:
                self.suspect(worker)

    def suspected(self, worker: str) -> bool:
        """Whether the worker did not answer a while ago."""
        return self._suspects.get(worker, 0.0) > time.monotonic()


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
            with _answering():
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
                raise ClusterFailure(f"{job.name} failed on the cluster, at last with: {_in_short(error)}.") from error
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
