"""What an estimator says while it fits, when ``verbose`` asks for it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psimil.foundations.phases import INDUCING, JUDGING, LEARNING, PASSES, THRESHOLDS, Plan, Step, following

SILENCE = 10.0  # seconds after which a phase speaks again
BEGINNINGS = (INDUCING, *JUDGING.values(), LEARNING, THRESHOLDS)

_log = logging.getLogger("psimil")


def say(line: str) -> None:
    """One line to the logger "psimil" at level INFO; to stdout where nobody has set up logging to hear it.

    Examples
    --------
    >>> say("pass 1")
    pass 1
    """
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info(line)
        return
    record = _log.makeRecord(_log.name, logging.INFO, __file__, 0, line, (), None)
    logging.StreamHandler(sys.stdout).handle(record)


def say_pass(row: dict[str, Any]) -> None:
    """One line for a pass, from its row of the history.

    Examples
    --------
    >>> say_pass({"stage": "fit", "iteration": 1, "elbo": -61.25, "seconds": 0.5})
    fit, pass 1: bound -61.25 after 0.50 s
    """
    say(f"{row['stage']}, pass {row['iteration']}: bound {row['elbo']:.6g} after {row['seconds']:.2f} s")


@contextmanager
def aloud() -> Iterator[None]:
    """Within the block phases are said: each when it begins, and now and then while it lasts.

    Examples
    --------
    >>> from psimil.foundations.phases import tell
    >>> with aloud():
    ...     tell("thresholds", 0)
    thresholds
    """
    with following(_Voice().hear):
        yield


class _Voice:
    """Says the phases of one fit; its passes have lines of their own."""

    def __init__(self) -> None:
        self.phase, self.spoke = "", time.perf_counter()

    def hear(self, told: Step | Plan) -> None:
        if isinstance(told, Plan):
            return
        now = time.perf_counter()
        begins = told.phase in BEGINNINGS and told.phase != self.phase
        if told.phase in PASSES.values():
            self.spoke = now
        elif begins or now - self.spoke > SILENCE:
            self.spoke = now
            far = f": {told.done} of {told.of}" if told.of and told.done else f": {told.done}" if told.done else ""
            say(told.phase + far)
        if told.phase in BEGINNINGS:
            self.phase = told.phase
