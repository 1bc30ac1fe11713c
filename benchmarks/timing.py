"""Seconds of several pieces of work, measured in turns so that a noisy machine disturbs all alike."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

BURST, WARM = (
    12,
    4,
)  # runs in a row, as in a fit; the first ones pay for what the piece before left in caches and threads


def typical(
    work: dict[str, Callable[[], Any]],
    rounds: int = 3,
    inside: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, float]:
    """The median run of each piece of work over ``rounds`` bursts taken in turns, in seconds.

    The first piece runs ``inside`` a context that is entered once per burst, as a fit enters it once.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for place, (name, run) in enumerate(work.items()):
            with inside() if place == 0 else nullcontext():
                for turn in range(BURST):
                    start = time.perf_counter()
                    run()
                    if turn >= WARM:
                        seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def last_line(**figures: Any) -> None:
    """Print the figures of a benchmark as one JSON line, which ends its output."""
    print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in figures.items()}))
