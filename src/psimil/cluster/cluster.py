"""A Dask cluster as the rounds see it: who works, what was sent out, and whether anybody still answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import contextmanager
from statistics import median
from typing import Any

from psimil.foundations.errors import ClusterFailure, InputError
from psimil.foundations.extras import install_command

ANSWER_WITHIN = 10  # seconds for a scheduler that is asked for the first time
SUSPECTED = 300.0  # seconds during which a worker that did not answer is left alone; Dask itself gives up then
UNSENT = 60.0  # seconds after such an event during which data go with every task, for workers may not pass them on
SCHEDULER_LOST = "the Dask scheduler does not answer any more. Start it again, and the fit from its checkpoint."


def connect(address: str) -> Any:
    """A client of the Dask scheduler at an address such as ``tcp://host:8786``.

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
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(f"a cluster needs Dask. Install it with: {install_command('distributed')}") from error
    try:
        return Client(address, timeout=ANSWER_WITHIN, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise InputError(f"no Dask scheduler answers at {address}: {reason}.") from error


@contextmanager
def answering() -> Iterator[None]:
    """Within the block a scheduler that is gone gives a :class:`ClusterFailure`."""
    try:
        yield
    except (OSError, TimeoutError, Late, CancelledError) as error:
        raise ClusterFailure(SCHEDULER_LOST) from error
    except Exception as error:
        if type(error).__name__ != "ClosedClientError":
            raise
        raise ClusterFailure(SCHEDULER_LOST) from error


class Cluster:
    """A client with a memory: how long tasks take, and which workers did not answer.

    Parameters
    ----------
    client : ``distributed.Client``.
    patience : seconds to wait for a scheduler or for workers that are gone.
    timeout : seconds that a task may take, at least; more when tasks take long.
    """

    def __init__(self, client: Any, patience: float, timeout: float) -> None:
        if not hasattr(client, "scatter") or getattr(client, "asynchronous", False):
            raise InputError(
                f"client must be a distributed.Client that is not asynchronous, got {type(client).__name__}."
            )
        self.client, self.patience, self.timeout = client, patience, timeout
        self.seconds: deque[float] = deque(maxlen=200)
        self._suspects: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._helper = ThreadPoolExecutor(1, thread_name_prefix="psimil-scatter")
        self._sends_after = 0.0

    @property
    def limit(self) -> float:
        """Seconds after which a task is overdue: the timeout, or ten times what tasks took so far."""
        return max(self.timeout, 10.0 * median(self.seconds)) if self.seconds else self.timeout

    def check(self) -> None:
        """Raise when the scheduler has been gone for longer than the patience."""
        status = str(self.client.status)
        if status in ("closed", "closing"):
            raise ClusterFailure(SCHEDULER_LOST)
        self._waiting(status != "running", SCHEDULER_LOST)

    def threads(self) -> dict[str, int]:
        """Threads of every worker; waits for the first worker."""
        while True:
            self.check()
            if self.client.status == "running":
                with answering():
                    found: dict[str, int] = dict(self.client.nthreads())
                self._waiting(not found, "the Dask cluster has no workers. Start some, and the fit again.")
                if found:
                    return found
            time.sleep(0.1)

    def _waiting(self, missing: bool, message: str) -> None:
        """Raise the message once something has been missing for longer than the patience."""
        if not missing:
            self._since.pop(message, None)
        elif time.monotonic() - self._since.setdefault(message, time.monotonic()) > self.patience:
            raise ClusterFailure(message)

    def suspect(self, worker: str) -> None:
        """Give a worker nothing for a while if there are others, and rely on nothing that it holds."""
        self._sends_after = time.monotonic() + UNSENT
        if worker:
            self._suspects[worker] = time.monotonic() + SUSPECTED

    @property
    def sends(self) -> bool:
        """Whether data that workers hold can be relied on."""
        return time.monotonic() >= self._sends_after

    def trusted(self, workers: Iterable[str], without: set[str]) -> list[str]:
        """The workers that may be asked, in order; all of them when none is left."""
        now, known = time.monotonic(), sorted(workers)
        return [w for w in known if w not in without and self._suspects.get(w, 0.0) < now] or known

    def worker_of(self, key: str) -> str:
        """The worker that has a task before it, "" when that is not known."""
        with answering():
            processing = self.client.processing()
        return next((str(worker) for worker, keys in processing.items() if key in keys), "")

    def sent(self, value: Any, *, broadcast: bool = False) -> Any:
        """The value on one worker or on all, as a future; the value itself while a worker holds that up."""
        if not self.sends:
            return value
        self.check()
        asked = self._helper.submit(self.client.scatter, value, broadcast=broadcast, hash=False)
        try:
            return asked.result(timeout=self.limit)
        except Exception:  # whatever it is, the value can go with every task instead
            self.check()
            self._sends_after = time.monotonic() + UNSENT
            if not asked.done():  # the helper is stuck with it
                self._helper = ThreadPoolExecutor(1, thread_name_prefix="psimil-scatter")
            return value

    def submit(self, function: Callable[..., Any], *arguments: Any, key: str, workers: list[str] | None) -> Any:
        """A future of the function's result, on one of the workers if possible."""
        with answering():
            return self.client.submit(
                function,
                *arguments,
                key=key,
                pure=False,
                workers=workers,
                allow_other_workers=workers is not None,
            )
