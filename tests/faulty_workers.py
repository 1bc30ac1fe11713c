"""What a worker must not do, done on purpose; workers of a test cluster import this module."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from psimil.cluster.checks import checksum
from psimil.cluster.worker import run_part
from psimil.foundations.errors import NumericalFailure


def first_time(folder, name):
    """Whether nobody came here before, in any process."""
    try:
        (Path(folder) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def spoiled(answer, kind):
    """The answer as a faulty worker would give it; all but "damaged" with the checksum that belongs to it."""
    statistics, log_z = answer.result
    if kind == "stale":
        return replace(answer, round=answer.round - 1)
    if kind == "other part":
        return replace(answer, part=answer.part + 1)
    if kind == "damaged":
        statistics.V_kappa[0] += 1e-9
        return replace(answer, result=(statistics, log_z))
    if kind == "nothing":
        return None
    values = {
        "nan": (replace(statistics, V_kappa=np.full_like(statistics.V_kappa, np.nan)), log_z),
        "inf": (statistics, np.inf),
        "shape": (replace(statistics, V_kappa=statistics.V_kappa[:-1]), log_z),
        "text": (statistics, "0"),
    }[kind]
    return replace(answer, result=values, checksum=checksum(values))


def garbage(part, order, number, round, *, folder, kind, always=False):
    """Nonsense for every second part, once or always."""
    answer = run_part(part, order, number, round)
    if number % 2 == 1 and (always or first_time(folder, f"{round}-{number}")):
        return spoiled(answer, kind)
    return answer


def sleepy(part, order, number, round, *, folder, number_of_sleeper, usual, longest=600.0):
    """An answer that takes a while; to one part, the first time, of a worker that hangs until it is woken."""
    time.sleep(usual)
    if number == number_of_sleeper and first_time(folder, "slept"):
        until = time.monotonic() + longest
        while not (Path(folder) / "awake").exists() and time.monotonic() < until:
            time.sleep(0.05)
    return run_part(part, order, number, round)


def raising(part, order, number, round, *, folder, numerical=False):
    """An error, once or, if it is numerical, always."""
    if numerical:
        raise NumericalFailure("matrix is not positive definite")
    if number == 1 and first_time(folder, "raised"):
        raise OSError("the disk is gone")
    return run_part(part, order, number, round)


def suicidal(part, order, number, round, *, folder, times):
    """A worker killed in the midst of a task, some times."""
    if number == 1 and round >= 2 and any(first_time(folder, f"{time}") for time in range(times)):
        os.kill(os.getpid(), signal.SIGKILL)
    return run_part(part, order, number, round)
