"""One execution: what came of it, how long it computed, and how much memory it took."""

from __future__ import annotations

import resource
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from target import Target

MAX_SECONDS = 2.0  # of the processor, as a busy machine makes everything slow
MAX_GROWTH = 256 << 20
ROOM = 3 << 30  # address space beyond which there is a MemoryError: a bomb must not take the machine down
KEPT = 3  # inputs of each kind of failure


@dataclass(frozen=True)
class Execution:
    """What one input led to.

    Parameters
    ----------
    outcome : the word of the target, or the error with the file and line that raised it.
    failed : whether that is anything but success or an ``InputError``.
    seconds : of the processor.
    growth : bytes by which the largest size of the process grew.
    """

    outcome: str
    failed: bool
    seconds: float
    growth: int


@contextmanager
def limited(room: int = ROOM) -> Iterator[None]:
    """Address space of this process limited to so much more than it has now, where the system can do that."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")
    if statm.exists():
        now = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def execute(target: Target, data: bytes) -> Execution:
    """Run a target on one input."""
    from psimil.foundations.errors import InputError

    failed = False
    size, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome = target.run(data)
        except InputError as error:
            outcome = _name(error)
            said = str(error)
            if failed := "/tmp" in said or "/dev/shm" in said:
                outcome += " names a path"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome, failed = _name(error), True
    seconds = time.process_time() - start
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size) << 10
    if seconds > MAX_SECONDS or growth > MAX_GROWTH:
        outcome, failed = f"{'slow' if seconds > MAX_SECONDS else 'large'}: {outcome}", True
    return Execution(outcome, failed, seconds, growth)


def _name(error: BaseException) -> str:
    """Kind of the error, the last two lines of psimil that it passed, and the line of the error that it stands for."""
    behind = error.__cause__ or error.__context__
    places = _places(error)[-2:] + ([] if behind is None else _places(behind)[-1:])
    words = f" ({error})" if isinstance(error, AssertionError) and str(error) else ""
    return f"{type(error).__name__} {' '.join(places)}{words}"


def _places(error: BaseException) -> list[str]:
    """Lines that an error passed: those of psimil or, when there are none, the last."""
    steps = traceback.walk_tb(error.__traceback__)
    lines = [(frame.f_code.co_filename, line) for frame, line in steps]
    ours = [line for line in lines if "/psimil/" in line[0]] or lines[-1:]
    return [f"{file.rsplit('/', 1)[-1]}:{line}" for file, line in ours]


@dataclass
class Tally:
    """What many executions led to."""

    executions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: int = 0
    failures: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, data: bytes, execution: Execution) -> bool:
        """Count an execution; whether its outcome is new."""
        self.executions += 1
        self.outcomes[execution.outcome] += 1
        self.slowest = max(self.slowest, execution.seconds)
        self.largest = max(self.largest, execution.growth)
        if execution.failed:
            found = self.failures.setdefault(execution.outcome, [])
            found.append(data)
            found[:] = sorted(set(found), key=lambda kept: (len(kept), kept))[:KEPT]
        return self.outcomes[execution.outcome] == 1

    def summary(self) -> dict[str, Any]:
        """Counts for a line of JSON."""
        return {
            "executions": self.executions,
            "outcomes": dict(self.outcomes.most_common()),
            "slowest_seconds": round(self.slowest, 4),
            "largest_growth_bytes": self.largest,
            "failures": {name: self.outcomes[name] for name in self.failures},
        }
