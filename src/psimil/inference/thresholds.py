"""What bags that the fit has not seen teach a model: calibration, thresholds, recalibration, referral."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from psimil.foundations.logistic import sigmoid
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.calibration import LatentBags, calibration_helps, fit_calibration
from psimil.predictive.moments import IDENTITY, probabilities
from psimil.predictive.referral import choose_referral

if TYPE_CHECKING:
    from psimil.inference.options import Options
    from psimil.inference.trained import TrainedModel

Array = NDArray[Any]

MAX_KNOTS = 200


def taught(model: TrainedModel, unseen: LatentBags, options: Options) -> TrainedModel:
    """The model with calibration, thresholds and recalibration from latent moments of unseen bags."""
    T = unseen.T
    calibration = IDENTITY
    if options.calibrate is not False and 0 < T.sum() < len(T):
        if options.calibrate is True or calibration_helps(unseen):
            calibration = fit_calibration(unseen)
    latent = calibration.apply(unseen.mean, unseen.variance)
    instances = probabilities(latent, model.expectation, rng=np.random.default_rng(model.seed))
    log_odds, negative = instances.log_odds, np.repeat(T, np.diff(unseen.offsets)) == 0
    threshold, rate, of_instances = options.threshold, options.false_positive_rate, 0.5
    of_bags = AGGREGATES[unseen.aggregate].moments(instances, unseen.offsets, unseen.dependence).log_odds
    if threshold is None:
        threshold = bag_threshold(of_bags, T)
    if rate is not None:
        of_instances = instance_threshold(log_odds, negative, rate)
    return replace(
        model,
        aggregate=unseen.aggregate,
        calibration=calibration,
        threshold=float(threshold),
        instance_threshold=of_instances,
        recalibration=fit_recalibration(log_odds, negative),
        referral=choose_referral(options.referral, of_bags, T, float(threshold), unseen.weights),
    )


def bag_threshold(log_odds: Array, T: Array) -> float:
    """The probability above which a bag is called positive: the out-of-bag accuracy's best, if clearly better than 1/2.

    A threshold replaces 1/2 only when it gains more correct bags than the square root of the decisions it changes.

    Parameters
    ----------
    log_odds : (B,) out-of-bag log-odds.
    T : (B,) bag labels.

    Examples
    --------
    >>> bag_threshold(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]))
    0.5
    """
    order = np.argsort(log_odds, kind="stable")
    scores, labels = log_odds[order], T[order]
    # calling positive everything from position i on
    correct = np.concatenate([[labels.sum()], labels.sum() + np.cumsum(1 - 2 * labels)])
    edges = np.concatenate([[scores[0] - 1.0], 0.5 * (scores[1:] + scores[:-1]), [scores[-1] + 1.0]])
    usable = np.concatenate([[True], np.diff(scores) > 0, [True]])
    neutral = int(np.searchsorted(scores, 0.0, side="left"))
    best = np.flatnonzero(usable & (correct == correct[usable].max()))
    chosen = best[np.argmin(np.abs(edges[best]))]
    gain, changed = correct[chosen] - correct[neutral], abs(int(chosen) - neutral)
    return _probability(edges[chosen]) if gain > np.sqrt(changed) else 0.5


def instance_threshold(log_odds: Array, negative: Array, false_positive_rate: float) -> float:
    """The probability that instances of negative bags exceed at the chosen rate, from their out-of-bag scores.

    Parameters
    ----------
    log_odds : (N,) out-of-bag log-odds of all instances.
    negative : (N,) whether the instance lies in a negative bag, and so is known to be negative.

    Examples
    --------
    >>> instance_threshold(np.linspace(-4, 4, 101), np.ones(101, dtype=bool), 0.5)
    0.5
    """
    if not negative.any():
        return 0.5
    return _probability(np.quantile(log_odds[negative], 1.0 - false_positive_rate))


@dataclass(frozen=True)
class InstanceRecalibration:
    """A monotone map from out-of-bag log-odds to P(y = 1), linear between knots (K,)."""

    log_odds: Array
    prob: Array

    def apply(self, log_odds: Array) -> Array:
        """(N,) recalibrated probabilities."""
        return np.interp(log_odds, self.log_odds, self.prob)


def fit_recalibration(log_odds: Array, negative: Array) -> InstanceRecalibration | None:
    """P(y = 1 | score) = 1 - P(negative bag | score) / P(negative bag | low score), by isotonic regression.

    Instances of negative bags show how negatives score; low scores in positive bags are negatives, too, so the share
    of negative bags is flat there and falls where positives appear. None when only one class of bags is at hand.

    Examples
    --------
    >>> score, negative = np.repeat([-2.0, 2.0], 100), np.tile([True, False], 100)
    >>> negative[100:] = False
    >>> fit_recalibration(score, negative).apply(np.array([-3.0, 3.0]))
    array([0., 1.])
    """
    if negative.all() or not negative.any():
        return None
    order = np.argsort(log_odds, kind="stable")
    scores = log_odds[order]
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    mean = np.bincount(place, weights=negative[order]) / count
    share = isotonic_regression(mean, sample_weight=count.astype(float), increasing=False)[place]
    plateau = share[: max(len(share) // 2, 1)].mean()
    prob = np.maximum.accumulate(np.clip(1.0 - share / plateau, 0.0, 1.0))
    steps = np.flatnonzero(np.diff(prob) != 0)
    knots = np.unique(np.concatenate([[0], steps, steps + 1, [len(prob) - 1]]))
    if len(knots) > MAX_KNOTS:
        knots = knots[np.linspace(0, len(knots) - 1, MAX_KNOTS).astype(int)]
    return InstanceRecalibration(scores[knots], prob[knots])


def _probability(log_odds: float) -> float:
    """sigma(log_odds), kept off 0 and 1 so that its own log-odds are finite."""
    return float(np.clip(sigmoid(np.array(log_odds)), 1e-300, 1.0 - 2.0**-53))
