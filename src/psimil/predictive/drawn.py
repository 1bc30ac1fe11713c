"""Predictions from draws of v: moments and quantiles of what each draw says of bags and instances, skew and all."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from psimil.foundations.logistic import log1mexp, sigmoid, softplus
from psimil.model.chains import log_odds
from psimil.model.shared_labels import total_hazard
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.predictive.aggregates import AGGREGATES, BagMoments, Dependence, dependence_of
from psimil.predictive.moments import Calibration, InstanceMoments

Array = NDArray[Any]


class Bounds(NamedTuple):
    """Ends of credible intervals, quantiles of draws: of bags (B,), and of instances (N,)."""

    lower: Array
    upper: Array
    instance_lower: Array
    instance_upper: Array


class Drawn(NamedTuple):
    """What draws say of some bags: latent mean and variance (N,), moments of instances and bags, and intervals.

    ``novelty`` (N,) is not of draws, but of the instances that they were made for; None where it is not known.
    """

    mean: Array
    variance: Array
    instances: InstanceMoments
    bags: BagMoments
    bounds: Bounds
    novelty: Array | None = None


class Latent(NamedTuple):
    """What q(v) says of some bags: mean and variance (N,) of latent values, and what a prediction asks of them besides.

    Parameters
    ----------
    novelty : (N,) of the instances; None where the model knows none.
    dependence : of the instances of each bag; None where they are taken for independent.
    """

    mean: Array
    variance: Array
    novelty: Array | None = None
    dependence: Dependence | None = None


def from_draws(
    f: Array, offsets: Array, aggregate: str, level: float, links: Array | None = None, sharing: float = 0.0
) -> Drawn:
    """Of latent values f (S, N) of bags, one row for each draw of v.

    Parameters
    ----------
    offsets : (B + 1,) first instance of each bag.
    aggregate : "noisy_or" or "max".
    level : mass of the intervals.
    links : (N,) J from each label to the next of its bag; None where there are none.
    sharing : tau of the noise that labels of a bag share, without links.

    Examples
    --------
    >>> found = from_draws(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0, 2]), "noisy_or", 0.95)
    >>> found.mean, found.bags.prob.round(3)  # the mean of 3/4 and of 1 - 1/2 (1 - sigma(2))
    (array([1., 0.]), array([0.845]))
    """
    mean, variance = f.mean(axis=0), f.var(axis=0)
    if links is None:
        log_negative = -total_hazard(softplus(f), offsets, sharing)
    else:
        f, log_negative = log_odds(f, links, offsets)
    log_p, log_q = _log_mean(-softplus(-f)), _log_mean(-softplus(f))
    instances = InstanceMoments(log_p, log_q, sigmoid(f).var(axis=0))
    if aggregate == "noisy_or":
        log_positive = log1mexp(log_negative)
    else:
        top = np.maximum.reduceat(f, offsets[:-1], axis=1)
        log_negative, log_positive = -softplus(top), -softplus(-top)
    log_p, log_q = _log_mean(log_positive), _log_mean(log_negative)
    prob = np.exp(log_positive)
    bags = BagMoments(log_p - log_q, np.exp(log_p), prob.std(axis=0))
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    bounds = Bounds(*np.quantile(prob, ends, axis=0), *sigmoid(np.quantile(f, ends, axis=0)))
    return Drawn(mean, variance, instances, bags, bounds)


def summed_out(f: Array, links: Array, offsets: Array) -> tuple[Array, Array, Dependence]:
    """Mean and variance (N,) of the log-odds of each label with its neighbours summed out, and their dependence.

    They stand for those of latent values where labels are chains.

    Parameters
    ----------
    f : (S, N) draws of latent values.
    links : (N,) J from each label to the next of its bag.
    offsets : (B + 1,) first instance of each bag.

    Examples
    --------
    >>> mean, variance, _ = summed_out(np.array([[-2.0, 0.0], [2.0, 0.0]]), np.array([1.0, 0.0]), np.array([0, 2]))
    >>> mean.round(9), variance.round(2)  # an instance that says nothing follows its neighbour
    (array([0., 0.]), array([4.  , 0.54]))
    """
    f, log_negatives = log_odds(f, links, offsets)
    variance = f.var(axis=0)
    return f.mean(axis=0), variance, dependence_of(f, variance, offsets, log_negatives=log_negatives)


def _log_mean(values: Array) -> Array:
    """(N,) log of the mean of e^values over the draws of values (S, N)."""
    return np.asarray(np.minimum(logsumexp(values, axis=0) - np.log(len(values)), 0.0))


def joint_std(
    gp: SparseGP,
    posterior: Posterior,
    X: Array,
    offsets: Array,
    *,
    aggregate: str,
    calibration: Calibration,
    rng: np.random.Generator,
    samples: int = 500,
) -> Array:
    """(B,) standard deviation of the bag probability under the joint q(f) of each bag, by sampling v.

    Parameters
    ----------
    X : (N, D) instances in model coordinates, bag after bag.
    offsets : (B + 1,).
    """
    deviations = posterior.U @ rng.standard_normal((len(posterior.m), samples))
    std = np.empty(len(offsets) - 1)
    for b, (start, stop) in enumerate(pairwise(offsets)):
        part = X[start:stop].astype(np.float64)
        V = gp.features(part)
        k = gp.residual_variance(part, V)
        noise = V @ deviations + np.sqrt(k)[:, None] * rng.standard_normal((len(part), samples))
        f = (calibration.scale * (V @ posterior.m) + calibration.shift)[:, None] + calibration.spread * noise
        std[b] = AGGREGATES[aggregate].of_draws(f).std()
    return std
