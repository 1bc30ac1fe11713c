"""What the other bags say about each bag: leave-one-bag-out in closed form.

A bag adds gradient g and curvature Lambda to q(v) = N(m, S). With A = V_b S V_b', taking both
away and making one Newton step without the bag gives its latent values covariance C = (I - A Lambda)^-1 A (plus k~) and
mean mu_b - C g (docs/derivations.md). What the kernel, the inducing points and the sites of other bags learned beside
the bag is kept, which with hundreds of bags is little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import floored, multiply_upper, solve_lower
from psimil.foundations.logistic import antithetic_draws, softplus
from psimil.foundations.scans import innovations, scan
from psimil.inference.algorithm import Record
from psimil.inference.options import Options
from psimil.inference.prediction import BagLayout, Prediction
from psimil.inference.shards import Shard
from psimil.inference.thresholds import taught
from psimil.inference.trained import TrainedModel
from psimil.model.bag_ranges import BagRange
from psimil.predictive.aggregates import DRAWS, Dependence, dependence_of, stretch
from psimil.predictive.calibration import LatentBags
from psimil.predictive.drawn import summed_out

Array = NDArray[Any]

FLOOR = 1e-6  # smallest eigenvalue, relative to q(v), of a precision that a bag has been taken out of


class Cavity(NamedTuple):
    """Latent mean and variance (N,) of every instance without its own bag, and the dependence of instances of a bag."""

    mean: Array
    variance: Array
    dependence: Dependence


def leave_one_out(record: Record, shard: Shard) -> Cavity:
    """What the other bags say about the latent values of each.

    Parameters
    ----------
    record : the last pass, with its q(v).
    shard : some of the bags, or all, for which ``record`` knows gradient and curvature.
    """
    B, sites, posterior, dtype = len(shard.labels.T), record.local, record.next_posterior, shard.X.dtype
    assert sites is not None  # a record of data in memory
    found = Cavity(np.empty(len(shard.X)), np.empty(len(shard.X)), Dependence(*np.empty((len(Dependence._fields), B))))
    m, U = posterior.m.astype(dtype), posterior.U.astype(dtype)
    w, offsets = shard.instance_weights, shard.labels.offsets
    sign = shard.labels.spread(shard.likelihood.sign(shard.labels))
    d, r, links = w * sites.diagonal, np.sqrt(w) * sites.vector, shard.labels.links
    chains = [(w * c, rho) for c, rho in sites.chains]

    def part(chunk: BagRange) -> None:
        rows = chunk.rows
        V, k = shard.rows_of_V(record.gp, chunk)
        mu, W = V @ m, multiply_upper(V.copy(), U)
        g = w[rows] * sites.gradient_at(mu, rows)
        sizes = np.diff(offsets[chunk.first : chunk.last + 1])
        starts = offsets[chunk.first : chunk.last] - chunk.start
        prior = record.gp.prior_variance(shard.X[rows], V)
        for n in np.unique(sizes):
            bags = np.flatnonzero(sizes == n)
            index = (starts[bags][:, None] + np.arange(n)).ravel()
            group = W[index].reshape(len(bags), int(n), -1).astype(np.float64, copy=False)
            g_b, d_b, r_b, sign_b = (
                values[index].reshape(len(bags), int(n)) for values in (g, d[rows], r[rows], sign[rows])
            )
            linked = [(c[rows][index].reshape(g_b.shape), rho[rows][index].reshape(g_b.shape)) for c, rho in chains]
            solve = _by_features if n > W.shape[1] else _by_instances
            moved, half = solve(group, g_b, partial(_curved, d_b, r_b, sign_b, linked))
            variance = np.square(half).sum(axis=-1)
            trusted = np.clip(variance, 0.0, prior[index].reshape(variance.shape)) + k[index].reshape(variance.shape)
            mean = mu[index].reshape(variance.shape) - moved
            noise = antithetic_draws(half.shape[-1], DRAWS, seed=0)
            f = (mean + (half @ noise).transpose(2, 0, 1) * stretch(variance, trusted)).reshape(DRAWS, -1)
            each = np.arange(0, len(bags) * n + 1, n)
            if links is None:
                dependence = dependence_of(f, trusted.ravel(), each)
            else:
                mean, trusted, dependence = summed_out(f, links[rows][index], each)
            found.mean[chunk.start + index], found.variance[chunk.start + index] = mean.ravel(), trusted.ravel()
            for values, own in zip(found.dependence, dependence, strict=True):
                values[chunk.first + bags] = own

    if shard.keep:  # before threads ask for parts of V
        shard.features(record.gp, shard.blocks[0])
    for _ in shard.backend.map(part, shard.ranges):
        pass
    return found


def _curved(d: Array, r: Array, sign: Array, chains: list[tuple[Array, Array]], H: Array) -> Array:
    """H' Lambda H (k, m, m) of k bags of one size for H (k, n, m), with d, r, sign and chains (k, n)."""
    along = np.einsum("bni,bn->bi", H, r)
    for c, _ in chains:
        d = d - c
    found = H.transpose(0, 2, 1) @ (d[:, :, None] * H) + sign[:, :1, None] * along[:, :, None] * along[:, None, :]
    k, n, m = H.shape
    for c, rho in chains:
        W = scan(H.reshape(k * n, m), rho.ravel(), np.arange(0, k * n + 1, n), axis=0).reshape(H.shape)
        found += W.transpose(0, 2, 1) @ (innovations(c.ravel(), rho.ravel()).reshape(k, n, 1) * W)
    return np.asarray(found)


