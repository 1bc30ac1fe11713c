"""Out-of-fold latent moments by refitting, for data small enough that closed-form leave-one-out flatters itself.

Leave-one-bag-out keeps what the other bags and the inducing points learned beside the bag. With hundreds of bags that
is little; with ninety it is enough to make a calibration overconfident (docs/derivations.md). Small data is cheap to
refit, so there the calibration rests on bags that the fold's inducing points and q(v) have never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.ascent import KernelState, ascend
from psimil.inference.latent import latent_moments
from psimil.inference.phases import REFITS, tell
from psimil.inference.shards import InMemory, Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]

SMALL = 500  # bags up to which the calibration refits
FOLDS = 10
PASSES = 30


def cross_fit(shard: Shard, rebuild: Callable[[Array, Array], SparseGP]) -> tuple[Array, Array]:
    """Latent mean and variance (N,) of every instance from a fit without its fold.

    Parameters
    ----------
    rebuild : (X, positive) -> the sparse GP for the instances (n, D) of the other folds; positive (n,) tells which lie
        in positive bags.
    """
    offsets, T = shard.labels.offsets, shard.labels.T
    folds = min(FOLDS, max(2, int(np.bincount(T, minlength=2).min())))
    fold = stratified_folds(T, shard.labels.sum(shard.keys), folds)
    mean, variance = np.empty(len(shard.X)), np.empty(len(shard.X))
    row_fold = np.repeat(fold, np.diff(offsets))
    for number, k in enumerate(np.unique(fold)):
        tell(REFITS, number * PASSES, folds * PASSES)
        inside, held_out = fold != k, row_fold == k
        part = _subset(shard, inside, ~held_out)
        gp = rebuild(part.X, part.labels.spread(part.labels.T) == 1)
        for record in ascend(InMemory(part), KernelState.first(gp)):
            tell(REFITS, number * PASSES + record.step, folds * PASSES)
            if record.step >= PASSES:
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
