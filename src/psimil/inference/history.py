"""What a fit has done so far: one row per evaluation of the kernel and per pass; and who stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

from psimil.inference.algorithm import Record
from psimil.inference.variational import Iterate

Row = dict[str, Any]
Callback = Callable[[Row], Any]

SETTLING = 5  # passes that a bound takes to settle after the last step of the kernel, at least


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


@dataclass
class Convergence:
    """Stop when q(v) would move by less than ``tol`` nats per direction, or a pass raises the bound by less per bag.

    The first where a record tells it, the second elsewhere, and neither while a kernel step is to come. Minibatches go
    by the bound, too: between them q(v) never comes to rest.
    """

    tol: float
    bags: int
    by_bound: bool = False
    previous: float | None = None
    converged: bool = False
    left: list[float] = field(default_factory=list)  # what is compared with tol, of passes since the kernel moved last
    moved: bool = False

    def __call__(self, record: Record) -> bool:
        """Whether to stop after this record."""
        bound, left = record.bound.total, None if self.by_bound else record.change
        if left is None and self.previous is not None:
            left = (bound - self.previous) / self.bags
        if record.unfinished or self.moved:
            self.left.clear()
        self.moved, self.previous = record.unfinished, bound
        if left is not None:
            self.left.append(left)
            if not record.unfinished:
                self.converged = abs(left) <= self.tol
        return self.converged

    def note(self, record: Record) -> str:
        """What is left, for a line of progress; empty after the first pass of a bound."""
        if not self.left:
            return ""
        by_bound = self.by_bound or record.change is None
        return f"bound {self.left[-1]:+.1g} per bag" if by_bound else f"{self.left[-1]:.1g} nats to go"

    def expected(self, step: int, moves: int | None, most: int) -> int | None:
        """Passes until it settles if what is left goes on falling as it did; None before that can be told.

        Parameters
        ----------
        step : passes so far.
        moves : the pass after which the kernel moves for the last time; None where it stays.
        most : passes after which the fit ends in any case.
        """
        if self.tol == 0:
            return most
        if moves is not None and step <= moves:
            return min(moves + SETTLING, most)
        first, last = (abs(self.left[0]), abs(self.left[-1])) if self.left else (0.0, 0.0)
        if len(self.left) > 2 and self.tol < last < first:
            rate = log(first / last) / (len(self.left) - 1)
            to_go = ceil(log(last / self.tol) / rate)
            if moves is not None or to_go <= 2 * step:  # what falls so slowly may come to rest before
                return min(step + to_go, most)
        return None if moves is None else min(max(step + 1, moves + SETTLING), most)


@dataclass
class EarlyStopping:
    """Stop after ``patience`` records without a better score, and remember the best record.

    Parameters
    ----------
    score : record -> number, higher is better.
    tolerance : a score is better when it is higher by more than this.
    """

    score: Callable[[Record], float]
    patience: int = 10
    tolerance: float = 0.0
    best: Record | None = None
    best_score: float = float("-inf")
    scores: list[float] = field(default_factory=list)
    waited: int = 0

    def __call__(self, record: Record) -> bool:
        """Whether to stop after this record."""
        value = self.score(record)
        if self.best is None or value > self.best_score + self.tolerance:
            self.best, self.best_score, self.waited = record, value, 0
        else:
            self.waited += 1
        self.scores.append(value)
        return self.waited >= self.patience
