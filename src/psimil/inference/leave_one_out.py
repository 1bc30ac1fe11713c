"""What the other bags say about each bag: leave-one-bag-out in closed form, and by refits where data are few.

With the local parameters of the other bags kept, removing bag b changes q(v) by a low-rank term. With A = V_b S V_b',
r = mu_b - A kappa_b and C = (I - A Theta_b)^-1 A, the bag's latent values have mean r + C Theta_b r and covariance C
(plus k~) without it (docs/derivations.md).

It keeps what the other bags and the inducing points learned beside the bag. With hundreds of bags that
is little; with ninety it is enough to make a calibration overconfident (docs/derivations.md). Small data is cheap to
refit, so there the calibration rests on bags that the fold's inducing points and q(v) have never seen, and the learned
kernel has to stand against a few others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.blas import multiply_upper
from psimil.foundations.linalg import cholesky, solve_lower
from psimil.foundations.logistic import softplus
from psimil.foundations.phases import REFIT_FOLDS, REFIT_PASSES, REFITS, RIVAL_PASSES, RIVALS, tell
from psimil.inference.ascent import KernelState, Pass, ascend
from psimil.inference.calibration import LatentBags, bag_log_likelihoods, fit_calibration
from psimil.inference.posterior import latent_moments
from psimil.inference.prediction import BagLayout, Prediction
from psimil.inference.shards import BagRange, Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.trained import TrainedModel
from psimil.model.kernels import RBF
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]

SMALL = 500  # bags up to which the calibration refits
STEPS = (1.0, 0.5)  # log steps of the pattern: a factor of 2.7, then of 1.6
SEARCHED = 3.0  # log distance from the collapsed optimum that the search may go: a factor of twenty
LEAST_GAIN = 0.05  # nats per bag that a fixed kernel must gain over the learned one
MAX_PARAMETERS = 4  # beyond this, length scales move together


def leave_one_out(record: Pass, shard: Shard) -> tuple[Array, Array]:
    """Latent mean and variance (N,) of every instance when its own bag is left out.

    Parameters
    ----------
    record : the last pass; its next q(v) is the one that the theta and pi of all bags imply.
    shard : some of the bags, or all, for which ``record`` has theta and pi.
    """
    mean, variance = np.empty(len(shard.X)), np.empty(len(shard.X))
    w, local, posterior = shard.instance_weights, record.local, record.next_posterior
    assert local is not None  # a record of data in memory
    theta, kappa = w * local.theta, w * (local.pi - 0.5)
    dtype = shard.X.dtype
    m, U = posterior.m.astype(dtype), posterior.U.astype(dtype)
    offsets = shard.labels.offsets

    def part(chunk: BagRange) -> None:
        rows = chunk.rows
        V, k = shard.rows_of_V(record.gp, chunk)
        mu, W = V @ m, multiply_upper(V.copy(), U)
        sizes = np.diff(offsets[chunk.first : chunk.last + 1])
        starts = offsets[chunk.first : chunk.last] - chunk.start
        for n in np.unique(sizes):
            index = (starts[sizes == n][:, None] + np.arange(n)).ravel()
            bags = (-1, int(n))
            group = W[index].reshape(*bags, W.shape[1]).astype(np.float64, copy=False)
            remove = _by_features if n > W.shape[1] else _by_instances
            found = remove(
                group, mu[index].reshape(bags), theta[rows][index].reshape(bags), kappa[rows][index].reshape(bags)
            )
            mean[chunk.start + index], variance[chunk.start + index] = found[0].ravel(), found[1].ravel()
        variance[rows] += k

    if shard.keep:  # before threads ask for parts of V
        shard.features(record.gp, shard.blocks[0])
    for _ in shard.backend.map(part, shard.ranges):
        pass
    return mean, np.maximum(variance, 0.0)


def _by_instances(W: Array, mu: Array, theta: Array, kappa: Array) -> tuple[Array, Array]:
    """Bags (k, n, M) with n <= M: C = A + A t (I - t A t)^-1 t A with t = Theta^(1/2), an n x n solve for each."""
    A = W @ W.transpose(0, 2, 1)
    r = mu - np.einsum("bij,bj->bi", A, kappa)
    t = np.sqrt(theta)
    tA = t[:, :, None] * A
    B = np.eye(A.shape[1]) - tA * t[:, None, :]
    X = np.linalg.solve(B, tA)
    y = theta * r
    mean = r + np.einsum("bij,bj->bi", A, y) + np.einsum("bji,bj->bi", tA, np.einsum("bij,bj->bi", X, y))
    return mean, np.einsum("bii->bi", A) + np.einsum("bji,bji->bi", tA, X)


def _by_features(W: Array, mu: Array, theta: Array, kappa: Array) -> tuple[Array, Array]:
    """Bags with n > M: C = W (I - W' Theta W)^-1 W', an M x M factor for each."""
    mean, variance = np.empty_like(mu), np.empty_like(mu)
    for b in range(len(W)):
        r = mu[b] - W[b] @ (W[b].T @ kappa[b])
        weighted = W[b] * np.sqrt(theta[b])[:, None]
        L = cholesky(np.eye(W.shape[2]) - weighted.T @ weighted, scale=1.0).L
        half = solve_lower(L, W[b].T)  # (M, n): C = half' half
        mean[b] = r + half.T @ (half @ (theta[b] * r))
        variance[b] = np.square(half).sum(axis=0)
    return mean, variance


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What the other bags say about each training bag.

    Parameters
    ----------
    model : the trained model.
    bags : their names (B,), offsets (B + 1,) and rows.
    latent : out-of-bag moments of their instances before calibration, and their labels.
    """

    model: TrainedModel
    bags: BagLayout
    latent: LatentBags

    @cached_property
    def prediction(self) -> Prediction:
        """Out-of-bag probabilities of bags and instances, with uncertainty."""
        calibrated = self.model.calibration.apply(self.latent.mean, self.latent.variance)
        return self.model.assemble(self.bags, calibrated)

    @cached_property
    def log_predictive(self) -> Array:
        """(B,) log P(T_b | all other bags)."""
        return log_predictive(self.prediction.log_odds, self.latent.T)

    @property
    def influence(self) -> Array:
        """(B,) how surprising each bag's label is to the other bags; the largest are candidates for mislabelling."""
        return -self.log_predictive

    @property
    def mean_log_predictive(self) -> float:
        """The score by which models can be compared without held-out bags."""
        return float(self.log_predictive.mean())


def log_predictive(log_odds: Array, T: Array) -> Array:
    """(B,) log P(T_b) from log-odds.

    Examples
    --------
    >>> log_predictive(np.array([0.0, 0.0]), np.array([0, 1])).round(4)
    array([-0.6931, -0.6931])
    """
    return -softplus(np.where(T == 1, -log_odds, log_odds))


def out_of_bag(record: Pass, shard: Shard, aggregate: str) -> LatentBags:
    """Latent moments of every training instance with its own bag left out."""
    return LatentBags(*leave_one_out(record, shard), shard.labels.offsets, shard.labels.T, shard.weights, aggregate)


def loo_scores(record: Pass, shard: Shard, aggregate: str) -> Array:
    """(B,) out-of-bag log predictive of each bag after calibration: higher is better."""
    bags = out_of_bag(record, shard, aggregate)
    return bag_log_likelihoods(bags, fit_calibration(bags).parameters)[0]


def loo_score(record: Pass, shard: Shard, aggregate: str) -> float:
    """Mean out-of-bag log predictive after calibration."""
    return float(np.average(loo_scores(record, shard, aggregate), weights=shard.weights))


def cross_fit(shard: Shard, rebuild: Callable[[Shard], SparseGP]) -> tuple[Array, Array]:
    """Latent mean and variance (N,) of every instance from a fit without its fold.

    Parameters
    ----------
    rebuild : the sparse GP for the bags of the other folds.
    """
    offsets, T = shard.labels.offsets, shard.labels.T
    folds = min(REFIT_FOLDS, max(2, int(np.bincount(T, minlength=2).min())))
    fold = stratified_folds(T, shard.labels.sum(shard.keys), folds)
    mean, variance = np.empty(len(shard.X)), np.empty(len(shard.X))
    row_fold = np.repeat(fold, np.diff(offsets))
    for number, k in enumerate(np.unique(fold)):
        tell(REFITS, number * REFIT_PASSES, folds * REFIT_PASSES)
        inside, held_out = fold != k, row_fold == k
        part = _subset(shard, inside, ~held_out)
        gp = rebuild(part)
        for record in ascend(part, KernelState.first(gp)):
            tell(REFITS, number * REFIT_PASSES + record.step, folds * REFIT_PASSES)
            if record.step >= REFIT_PASSES:
                break
        mean[held_out], variance[held_out] = latent_moments(gp, record.next_posterior, shard.X[held_out])
    return mean, variance


def stratified_folds(T: Array, keys: Array, folds: int) -> Array:
    """(B,) fold of each bag: labels spread evenly, bags dealt out by keys (B,) so that their order does not matter.

    Examples
    --------
    >>> stratified_folds(np.array([0, 0, 1, 1]), np.array([0.3, 0.1, 0.2, 0.5]), 2)
    array([1, 0, 0, 1])
    """
    fold = np.empty(len(T), dtype=np.int64)
    for label in (0, 1):
        members = np.flatnonzero(T == label)
        fold[members[np.argsort(keys[members], kind="stable")]] = np.arange(len(members)) % folds
    return fold


def _subset(shard: Shard, bags: Array, rows: Array) -> Shard:
    labels = shard.labels
    sizes = np.diff(labels.offsets)[bags]
    known = None if labels.known is None else labels.known[rows]
    chosen = Labels(labels.T[bags], np.concatenate([[0], np.cumsum(sizes)]), labels.log_H, known)
    return replace(shard, X=shard.X[rows], labels=chosen, weights=shard.weights[bags])


def search_kernel(record: Pass, shard: Shard, aggregate: str) -> SparseGP:
    """Pattern search in the log parameters from the kernel of ``record``; the best kernel by out-of-bag score."""
    best, score = record.gp, loo_score(record, shard, aggregate)
    centre = best.kernel.log_parameters
    size, tried = len(centre), 0
    directions = np.eye(size) if size <= MAX_PARAMETERS else np.array([np.eye(size)[0], 1.0 - np.eye(size)[0]])
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for direction in (sign * d for d in directions for sign in (1.0, -1.0)):
                moved = best.kernel.log_parameters + step * direction
                if np.abs(moved - centre).max() > SEARCHED:
                    continue
                tried += 1
                tell(RIVALS, tried)
                candidate = best.with_parameters(moved)
                found = float(np.average(_scores(candidate, shard, aggregate), weights=shard.weights))
                if found > score + 1e-4:
                    best, score, improved = candidate, found, True
    return best


def guard_kernel(record: Pass, shard: Shard, aggregate: str) -> SparseGP:
    """The learned kernel, or a fixed RBF kernel where leave-one-bag-out clearly prefers it.

    The bound of few bags is a poor guide: it may rise while predictions fall (docs/derivations.md). The rivals have
    variance 1 or 10 and length scale sqrt(D) or six tenths of it. A rival must raise the mean log predictive by more
    than two standard errors of the difference over bags, and by 0.05: leave-one-bag-out flatters flexible kernels.
    """
    best, learned = record.gp, loo_scores(record, shard, aggregate)
    gain, weights, D = 0.0, shard.weights, shard.X.shape[1]
    rivals = list(product((1.0, 10.0), (1.0, 0.6)))
    for number, (variance, scale) in enumerate(rivals):
        tell(RIVALS, number, len(rivals))
        kernel = RBF(variance, float(scale * np.sqrt(D)))
        candidate = record.gp.rebuilt(kernel)
        difference = _scores(candidate, shard, aggregate) - learned
        found = float(np.average(difference, weights=weights))
        error = np.sqrt(np.average((difference - found) ** 2, weights=weights) / len(difference))
        if found > max(gain, LEAST_GAIN, 2.0 * float(error)):
            best, gain = candidate, found
    return best


def _scores(gp: SparseGP, shard: Shard, aggregate: str) -> Array:
    for record in islice(ascend(shard, KernelState.first(gp)), RIVAL_PASSES):
        tell("passes with another kernel", record.step, RIVAL_PASSES)
    return loo_scores(record, shard, aggregate)
