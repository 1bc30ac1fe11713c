"""Leave-one-bag-out in closed form: what the other bags say about each bag, without refitting.

With the local parameters of the other bags kept, removing bag b changes q(v) by a low-rank term. With A = V_b S V_b',
r = mu_b - A kappa_b and C = (I - A Theta_b)^-1 A, the bag's latent values have mean r + C Theta_b r and covariance C
(plus k~) without it (docs/derivations.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.blas import multiply_upper
from psimil.foundations.linalg import cholesky, solve_lower
from psimil.foundations.logistic import softplus
from psimil.inference.ascent import Pass
from psimil.inference.calibration import LatentBags, bag_log_likelihoods, fit_calibration
from psimil.inference.prediction import BagLayout, Prediction
from psimil.inference.shards import BagRange, Shard
from psimil.inference.trained import TrainedModel

Array = NDArray[Any]


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
