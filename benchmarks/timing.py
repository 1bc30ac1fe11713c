"""Seconds of several pieces of work, measured in turns so that a noisy machine disturbs all alike."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
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
    """Print the figures of a benchmark as one JSON line, which ends its output.

    Where PSIMIL_RECORD names a file, they are also added to it, with the command and the commit.
    """
    rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in figures.items()}
    if "PSIMIL_RECORD" in os.environ:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        command = f"benchmarks/{Path(sys.argv[0]).name}"
        record = {"command": command, "commit": commit.stdout.strip(), "figures": rounded}
        with Path(os.environ["PSIMIL_RECORD"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    print(json.dumps(rounded))
