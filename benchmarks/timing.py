"""Seconds of several pieces of work, measured in turns so that a noisy machine disturbs all alike."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

BURST = 4  # runs in a row, as in a fit; the first ones of a burst pay for what the piece before left behind


def typical(work: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """The median run of each piece of work over ``rounds`` bursts taken in turns, in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            for _ in range(BURST):
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def last_line(**figures: Any) -> None:
    """Print the figures of a benchmark as one JSON line, which ends its output."""
    print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in figures.items()}))
