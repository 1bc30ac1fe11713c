"""Monitors observe the records of a fit: they answer whether to stop, and tell how far it has come."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from psimil.inference import cross_fit, kernel_learning
from psimil.inference.ascent import Pass, Schedule
from psimil.inference.options import Options
from psimil.inference.phases import PASSES, REFITS, RIVALS, THRESHOLDS, tell, tell_plan

SETTLING = 5  # passes that a bound takes to settle after the last step of the kernel, at least
CLIMB = 3.0 * (Schedule().last + SETTLING)  # steps of the kernel between passes make them three times as long
REST = 2.0 * SETTLING



@dataclass
class Convergence:
    """Stop when a pass raised the bound by less than ``tol`` nats per bag and no kernel step is to come."""

    tol: float
    bags: int
    previous: float | None = None
    converged: bool = False
    rises: list[float] = field(default_factory=list)  # nats per bag, of passes since the kernel moved last
    moved: bool = False

    def __call__(self, record: Pass) -> bool:
        """Whether to stop after this record."""
        bound = record.bound.total
        if record.kernel_moved or self.moved:
            self.rises.clear()
        self.moved = record.kernel_moved
        if self.previous is not None:
            self.rises.append((bound - self.previous) / self.bags)
        if self.previous is not None and not record.kernel_moved:
            self.converged = abs(bound - self.previous) <= self.tol * self.bags
        self.previous = bound
        return self.converged

    def expected(self, step: int, moves: int | None, most: int) -> int | None:
        """Passes until the bound settles if its rise goes on falling as it did; None before that can be told.

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
        first, last = (abs(self.rises[0]), abs(self.rises[-1])) if self.rises else (0.0, 0.0)
        if len(self.rises) > 2 and self.tol < last < first:
            rate = math.log(first / last) / (len(self.rises) - 1)
            return min(step + math.ceil(math.log(last / self.tol) / rate), most)
        return None if moves is None else min(max(step + 1, moves + SETTLING), most)


@dataclass
class EarlyStopping:
    """Stop after ``patience`` records without a better score, and remember the best record.

    Parameters
    ----------
    score : record -> number, higher is better.
    tolerance : a score is better when it is higher by more than this.
    """

    score: Callable[[Pass], float]
    patience: int = 10
    tolerance: float = 0.0
    best: Pass | None = None
    best_score: float = float("-inf")
    scores: list[float] = field(default_factory=list)
    waited: int = 0

    def __call__(self, record: Pass) -> bool:
        """Whether to stop after this record."""
        value = self.score(record)
        if self.best is None or value > self.best_score + self.tolerance:
            self.best, self.best_score, self.waited = record, value, 0
        else:
            self.waited += 1
        self.scores.append(value)
        return self.waited >= self.patience


def tell_phases(options: Options, *, taught_first: bool, moves: bool, guarded: bool, refitted: bool) -> None:
    """Tell the phases that a fit is to go through, each with the passes that it is worth.

    Parameters
    ----------
    taught_first : the kernel is learned in passes of its own.
    moves : the kernel is learned at all.
    guarded, refitted : other kernels are tried, and bags held out by refits.
    """
    plan = {PASSES["kernel"]: CLIMB} if taught_first else {}
    plan[PASSES["fit"]] = CLIMB if moves and not taught_first else REST
    if guarded or options.hyperparameters == "loo":
        plan |= {RIVALS: 4.0 * kernel_learning.RIVAL_PASSES, PASSES["loo"]: REST}
    if refitted:
        plan[REFITS] = float(cross_fit.FOLDS * cross_fit.PASSES)
    tell_plan(plan | {THRESHOLDS: REST})


def tell_pass(stage: str, record: Pass, convergence: Convergence, options: Options, moves: int | None) -> None:
    """Tell that a pass is done, how the bound moved, and how many passes there may be in all.

    Parameters
    ----------
    moves : the pass after which the kernel moves for the last time; None where it stays.
    """
    most = max(options.max_iter, 1)
    of = None if options.early_stopping else convergence.expected(record.step, moves, most)
    notes = [f"at most {most}"] if of is None else []
    notes += [f"bound {rise:+.1g} per bag" for rise in convergence.rises[-1:]]
    tell(PASSES[stage], record.step, of, ", ".join(notes))
