"""The kernel by the variational bound: quasi-Newton steps on its parameters, with q(v) taken along.

At its optimum over q(v) the bound depends on the kernel through V alone. With draws v_s and gradients g_s of
log p(T | V v_s), dL/dV = E[g v'], and with V = K_xz L^-T (L L' = K_zz),

    dL/dK_xz = E[g v'] L^-1 = E[g (L^-T v)'],
    dL/dK_zz = -L^-T sym(lower(E[v g'] V)) L^-1,    lower halving the diagonal.

Every evaluation takes q(v) a few steps further for the new kernel, from where the last one left it. Parameters are
learned under a weak normal prior on their logarithms. The bound may have two optima, one of wiggly functions and one
of smooth ones, hardly different for the bags at hand but not for those of another hospital; so the search may begin
from both, and the smooth one is taken unless the other is clearly better. A length scale of its own for every feature
is many parameters for few bags; so a common one is learned first, from which they part under a prior that keeps them
close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import NumericalFailure
from psimil.foundations.phases import LEARNING, tell
from psimil.inference.bag_pass import cached_ranges, draws_of, first_noise
from psimil.inference.leave_one_out import out_of_bag
from psimil.inference.shards import Shard
from psimil.inference.sparse_gp import Posterior, SparseGP
from psimil.inference.variational import Iterate, climb, newton
from psimil.model.bags import BagRange
from psimil.predictive.calibration import bag_log_likelihoods
from psimil.predictive.moments import IDENTITY

Array = NDArray[Any]

REACH = np.log(100.0)  # no parameter leaves its start by more than this factor
EVALUATIONS, INNER_STEPS = 32, 2
SETTLING_STEPS = 8  # of q(v) before two kernels are compared
FEWER = 8  # times fewer draws than of the final q(v)
USUAL = 12  # evaluations that a search takes, about
SETTLED = 5e-4  # nats per bag: two steps that change the bound by less end the search
FIRST_RADIUS, LAST_RADIUS = 1.0, 0.02  # largest step of a log parameter, and the smallest worth taking
PRIOR_DEVIATION = 4.0  # of log parameters around their start
SMOOTHER = 4.0  # times longer is the length scale of the second start
PARTING_DEVIATION = 0.5  # of the length scales of features around a common one


def bound_gradient(shard: Shard, gp: SparseGP, v: Array) -> Array:
    """(P,) gradient of the mean over draws v (M, S) of log p(T | V v) by the log parameters of the kernel."""
    M, S = len(gp.Z), v.shape[1]
    a = gp.L_inverse_T @ v[:M]  # f = K_xz a + b v_M
    gradient, by_V = np.zeros(len(gp.kernel.log_parameters)), np.zeros((M, M))
    for bags in shard.blocks:
        X = shard.X[bags.rows]
        V, _ = shard.features(gp, bags)
        G = np.empty((S, len(X)))
        unwhitened = shard.unwhitened(gp)
        fill = partial(_slopes, shard, V, bags.start, gp.whitening @ v if unwhitened else v, G)
        for _ in shard.backend.map(fill, cached_ranges(shard, bags, v)):
            pass
        G /= S
        share = shard.backend.transposed_products(V, G)
        by_V += (gp.whitening.T @ share if unwhitened else share)[:M] @ v[:M].T
        K = V if unwhitened else shard.backend.features(gp, X, whiten=False)
        gradient += shard.backend.kernel_adjoint(gp, X, K, G, a.T)
    lower = np.tril(by_V.T)
    lower[np.diag_indices(M)] *= 0.5
    inner = gp.L_inverse_T @ (lower + lower.T) @ gp.L_inverse_T.T
    return gradient - 0.5 * gp.kernel.gram_adjoint(gp.Z, gp.Z, inner)


def _slopes(shard: Shard, V: Any, start: int, v: Array, G: Array, bags: BagRange) -> None:
    rows = slice(bags.start - start, bags.stop - start)
    labels = shard.labels.chunk(bags.first, bags.last)
    found = shard.likelihood.derivatives(shard.backend.products(V[rows], v), labels)
    np.multiply(found.gradient, shard.instance_weights[bags.rows], out=G[:, rows])


class Evaluation(NamedTuple):
    """The bound with the prior of the kernel, its gradient (P,) by the log parameters, and the iterate behind it."""

    value: float
    gradient: Array
    iterate: Iterate


@dataclass
class Profile:
    """The bound as a function of the kernel's log parameters, with q(v) following the best kernel so far.

    Parameters
    ----------
    shard : the data.
    gp : the kernel to start from, and the centre of a weak prior on the log parameters.
    noise : (M, S) fixed draws.
    posterior : q(v) of the best kernel.
    deviation : of that prior.
    best : the bound of the best kernel.
    """

    shard: Shard
    gp: SparseGP
    noise: Array
    posterior: Posterior
    deviation: float = PRIOR_DEVIATION
    best: float = -np.inf

    def __call__(self, log_parameters: Array) -> Evaluation | None:
        """The bound at some kernel; None where its matrices cannot be factorised."""
        moved = (log_parameters - self.gp.kernel.log_parameters) / self.deviation
        try:
            gp = self.gp.with_parameters(log_parameters)
            steps = islice(climb(self.shard, gp, self.posterior, self.noise), 1 + INNER_STEPS)
            found = max(steps, key=lambda one: one.bound.total)
            gradient = bound_gradient(self.shard, gp, draws_of(found.posterior, self.noise)) - moved / self.deviation
        except NumericalFailure:
            return None
        value = found.bound.total - 0.5 * float(moved @ moved)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return None
        if value > self.best:
            self.best, self.posterior = value, found.posterior
        return Evaluation(value, gradient, found)


def learn_kernel(
    shard: Shard,
    gp: SparseGP,
    seed: int,
    heard: Callable[[Iterate], bool] = lambda _: False,
    evaluations: int = 4 * EVALUATIONS,
    thorough: bool = False,
) -> Iterate:
    """The kernel of ``gp`` with its parameters learned on the bags of a shard, and its q(v).

    Parameters
    ----------
    heard : called with every evaluation; a true answer ends the search.
    evaluations : of the bound, at most.
    thorough : begin from a smoother kernel, too, take its end unless the other is clearly better for bags that are left
        out, and go on with a length scale for every feature.
    """
    noise, ends, step, asked = first_noise(gp, len(shard.X), seed, FEWER), list[Iterate](), 0, False
    starts = (gp, gp.rebuilt(gp.kernel.stretched(SMOOTHER))) if thorough else (gp,)
    for to_come, start in zip((2, 1) if thorough else (0,), starts, strict=True):
        if step < evaluations and not asked:
            profile = Profile(shard, start, noise, newton(shard, start, np.zeros(gp.size)))
            found, step, asked = _search(profile, heard, step, evaluations, to_come)
            ends.append(found)
    if not thorough or asked or step >= evaluations:
        return max(ends, key=lambda one: one.bound.total)
    best = smoother_unless_worse(ends[0], ends[1], shard, noise)
    parted = gp.rebuilt(best.gp.kernel.per_feature(shard.X.shape[1]))
    return _search(Profile(shard, parted, noise, best.posterior, PARTING_DEVIATION), heard, step, evaluations)[0]


def smoother_unless_worse(first: Iterate, smoother: Iterate, shard: Shard, noise: Array) -> Iterate:
    """The smoother of two kernels, unless the first is better by more than a standard error for bags left out.

    Parameters
    ----------
    first, smoother : kernels with their q(v), which is settled here.
    noise : (M, S) fixed draws.
    """
    settled = [
        list(islice(climb(shard, one.gp, one.posterior, noise), SETTLING_STEPS))[-1] for one in (first, smoother)
    ]
    unseen = [out_of_bag(one, shard, "noisy_or", joint=True) for one in settled]
    scores = [bag_log_likelihoods(bags, IDENTITY.parameters)[0] for bags in unseen]
    gain = scores[1] - scores[0]
    return settled[int(gain.mean() >= -gain.std() / np.sqrt(len(gain)))]


def _search(
    profile: Profile, heard: Callable[[Iterate], bool], done: int, evaluations: int, to_come: int = 0
) -> tuple[Iterate, int, bool]:
    """The best kernel near that of a profile, evaluations so far and of other searches, and whether it was ended.

    ``to_come`` searches will follow, for those who wait.

    Quasi-Newton steps (BFGS) within a trust region: q(v) can follow a short step of the kernel, not a long one. A step
    that does not raise the bound is not taken, and the next one is shorter.
    """
    most, start = min(evaluations - done, EVALUATIONS), profile.gp.kernel.log_parameters
    least = SETTLED * float(profile.shard.weights.sum())
    radius, settled, asked = FIRST_RADIUS, 0, False
    x, here = start, profile(start)
    if here is None:
        raise NumericalFailure("the bound is not finite at the kernel to start from. Give another kernel.")
    inverse = np.eye(len(x)) * (FIRST_RADIUS / max(float(np.abs(here.gradient).max()), 1e-12))
    for number in range(1, most + 1):
        tell(LEARNING, done + number, min(done + min(max(USUAL, number + 1), most) + to_come * USUAL, evaluations))
        asked = heard(replace(here.iterate, step=done + number))
        if asked or settled > 1 or radius < LAST_RADIUS or number == most:
            break
        step = inverse @ here.gradient
        step *= min(1.0, radius / max(float(np.abs(step).max()), 1e-12))
        step = np.clip(x + step, start - REACH, start + REACH) - x
        there = profile(x + step)
        if there is None:
            radius *= 0.25
            continue
        inverse = _updated(inverse, step, here.gradient - there.gradient)
        rise = there.value - here.value
        settled = settled + 1 if abs(rise) < least else 0
        if rise > 0:
            x, here, radius = x + step, there, min(1.5 * radius, FIRST_RADIUS)
        else:
            radius *= 0.3
    return here.iterate, done + number, asked


def _updated(inverse: Array, step: Array, change: Array) -> Array:
    """The inverse of the curvature after the BFGS update for a step (P,) and the fall of the gradient along it (P,)."""
    along = float(step @ change)
    if along <= 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / along
    return left @ inverse @ left.T + np.outer(step, step) / along
