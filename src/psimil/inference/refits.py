"""Fits repeated on small data, where leave-one-bag-out flatters itself and the bound is a poor guide.

Leave-one-bag-out keeps what the other bags and the inducing points learned beside the bag. With hundreds of bags that
is little; with ninety it is enough to make a calibration overconfident (docs/derivations.md). Small data is cheap to
refit, so there the calibration rests on bags that the fold's inducing points and q(v) have never seen, and the learned
kernel has to stand against a few others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.ascent import KernelState, Pass, ascend
from psimil.inference.leave_one_out import loo_score, loo_scores
from psimil.inference.phases import REFIT_FOLDS, REFIT_PASSES, REFITS, RIVAL_PASSES, RIVALS, tell
from psimil.inference.posterior import latent_moments
from psimil.inference.shards import Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.model.kernels import RBF
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]

SMALL = 500  # bags up to which the calibration refits
STEPS = (1.0, 0.5)  # log steps of the pattern: a factor of 2.7, then of 1.6
SEARCHED = 3.0  # log distance from the collapsed optimum that the search may go: a factor of twenty
LEAST_GAIN = 0.05  # nats per bag that a fixed kernel must gain over the learned one
MAX_PARAMETERS = 4  # beyond this, length scales move together


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
