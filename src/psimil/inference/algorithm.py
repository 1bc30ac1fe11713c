"""An algorithm finds q(v) pass by pass: what it does, the records it leaves, and the variational one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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

Refitted = Callable[[SparseGP, Posterior, Shard, Array], Posterior]  # q(v) of all bags but some, from that of all

BATCHES_TOL = 5e-4  # nats per bag by which a pass' worth of minibatches raises the bound, at most, once it has settled
BEFORE_TILTING = 1e-2  # nats per direction left to the bound's own fixed point when steps on tilted densities begin
COARSER = 4  # times fewer draws until then, where there are many instances
MORE_STEPS = 12  # to the posterior of bags that come later, or are left out, at most
LEFT_OUT = 0.02  # nats per direction left where a fit without some bags ends


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

    @property
    def without(self) -> Refitted | None:
        """Fits q(v) again to all bags of a shard but some; None where the closed form has to do."""

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
        return self._settled(climb(shard, gp, posterior, self._stages(gp, shard), prior=posterior), self.options.tol)

    def without(self, gp: SparseGP, posterior: Posterior, shard: Shard, bags: Array) -> Posterior:
        """That of the bags of a shard but some (their numbers), from that of all."""
        weights = shard.weights.copy()
        weights[bags] = 0.0
        others = replace(shard, weights=weights)
        return self._settled(climb(others, gp, posterior, self._stages(gp, shard)), LEFT_OUT)

    def _settled(self, steps: Iterator[Iterate], tol: float) -> Posterior:
        for found in steps:
            if found.step >= MORE_STEPS or (not found.unfinished and found.change < tol):
                return found.posterior
        raise AssertionError  # steps have no end

    def _stages(self, gp: SparseGP, shards: Shards) -> tuple[Stage, Stage]:
        """Steps on the bound, with fewer draws of many instances, then tilted ones with all of them."""
        fine = Draws.for_bags(gp.size, shards.labels, self.seed)
        coarse = Draws.for_bags(gp.size, shards.labels, self.seed, COARSER) if shards.single else fine
        return Stage(coarse, False, max(BEFORE_TILTING, self.options.tol)), Stage(fine, True, 0.0)
