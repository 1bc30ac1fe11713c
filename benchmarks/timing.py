"""Seconds of several pieces of work, measured in turns so that a noisy machine disturbs all alike."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def best_of(work: dict[str, Callable[[], Any]], repeats: int = 15) -> dict[str, float]:
    """The shortest of ``repeats`` interleaved runs of each piece of work, in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.min(values)) for name, values in seconds.items()}


def last_line(**figures: Any) -> None:
    """Print the figures of a benchmark as one JSON line, which ends its output."""
    print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in figures.items()}))
