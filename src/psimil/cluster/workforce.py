"""The workers of a Dask cluster: how to reach them, who may be given work, and whether anybody still answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from statistics import median
from typing import Any

from psimil.foundations.errors import ClusterFailure, InputError
from psimil.foundations.extras import install_command

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
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(f"a cluster needs Dask. Install it with: {install_command('distributed')}") from error
    try:
        return Client(  # type: ignore[no-untyped-call]
            address, timeout=ANSWER_WITHIN, security=security, set_as_default=False
        )
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: {in_short(error)}.") from error


def in_short(error: BaseException) -> str:
    r"""The first line of an error's message, without its full stop.

    Examples
    --------
    >>> in_short(ValueError("no such file.\nTry again."))
    'no such file'
    """
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")


@contextmanager
def answering() -> Iterator[None]:
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
