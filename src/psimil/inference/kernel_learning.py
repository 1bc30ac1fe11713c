"""The kernel by log p(T): quasi-Newton steps on its parameters, with q(v) taken along.

The estimate L of log p(T) hardly changes with the sites, whose best choice it is; so it depends on the kernel through V
alone. With gradient g and curvature Lambda of the sites, dL/dV = g m' - Lambda V S, and V = K_xz L^-T, L L' = K_zz:

    dL/dK_xz = dL/dV L^-1,
    dL/dK_zz = -L^-T sym(lower((dL/dV)' V)) L^-1,    lower halving the diagonal.

Every evaluation takes q(v) a few steps further for the new kernel, from where the last one left it. Parameters are
learned under a normal prior on their logarithms, without which few bags have kernels that explain every one of them by
itself. log p(T) may have two optima, one of wiggly functions and one of smooth ones, hardly different for the bags at
hand but not for those of another hospital; so the smooth one is taken unless the other is clearly better. A length
scale of its own for every feature is many parameters for few bags; so a common one is learned first, from which they
part under a prior that keeps them close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import NumericalFailure
from psimil.foundations.linalg import floored, solve_lower
from psimil.foundations.logistic import antithetic_draws
from psimil.foundations.phases import LEARNING, tell
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard
from psimil.inference.sites import Curvature, GaussianSites, tilt
from psimil.inference.sparse_gp import Posterior, SparseGP
from psimil.inference.variational import FLOOR, Iterate, Stage, climb, iterate_at, mode
from psimil.model.bag_ranges import BagRange

Array = NDArray[Any]

REACH = np.log(100.0)  # no parameter leaves its start by more than this factor
EVALUATIONS, INNER_STEPS = 32, 4
ENOUGH = 3e-3  # nats per direction that q(v) may be from its fixed point
DRAWS = 64  # which all bags share
USUAL = 4  # evaluations that a search takes, about
WORTHWHILE = 0.5  # nats that a step must promise
HOPELESS = 3.0  # times what its last step gained, by which a search may be behind and still go on
CLEARLY = 3.0  # nats by which a kernel must be better than a smooth one: strong evidence (Kass and Raftery 1995)
FIRST_RADIUS, LAST_RADIUS = 1.0, 0.1  # largest step of a log parameter, and the smallest worth taking
PRIOR_DEVIATION = 1.5  # of log parameters around their start
SMOOTHER = 4.0  # times longer are length scales that count as smooth
PARTING_DEVIATION = 0.5  # of the length scales of features around a common one


def tilted_sum(shard: Shard, gp: SparseGP, draws: Draws, sites: GaussianSites) -> float:
    """The sum of log E_q[p_b / s_b] over the bags of a shard."""
    V, v = shard.features(gp, shard.blocks[0])[0], draws.blocks[0]

    def part(bags: BagRange) -> float:
        labels = shard.labels.chunk(bags.first, bags.last)
        f = shard.backend.products(V[bags.rows], v).astype(shard.precision, copy=False)
        found, some = shard.likelihood.derivatives(f, labels), sites.taken(bags.rows, shard.precision)
        df, sign = f - f.mean(axis=0), shard.likelihood.sign(labels).astype(f.dtype)
        tilted = tilt(found, some, df, some.curvature.times(df, labels, sign), labels, shard.likelihood)
        return float(shard.instance_weights[bags.rows] @ tilted.log_means)

    return sum(shard.backend.map(part, draws.ranges(shard, shard.blocks[0])))


def evidence_gradient(shard: Shard, found: Iterate) -> Array:
    """(P,) gradient of log p(T) by the log parameters of the kernel, from the sums and sites of a pass.

    Sites kept, log p(T) changes with V alone, by dL/dV = g m' - Lambda V S.
    """
    gp, q, sites, labels = found.gp, found.posterior, found.local, shard.labels
    assert sites is not None  # one shard in memory
    w, M, sign = shard.instance_weights, len(gp.Z), shard.likelihood.sign(labels)
    V = shard.backend.on_host(shard.features(gp, shard.blocks[0])[0])
    curved = sites.curvature.times(V.T, labels, sign)  # (Lambda V)'
    left = w[:, None] * np.column_stack([sites.gradient, curved.T])
    by_K = np.vstack([q.m[:M], -q.S[:, :M]]) @ gp.L_inverse_T.T  # dL/dK_xz = dL/dV L^-1
    K = shard.backend.features(gp, shard.X, whiten=False)
    gradient = shard.backend.kernel_adjoint(gp, shard.X, K, left, by_K)
    by_V = np.outer(found.sums.gradient, q.m) - found.sums.curvature @ q.S  # V' dL/dV
    lower = np.tril(by_V[:M, :M].T)
    lower[np.diag_indices(M)] *= 0.5
    inner = gp.L_inverse_T @ (lower + lower.T) @ gp.L_inverse_T.T
    return np.asarray(gradient - 0.5 * gp.kernel.gram_adjoint(gp.Z, gp.Z, inner))


class Evaluation(NamedTuple):
    """log p(T) with the prior of the kernel, its gradient (P,) by the log parameters, and the iterate behind it."""

    value: float
    gradient: Array
    iterate: Iterate


class NaturalSites(NamedTuple):
    """Sites by their natural parameters: the linear term g + Lambda mu (n,), and Lambda."""

    linear: Array
    curvature: Curvature

    @classmethod
    def of(cls, shard: Shard, found: Iterate) -> NaturalSites:
        """Those that an iterate has found."""
        sites, labels = found.local, shard.labels
        assert sites is not None  # one shard in memory
        V, _ = shard.features(found.gp, shard.blocks[0])
        mu = shard.backend.products(V, found.posterior.m[:, None])
        curved = sites.curvature.times(mu, labels, shard.likelihood.sign(labels))
        return cls(sites.gradient + curved[0], sites.curvature)

    def posterior(self, shard: Shard, gp: SparseGP) -> Posterior:
        """q(v) of another kernel with these sites: prior and sites make it, without any draws."""
        V, labels, sign = shard.features(gp, shard.blocks[0])[0], shard.labels, shard.likelihood.sign(shard.labels)
        found = self.curvature.sums(V, shard.instance_weights, self.linear, labels, sign, shard.backend)
        R = floored(found[0] + np.eye(gp.size), FLOOR)
        return Posterior(solve_lower(R, solve_lower(R, found[1]), transposed=True), R)


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
    """

    shard: Shard
    gp: SparseGP
    noise: Draws
    sites: NaturalSites
    deviation: float = PRIOR_DEVIATION
    moving: Array | None = None
    value: float = -np.inf

    def __call__(self, log_parameters: Array, start: Posterior | None = None) -> Evaluation | None:
        """log p(T) at some kernel, from a q(v) if one is known; None where its matrices cannot be factorised."""
        moved = (log_parameters - self.gp.kernel.log_parameters) / self.deviation
        try:
            gp = self.gp.with_parameters(log_parameters)
            found = settled(self.shard, gp, start or self.sites.posterior(self.shard, gp), self.noise, INNER_STEPS)
            gradient = evidence_gradient(self.shard, found)
        except NumericalFailure:
            return None
        value, gradient = found.log_evidence - 0.5 * float(moved @ moved), gradient - moved / self.deviation
        gradient = gradient if self.moving is None else np.where(self.moving, gradient, 0.0)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return None
        if value > self.value:
            self.value, self.sites = value, NaturalSites.of(self.shard, found)
        return Evaluation(value, gradient, found)


