"""The kernel by log p(T): quasi-Newton steps on its parameters, with q(v) taken along.

Every evaluation takes q(v) a few steps further for the new kernel, from where the last one left it. Parameters are
learned under a normal prior on their logarithms, without which few bags have kernels that explain every one of them by
itself. log p(T) may have two optima, one of wiggly functions and one of smooth ones, hardly different for the bags at
hand but not for those of another hospital; so the smooth one is taken unless the other is clearly better. A length
scale of its own for every feature is many parameters for few bags; so a common one is learned first, from which they
part under a prior that keeps them close.

How much noise labels share, tau of :mod:`psimil.model.shared_labels`, is learned with the kernel where that is asked
for. It has an exponential prior: labels stay independent where data say little about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import NumericalFailure
from psimil.foundations.phases import LEARNING, tell
from psimil.inference.draws import Draws
from psimil.inference.evidence import FAR, NaturalSites, evidence_gradient, noise_of, settled
from psimil.inference.shards import Shard
from psimil.inference.variational import Iterate, iterate_at, mode
from psimil.model.shared_labels import MOST_SHARING
from psimil.model.sparse_gp import Posterior, SparseGP

Array = NDArray[Any]

REACH = np.log(100.0)  # no parameter leaves its start by more than this factor
EVALUATIONS, INNER_STEPS = 32, 4
USUAL = 4  # evaluations that a search takes, about
WORTHWHILE = 0.5  # nats that a step must promise
HOPELESS = 3.0  # times what its last step gained, by which a search may be behind and still go on
CLEARLY = 3.0  # nats by which a kernel must be better than a smooth one: strong evidence (Kass and Raftery 1995)
FIRST_RADIUS, LAST_RADIUS = 1.0, 0.1  # largest step of a log parameter, and the smallest worth taking
PRIOR_DEVIATION = 1.5  # of log parameters around their start
SMOOTHER = 4.0  # times longer are length scales that count as smooth
PARTING_DEVIATION = 0.5  # of the length scales of features around a common one
SHARING_PRICE = 4.0  # nats that tau = 1 would cost
SHARING_UNIT = 0.25  # of tau, as much as a unit of a log parameter in a step


class Evaluation(NamedTuple):
    """log p(T) with the prior of the parameters, its gradient (P,) by these, and the iterate behind it."""

    value: float
    gradient: Array
    iterate: Iterate


@dataclass
class Profile:
    """log p(T) as a function of the kernel's log parameters, with q(v) following the best kernel so far.

    Parameters
    ----------
    shard : the data.
    gp : the kernel to start from, and the centre of a weak prior on the log parameters.
    noise : fixed draws, which all bags share.
    sites : of the best kernel so far, which the next one starts with.
    deviation : of that prior.
    moving : (P,) which of the parameters are learned; None for all.
    sharing : whether tau is one of them, the last, in units.
    """

    shard: Shard
    gp: SparseGP
    noise: Draws
    sites: NaturalSites
    deviation: float = PRIOR_DEVIATION
    moving: Array | None = None
    sharing: bool = False
    value: float = -np.inf

    def __call__(self, parameters: Array, start: Posterior | None = None) -> Evaluation | None:
        """log p(T) at some kernel, from a q(v) if one is known; None where q(v) cannot be found from there."""
        log_parameters = parameters[:-1] if self.sharing else parameters
        moved = (log_parameters - self.gp.kernel.log_parameters) / self.deviation
        shard, tau = self.shard, SHARING_UNIT * parameters[-1] if self.sharing else 0.0
        if self.sharing:
            shard = shard.labelled(replace(shard.labels, sharing=tau))
        try:
            gp = self.gp.with_parameters(log_parameters)
            found = settled(shard, gp, start or self.sites.posterior(shard, gp), self.noise, INNER_STEPS, self.sharing)
            if found.distance > FAR and self.value > -np.inf:
                return None  # what it would say is no estimate
            gradient = evidence_gradient(shard, found)
        except NumericalFailure:
            return None
        value, gradient = found.log_evidence - 0.5 * float(moved @ moved), gradient - moved / self.deviation
        if self.sharing:
            value -= SHARING_PRICE * tau
            slope = found.sums.by_sharing - SHARING_PRICE
            gradient = np.append(gradient, SHARING_UNIT * (slope if tau > 0 else max(slope, 0.0)))  # it goes no lower
        gradient = gradient if self.moving is None else np.where(self.moving, gradient, 0.0)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return None
        if value > self.value:
            self.value, self.sites = value, NaturalSites.of(shard, found)
        return Evaluation(value, gradient, found)


def learn_kernel(
    shard: Shard,
    gp: SparseGP,
    seed: int,
    heard: Callable[[Iterate], bool] = lambda _: False,
    evaluations: int = 4 * EVALUATIONS,
    thorough: bool = False,
    phase: str = LEARNING,
    sharing: bool = False,
    fixed: bool = False,
) -> Iterate:
    """The kernel of ``gp`` with its parameters learned on the bags of a shard, its q(v), and what labels share.

    Parameters
    ----------
    heard : called with every evaluation; a true answer ends the search.
    evaluations : of log p(T), at most.
    thorough : learn a smooth kernel, too, and take it unless the other is clearly better, which then has a length scale
        for every feature.
    phase : as which its steps are told.
    sharing : learn with the kernel how much noise labels of a bag share.
    fixed : keep the kernel, and learn nothing but that.
    """
    usual = 2 * USUAL if thorough else USUAL
    search = Search(shard, noise_of(gp, seed), heard, evaluations, usual, phase=phase, sharing=sharing)
    if fixed:
        return search.run(gp, moving=np.zeros(len(gp.kernel.log_parameters), dtype=bool)).iterate
    best = search.run(gp).iterate
    if not thorough or search.ended:
        return best
    stretched = gp.rebuilt(gp.kernel.stretched(SMOOTHER))
    enough = best.log_evidence - CLEARLY
    smooth = search.run(stretched, moving=~stretched.kernel.is_length_scale, enough=enough).iterate
    if search.ended or best.log_evidence < smooth.log_evidence + CLEARLY:
        return smooth
    parted = gp.rebuilt(best.gp.kernel.per_feature(shard.X.shape[1]))
    found = search.run(parted, best, PARTING_DEVIATION).iterate
    return max(found, best, key=lambda one: one.log_evidence)


def learned_sharing(history: Sequence[Mapping[str, Any]]) -> float:
    """tau that a history tells of; 0 where none was learned.

    Examples
    --------
    >>> learned_sharing([{"stage": "kernel"}, {"stage": "kernel", "sharing": 0.5}])
    0.5
    """
    return float(next((row["sharing"] for row in history if "sharing" in row), 0.0))


@dataclass
class Search:
    """Quasi-Newton steps (BFGS) within a trust region: q(v) can follow a short step of the kernel, not a long one.

    A step that does not raise log p(T) is not taken, and the next one is shorter.

    Parameters
    ----------
    heard : called with every evaluation; a true answer ends this search and all later ones.
    evaluations : that may still be made.
    usual : number of them to expect.
    sharing : whether tau is learned, too.
    """

    shard: Shard
    noise: Draws
    heard: Callable[[Iterate], bool]
    evaluations: int
    usual: int
    done: int = 0
    phase: str = LEARNING
    sharing: bool = False

    @property
    def ended(self) -> bool:
        """Whether a callback or the number of evaluations has ended it."""
        return self.done >= self.evaluations

    def run(
        self,
        gp: SparseGP,
        start: Iterate | None = None,
        deviation: float = PRIOR_DEVIATION,
        moving: Array | None = None,
        enough: float = -np.inf,
    ) -> Evaluation:
        """The best kernel near that of ``gp``.

        Parameters
        ----------
        start : an iterate of the same process, to begin with; None to begin at the mode.
        deviation : of the prior of log parameters around those of ``gp``.
        moving : (P,) which of the kernel's log parameters are learned; None for all.
        enough : log p(T) that it must come to; a search that will not is given up.
        """
        begun = start or iterate_at(self.shard, gp, mode(self.shard, gp), self.noise)
        sites, x = NaturalSites.of(self.shard, begun), gp.kernel.log_parameters
        low, high = x - REACH, x + REACH
        if self.sharing:
            x, low = np.append(x, begun.sharing / SHARING_UNIT), np.append(low, 0.0)
            high, moving = (
                np.append(high, MOST_SHARING / SHARING_UNIT),
                None if moving is None else np.append(moving, True),
            )
        profile = Profile(self.shard, gp, self.noise, sites, deviation, moving, self.sharing)
        here = profile(x, start.posterior if start else None)
        gain, radius = np.inf, FIRST_RADIUS if start is None else 0.5 * deviation
        if here is None:
            raise NumericalFailure("log p(T) is not finite at the kernel to start from. Give another kernel.")
        scale = FIRST_RADIUS / max(float(np.abs(here.gradient).max()), 1e-12)
        inverse = np.eye(len(x)) * min(scale, deviation**2)  # the prior alone has that
        for _ in range(EVALUATIONS):
            self.done += 1
            tell(self.phase, self.done, min(max(self.usual, self.done + 1), self.evaluations))
            if self.heard(replace(here.iterate, step=self.done)):
                self.evaluations = 0
            step = inverse @ here.gradient
            step *= min(1.0, radius / max(float(np.abs(step).max()), 1e-12))
            step = np.clip(x + step, low, high) - x
            hopeless = enough - here.iterate.log_evidence > HOPELESS * gain
            if self.ended or hopeless or radius < LAST_RADIUS or step @ here.gradient < WORTHWHILE:
                break
            there = profile(x + step)
            if there is None:
                radius *= 0.25
                continue
            inverse = _updated(inverse, step, here.gradient - there.gradient)
            if there.value > here.value:
                gain = there.value - here.value
                x, here, radius = x + step, there, min(1.5 * radius, FIRST_RADIUS)
            else:
                radius *= 0.3
        return here


def _updated(inverse: Array, step: Array, change: Array) -> Array:
    """The inverse of the curvature after the BFGS update for a step (P,) and the fall of the gradient along it (P,)."""
    along = float(step @ change)
    if along <= 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / along
    return left @ inverse @ left.T + np.outer(step, step) / along
