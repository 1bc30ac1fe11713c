"""What a worker must not do, done on purpose; workers of a test cluster import this module."""

import os
import signal
import time
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from psimil.foundations.errors import NumericalFailure


def first_time(folder, name):
    """Whether nobody came here before, in any process."""
    try:
        (Path(folder) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def turn(folder):
    """How many tasks came here before, in any process."""
    return next(number for number in count() if first_time(folder, f"task-{number}"))


@dataclass(frozen=True)
class FaultyTask:
    """A task before which, or to whose result, something happens on the worker."""

    task: Any
    before: Any = None
    after: Any = None

    def __call__(self, problem):
        if self.before is not None:
            self.before()
        result = self.task(problem)
        return result if self.after is None else self.after(result)


class Disturbed:
    """Shards whose tasks are faulty from some call of ``map`` on."""

    def __init__(self, shards, *, since=1, **faults):
        self._shards, self._faults, self._calls = shards, faults, count(1)
        self._since = since

    def __getattr__(self, name):
        return getattr(self._shards, name)

    def map(self, task, chunks=None):
        if next(self._calls) < self._since:
            return self._shards.map(task, chunks)
        return self._shards.map(FaultyTask(task, **self._faults), chunks)


@dataclass(frozen=True)
class Sleep:
    """Every task takes a while; one of them, the first time, hangs until it is woken."""

    folder: Any
    usual: float
    sleeper: int
    longest: float = 600.0

    def __call__(self):
        time.sleep(self.usual)
        if turn(self.folder) == self.sleeper:
            (Path(self.folder) / "slept").touch()
            until = time.monotonic() + self.longest
            while not (Path(self.folder) / "awake").exists() and time.monotonic() < until:
                time.sleep(0.05)


@dataclass(frozen=True)
class Raise:
    """An error, once or, if it is numerical, always."""

    folder: Any
    numerical: bool = False

    def __call__(self):
        if self.numerical:
            raise NumericalFailure("matrix is not positive definite")
        if first_time(self.folder, "raised"):
            raise OSError("the disk is gone")


@dataclass(frozen=True)
class Signal:
    """A worker killed or stopped in the midst of a task, some times; its process id is left behind."""

    folder: Any
    times: int = 1
    number: int = signal.SIGKILL

    def __call__(self):
        for name in range(self.times):
            if first_time(self.folder, f"signal-{name}"):
                (Path(self.folder) / f"signal-{name}").write_text(str(os.getpid()))
                os.kill(os.getpid(), self.number)
                return


def not_finite(result):
    """The statistics of a pass with a NaN."""
    statistics, *rest = result
    return (replace(statistics, V_theta_V=np.full_like(statistics.V_theta_V, np.nan)), *rest)
