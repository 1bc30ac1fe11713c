"""An algorithm finds q(v) pass by pass: what it does, the records it leaves, who stops it, and the variational one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil, log
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from psimil.inference.bag_pass import bag_pass_over, run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard, Shards, epochs
from psimil.inference.variational import Iterate, Stage, climb, iterate_at, mode, natural_step, with_more_data
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP

if TYPE_CHECKING:
    from psimil.inference.options import Options

Array = NDArray[Any]

BATCHES_TOL = 5e-4  # nats per bag by which a pass' worth of minibatches raises the bound, at most, once it has settled
BEFORE_TILTING = 1e-2  # nats per direction left to the bound's own fixed point when steps on tilted densities begin
COARSER = 4  # times fewer draws until then, where there are many instances
MORE_STEPS = 12  # to the posterior of bags that come later, at most
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
        """Nats per direction by which q(v) would still move; None where only the bound tells that it has settled."""

    @property
    def local(self) -> Sites | None:
        """What was found for every instance, where all data are in memory."""

    @property
    def step(self) -> int:
        """1, 2, ..."""

    @property
    def unfinished(self) -> bool:
        """Whether the kernel is still to change, or steps of another kind follow."""


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

    @property
    def chains(self) -> tuple[tuple[Array, Array], ...]:
        """c and rho (n,) of every chain in the curvature."""

    def gradient_at(self, mu: Array, rows: slice | Array) -> Array:
        """Gradient of some instances at their latent means mu."""


class Algorithm(Protocol):
    """How q(v) is found where the kernel is known; made for every fit from its options and seed."""

    @property
    def joint(self) -> bool:
        """Whether predictions keep the dependence between the instances of a bag, and know what is novel."""

    @property
    def from_mode(self) -> bool:
        """Whether passes begin at a q(v) of some bags that :meth:`begin` looks at, whatever the kernel."""

    @property
    def last_move(self) -> int | None:
        """The pass after which the kernel moves for the last time; None where it stays."""

    @property
    def tolerance(self) -> float:
        """The rise of a score that early stopping ignores."""

    def begin(
        self, gp: SparseGP, start: Posterior | None, sample: Shard, shards: Shards, warm: Posterior | None, whole: bool
    ) -> Posterior:
        """The first q(v) of all data from a sample of the bags.

        Parameters
        ----------
        start : q(v) of the sample with this kernel, where it is known.
        warm : q(v) of another model with this kernel, if there is one.
        whole : passes over all data follow, not minibatches.
        """

    def started(self, state: KernelState, shards: Shards, rng: np.random.Generator) -> KernelState:
        """What the passes of a fit that starts from no other model begin with."""

    def passes(self, shards: Shards, state: KernelState, begun: Any = None) -> Iterator[Record]:
        """Passes over all data without end, after the record ``begun`` of an earlier run."""

    def batches(self, shards: Shards, state: KernelState, rng: np.random.Generator, done: int = 0) -> Iterator[Record]:
        """The same in minibatches, a record per pass' worth of data, after ``done`` of an earlier run."""

    def local(self, record: Any, shard: Shard, seed: int) -> Record:
        """The record with what its q(v) says of the instances of a shard."""

    def more(self, gp: SparseGP, posterior: Posterior, shard: Shard, weight: float, steps: int) -> Posterior:
        """q(v) after more bags, when it has learned bags of so much weight and then taken so many such steps."""


@dataclass(frozen=True)
class Variational:
    """The Gaussian q(v) that maximises the bound of the bag likelihood: damped natural-gradient steps."""

    options: Options
    seed: int

    joint: ClassVar[bool] = True
    from_mode: ClassVar[bool] = True
    last_move: ClassVar[None] = None
    tolerance: ClassVar[float] = 0.0

    def begin(
        self, gp: SparseGP, start: Posterior | None, sample: Shard, shards: Shards, warm: Posterior | None, whole: bool
    ) -> Posterior:
        """That of the sample, or about its mode; before minibatches with the precision of all data."""
        found = mode(sample, gp) if start is None else start
        if not whole:
            found = with_more_data(found, float(shards.weights.sum() / sample.weights.sum()))
        if warm is not None:  # the better one: the other model may have been of other labels
            noise = Draws.for_bags(gp.size, shards.labels, self.seed)
            found = max(warm, found, key=lambda q: iterate_at(shards, gp, q, noise).bound.total)
        return found

    def started(self, state: KernelState, shards: Shards, rng: np.random.Generator) -> KernelState:
        """The state itself."""
        return state

    def passes(self, shards: Shards, state: KernelState, begun: Any = None) -> Iterator[Record]:
        """Steps that raise the bound or come closer to its fixed point, then tilted ones."""
        return climb(shards, state.gp, state.posterior, self._stages(state.gp, shards), begun)

    def batches(self, shards: Shards, state: KernelState, rng: np.random.Generator, done: int = 0) -> Iterator[Record]:
        """Steps of the size of a batch's share, so that the precision is always that of all data about.

        The curvature of a few positive bags may be negative: no batch is trusted on its own.
        """
        gp, posterior, prior = state.gp, state.posterior, Posterior.prior(state.gp.size)
        noise = Draws.for_bags(gp.size, shards.labels, self.seed)
        for number, order in epochs(shards, rng, done):
            sums = None
            for batch, share in order:
                found, _ = bag_pass_over(shards, gp, noise.of(posterior), [batch])
                posterior = natural_step(posterior, found, share)
                sums = found if sums is None else sums + found
            assert sums is not None  # there is at least one shard
            yield Iterate(gp, posterior, sums, sums.bound(posterior.kl), None, prior, number)

    def local(self, record: Any, shard: Shard, seed: int) -> Record:
        """The record with the sites of a shard at its q(v)."""
        noise = Draws.for_bags(record.gp.size, shard.labels, seed)
        sites, _ = run_bag_pass(shard, record.gp, noise.of(record.posterior), tilted=True)
        found: Iterate = replace(record, local=sites)
        return found

    def more(self, gp: SparseGP, posterior: Posterior, shard: Shard, weight: float, steps: int) -> Posterior:
        """The posterior of the new bags, whose prior is q(v) so far: every bag counts once."""
        for found in climb(shard, gp, posterior, self._stages(gp, shard), prior=posterior):
            if found.step >= MORE_STEPS or (not found.unfinished and found.change < self.options.tol):
                return found.posterior
        raise AssertionError  # steps have no end

    def _stages(self, gp: SparseGP, shards: Shards) -> tuple[Stage, Stage]:
        """Steps on the bound, with fewer draws of many instances, then tilted ones with all of them."""
        fine = Draws.for_bags(gp.size, shards.labels, self.seed)
        coarse = Draws.for_bags(gp.size, shards.labels, self.seed, COARSER) if shards.single else fine
        return Stage(coarse, False, max(BEFORE_TILTING, self.options.tol)), Stage(fine, True, 0.0)


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