def settled(shard: Shard, gp: SparseGP, start: Posterior, noise: Draws, steps: int) -> Iterate:
    """The last of so many steps on the bound, or of fewer where hardly anything is left to gain, with log p(T)."""
    for found in climb(shard, gp, start, [Stage(noise, tilted=False, enough=0.0)]):
        if found.step > steps or found.change < ENOUGH:
            assert found.local is not None  # one shard in memory
            tilted = tilted_sum(shard, gp, noise.of(found.posterior), found.local)
            return replace(found, sums=replace(found.sums, tilted=tilted))
    raise AssertionError  # steps have no end


def noise_of(gp: SparseGP, seed: int) -> Draws:
    """Draws, which all bags share."""
    return Draws.shared(antithetic_draws(gp.size, DRAWS, seed))


def learn_kernel(
    shard: Shard,
    gp: SparseGP,
    seed: int,
    heard: Callable[[Iterate], bool] = lambda _: False,
    evaluations: int = 4 * EVALUATIONS,
    thorough: bool = False,
    phase: str = LEARNING,
) -> Iterate:
    """The kernel of ``gp`` with its parameters learned on the bags of a shard, and its q(v).

    Parameters
    ----------
    heard : called with every evaluation; a true answer ends the search.
    evaluations : of log p(T), at most.
    thorough : learn a smooth kernel, too, and take it unless the other is clearly better, which then has a length scale
        for every feature.
    phase : as which its steps are told.
    """
    usual = 2 * USUAL if thorough else USUAL
    search = Search(shard, noise_of(gp, seed), heard, evaluations, usual, phase=phase)
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


@dataclass
class Search:
    """Quasi-Newton steps (BFGS) within a trust region: q(v) can follow a short step of the kernel, not a long one.

    A step that does not raise log p(T) is not taken, and the next one is shorter.

    Parameters
    ----------
    heard : called with every evaluation; a true answer ends this search and all later ones.
    evaluations : that may still be made.
    usual : number of them to expect.
    """

    shard: Shard
    noise: Draws
    heard: Callable[[Iterate], bool]
    evaluations: int
    usual: int
    done: int = 0
    phase: str = LEARNING

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
        moving : (P,) which of the log parameters are learned; None for all.
        enough : log p(T) that it must come to; a search that will not is given up.
        """
        begun = start or iterate_at(self.shard, gp, mode(self.shard, gp), self.noise)
        sites, x = NaturalSites.of(self.shard, begun), gp.kernel.log_parameters
        profile = Profile(self.shard, gp, self.noise, sites, deviation, moving)
        here = profile(x, start.posterior if start else None)
        first, gain, radius = x, np.inf, FIRST_RADIUS if start is None else 0.5 * deviation
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
            step = np.clip(x + step, first - REACH, first + REACH) - x
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