def _by_instances(W: Array, g: Array, curved: Callable[[Array], Array]) -> tuple[Array, Array]:
    """C g (k, n) and a root of C (k, n, n) for bags W (k, n, M), n <= M: C = H (I - H' Lambda H)^-1 H', H H' = A."""
    H = np.asarray(np.linalg.qr(W.transpose(0, 2, 1), mode="r")).transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(np.eye(H.shape[2]) - curved(H))
    half = H @ (vectors / np.sqrt(np.maximum(np.abs(values), FLOOR))[:, None, :])
    return np.einsum("bni,bmi,bm->bn", half, half, g, optimize=True), half


def _by_features(W: Array, g: Array, curved: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The same for n > M, a root (k, n, M): C = W (I - W' Lambda W)^-1 W', an M x M factor for each."""
    half = np.stack(
        [solve_lower(floored(B, FLOOR), one.T).T for B, one in zip(np.eye(W.shape[2]) - curved(W), W, strict=True)]
    )
    return np.einsum("bni,bmi,bm->bn", half, half, g, optimize=True), half


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
        return self.model.assemble(self.bags, calibrated, dependence=self.latent.dependence)

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


def out_of_bag(record: Record, shard: Shard, aggregate: str, *, joint: bool = False) -> LatentBags:
    """Latent moments of every training instance with its own bag left out; with ``joint``, and their dependence."""
    found, labels = leave_one_out(record, shard), shard.labels
    dependence = found.dependence if joint else None
    return LatentBags(found.mean, found.variance, labels.offsets, labels.T, shard.weights, aggregate, dependence)


def loo_score(model: TrainedModel, record: Record, shard: Shard, options: Options) -> float:
    """Mean out-of-bag log predictive of the bags that a fit which ends here reports: higher is better.

    Parameters
    ----------
    model : of the record, before out-of-bag bags have taught it anything.
    """
    unseen, offsets = out_of_bag(record, shard, model.aggregate, joint=model.joint), shard.labels.offsets
    loo = LeaveOneOut(taught(model, unseen, options), BagLayout(np.arange(len(offsets) - 1), offsets), unseen)
    return float(np.average(loo.log_predictive, weights=shard.weights))
