"""What a fit leaves after every pass, whatever posterior it makes, and who decides when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any, Protocol

from numpy.typing import NDArray

from psimil.inference.posterior import Posterior
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]

SETTLING = 5  # passes that a bound takes to settle after the last step of the kernel, at least


class Record(Protocol):
    """One iteration of a fit, whatever posterior it makes: q(v), its bound and the kernel that it belongs to."""

    @property
    def gp(self) -> SparseGP:
        """Kernel with inducing points."""

    @property
    def posterior(self) -> Posterior:
        """q(v) at which the pass was made."""

    @property
    def next_posterior(self) -> Posterior:
        """q(v) after it."""

    @property
    def bound(self) -> Any:
        """L by its terms: ``total`` and ``as_dict()``."""

    @property
    def change(self) -> float | None:
        """Nats by which q(v) would still move; None where only the bound tells that it has settled."""

    @property
    def local(self) -> Sites | None:
        """What was found for every instance, where all data are in memory."""

    @property
    def step(self) -> int:
        """1, 2, ..."""

    @property
    def kernel_moved(self) -> bool:
        """Whether the kernel is still to change."""


class Sites(Protocol):
    """What a bag says about its latent values: gradient and curvature, see :mod:`psimil.model.bag_likelihoods`."""

    @property
    def pi(self) -> Array:
        """(n,) P(y = 1)."""

    @property
    def diagonal(self) -> Array:
        """(n,) d of the curvature diag(d) + sign r r'."""

    @property
    def vector(self) -> Array:
        """(n,) r, bag after bag."""

    def gradient_at(self, mu: Array, rows: slice) -> Array:
        """Gradient of some instances at their latent means mu."""


@dataclass
class Convergence:
    """Stop when q(v) would move by less than ``tol`` nats, or a pass raised the bound by less than that per bag.

    The first where a record tells it, the second elsewhere, and neither while a kernel step is to come.
    """

    tol: float
    bags: int
    previous: float | None = None
    converged: bool = False
    left: list[float] = field(default_factory=list)  # what is compared with tol, of passes since the kernel moved last
    moved: bool = False

    def __call__(self, record: Record) -> bool:
        """Whether to stop after this record."""
        bound, left = record.bound.total, record.change
        if left is None and self.previous is not None:
            left = (bound - self.previous) / self.bags
        if record.kernel_moved or self.moved:
            self.left.clear()
        self.moved, self.previous = record.kernel_moved, bound
        if left is not None:
            self.left.append(left)
            if not record.kernel_moved:
                self.converged = abs(left) <= self.tol
        return self.converged

    def note(self, record: Record) -> str:
        """What is left, for a line of progress; empty after the first pass of a bound."""
        if not self.left:
            return ""
        return f"bound {self.left[-1]:+.1g} per bag" if record.change is None else f"{self.left[-1]:.1g} nats to go"

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
            return min(step + ceil(log(last / self.tol) / rate), most)
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
