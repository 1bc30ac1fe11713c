"""The paper's algorithm: the augmented posterior in closed-form passes, plugged into training in place of its own.

Labels and scale mixture have factors beside q(v), which are q(y) and q(omega): a pass updates them, and then q(v)
from sums over the data. The kernel is learned before the passes, or moves between them by the paper's objective.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from psimil.foundations.arrays import Array
from psimil.inference.algorithm import Record
from psimil.inference.options import Options
from psimil.inference.shards import Shard, Shards, epochs
from psimil.model.bag_ranges import BagRange
from psimil.model.densities import is_logistic
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP
from psimil.paper.ascent import KernelLearning, KernelStep, Pass, Schedule, ascend, pass_over, start_from_labels
from psimil.paper.label_posteriors import EXACT
from psimil.paper.natural_steps import grown, natural_step, relaxed, step_size
from psimil.paper.passes import run_pass


@dataclass
class Augmented:
    """A :class:`psimil.inference.algorithm.Algorithm` whose q(v) is that of the paper.

    Parameters
    ----------
    options, seed : of the fit.
    learning : how the kernel moves between passes; None keeps it.
    pi : (N,) label posterior of a random start, once it is drawn.
    """

    options: Options
    seed: int
    learning: KernelLearning | None = None
    pi: Array | None = None

    joint: ClassVar[bool] = False
    from_mode: ClassVar[bool] = False
    without: ClassVar[None] = None

    @property
    def step(self) -> KernelStep | None:
        """The rule that moves the kernel between passes."""
        return None if self.learning is None else self.learning.step(self.options, self.seed)

    @property
    def last_move(self) -> int | None:
        """The pass after which the kernel moves for the last time."""
        return None if self.learning is None else self.learning.schedule.last

    @property
    def tolerance(self) -> float:
        """The rise of a score that early stopping ignores."""
        return 0.0 if self.learning is None else self.learning.tolerance

    def begin(
        self, gp: SparseGP, start: Posterior | None, sample: Shard, shards: Shards, warm: Posterior | None, whole: bool
    ) -> Posterior:
        """Near zero: the labels speak first."""
        return KernelState.first(gp).posterior

    def started(self, state: KernelState, shards: Shards, rng: np.random.Generator) -> KernelState:
        """From pi ~ U(0, start), where all data are in memory."""
        whole = shards.in_memory
        if whole is None:
            return state
        self.pi = rng.uniform(0.0, float(self.options.start), len(whole.X))
        return KernelState(state.gp, start_from_labels(state.gp, whole, self.pi))

    def passes(self, shards: Shards, state: KernelState, begun: Any = None) -> Iterator[Record]:
        """Whole passes, over-relaxed where they raise a bound."""
        ascends = (self.options.rule or EXACT).ascends and is_logistic(shards.density)
        schedule = Schedule() if self.learning is None else self.learning.schedule
        accelerate = self.options.accelerate and ascends
        return ascend(shards, state, self.step, schedule, pi=self.pi, accelerate=accelerate, begun=begun)

    def batches(self, shards: Shards, state: KernelState, rng: np.random.Generator, done: int = 0) -> Iterator[Record]:
        """Passes in minibatches, each a natural-gradient step."""
        gp, posterior, t = state.gp, state.posterior, done * len(shards.ranges)
        for number, order in epochs(shards, rng, done):
            sums, log_z = None, 0.0
            for batch, share in order:
                before, rho = posterior, step_size(t, share, (batch.stop - batch.start) / gp.size)
                posterior, found = batch_step(shards, [batch], gp, before, share, rho)
                posterior, t = relaxed(before, posterior, t), t + 1
                sums = found.statistics if sums is None else sums + found.statistics
                log_z += found.bound.log_z
            assert sums is not None  # there is at least one shard
            yield Pass(gp, posterior, sums, sums.bound(posterior.kl, log_z), step=number)

    def local(self, record: Any, shard: Shard, seed: int) -> Record:
        """The record with what its q(v) says of the instances of a shard."""
        found: Pass = replace(record, local=run_pass(shard, record.gp, record.posterior)[0])
        return found

    def more(self, gp: SparseGP, posterior: Posterior, shard: Shard, weight: float, steps: int) -> Posterior:
        """q(v) after more bags, to which that of ``weight`` bags has taken ``steps`` steps before.

        The sums behind q(v) grow as if the bags seen so far spoke for all, and q(v) moves towards the sums of the new
        bags by a step of minibatches with their share, at which every bag counts once.
        """
        total = weight + float(shard.weights.sum())
        share = float(shard.weights.sum()) / total
        rho = step_size(steps, share, len(shard.X) / gp.size)
        sums = run_pass(shard, gp, posterior)[1].scaled(1.0 / share)
        return natural_step(grown(posterior, total / weight), sums, rho)


def batch_step(
    shards: Shards, ranges: list[BagRange] | None, gp: SparseGP, posterior: Posterior, share: float, rho: float
) -> tuple[Posterior, Pass]:
    """q(v) after a step on bags that are this share of all, and the pass over them."""
    found = pass_over(shards, gp, posterior, ranges)
    return natural_step(posterior, found.statistics.scaled(1.0 / share), rho), found
