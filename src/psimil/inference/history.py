"""What a fit has done so far: one row per evaluation of the kernel and per pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psimil.inference.variational import Iterate

Row = dict[str, Any]
Callback = Callable[[Row], Any]


@dataclass
class History:
    """Rows, each told to callbacks when it is added.

    Parameters
    ----------
    callbacks : called with each new row; a true answer asks to stop.
    rows : of an earlier run, after which this one goes on.

    Examples
    --------
    >>> history = History([lambda row: row["elbo"] > -3.0], [])
    >>> history.add("fit", 1, {"elbo": -4.0}), history.add("fit", 2, {"elbo": -2.0})
    (False, True)
    >>> [row["iteration"] for row in history.rows]
    [1, 2]
    """

    callbacks: Sequence[Callback]
    rows: list[Row]

    def __post_init__(self) -> None:
        self.started = time.perf_counter() - (self.rows[-1]["seconds"] if self.rows else 0.0)

    def add(self, stage: str, iteration: int, values: Row) -> bool:
        """Another row; whether a callback asks to stop."""
        row = {"stage": stage, "iteration": iteration, **values, "seconds": time.perf_counter() - self.started}
        self.rows.append(row)
        return any([bool(callback(row)) for callback in self.callbacks])

    def add_kernel(self, stage: str, record: Iterate, **more: Any) -> bool:
        """A row of an evaluation of the kernel, with log p(T) and what else there is to say."""
        return self.add(stage, record.step, {**record.bound.as_dict(), "log_evidence": record.log_evidence, **more})
