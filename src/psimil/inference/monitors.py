"""Monitors observe the records of a fit and answer whether to stop. They compute nothing on the data themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from psimil.inference.fitting import Pass, Record


@dataclass
class Convergence:
    """Stop when a pass raised the bound by less than ``tol`` nats per bag and no kernel step is to come."""

    tol: float
    bags: int
    previous: float | None = None
    converged: bool = False

    def __call__(self, record: Pass) -> bool:
        """Whether to stop after this record."""
        bound = record.bound.total
        if self.previous is not None and not record.kernel_moved:
            self.converged = abs(bound - self.previous) <= self.tol * self.bags
        self.previous = bound
        return self.converged


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
