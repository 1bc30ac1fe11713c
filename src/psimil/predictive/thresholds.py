"""What bags that the fit has not seen teach a model: calibration, thresholds, recalibration, referral."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from psimil.foundations.errors import InputError
from psimil.foundations.logistic import sigmoid
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.calibration import LatentBags, calibration_helps, fit_calibration
from psimil.predictive.moments import IDENTITY, probabilities
from psimil.predictive.referral import Referral

if TYPE_CHECKING:
    from psimil.inference.options import Options
    from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

MAX_KNOTS = 200
RULE = '"interval", "workload=SHARE" or "error=SHARE" with a share between 0 and 1'


def taught(model: TrainedModel, unseen: LatentBags, options: Options) -> TrainedModel:
    """The model with calibration, thresholds and recalibration from latent moments of unseen bags."""
    if not unseen.weights.all():
        unseen = unseen.weighing()
    T, weights = unseen.T, unseen.weights
    calibration = IDENTITY
    if options.calibrate is not False and 0 < T.sum() < len(T):
        if options.calibrate is True or calibration_helps(unseen):
            calibration = fit_calibration(unseen)
    latent = calibration.apply(unseen.mean, unseen.variance)
    instances = probabilities(latent, model.expectation, rng=np.random.default_rng(model.seed))
    log_odds, negative = instances.log_odds, np.repeat(T, np.diff(unseen.offsets)) == 0
    each = np.repeat(weights, np.diff(unseen.offsets))
    threshold, rate, of_instances = options.threshold, options.false_positive_rate, 0.5
    of_bags = AGGREGATES[unseen.aggregate].moments(instances, unseen.offsets, unseen.dependence).log_odds
    if threshold is None:
        threshold = bag_threshold(of_bags, T, weights)
    if rate is not None:
        of_instances = instance_threshold(log_odds, negative, rate, each)
    return replace(
        model,
        aggregate=unseen.aggregate,
        calibration=calibration,
        threshold=float(threshold),
        instance_threshold=of_instances,
        recalibration=fit_recalibration(log_odds, negative, each),
        referral=choose_referral(options.referral, of_bags, T, float(threshold), weights),
    )


def bag_threshold(log_odds: Array, T: Array, weights: Array | None = None) -> float:
    """The probability above which a bag is called positive: the out-of-bag accuracy's best, if clearly better than 1/2.

    A threshold replaces 1/2 only when it gains more correct bags than the square root of the decisions it changes.

    Parameters
    ----------
    log_odds : (B,) out-of-bag log-odds.
    T : (B,) bag labels.
    weights : (B,) of the bags, all > 0; 1 each when None.

    Examples
    --------
    >>> bag_threshold(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]))
    0.5
    """
    order = np.argsort(log_odds, kind="stable")
    scores, labels, w = log_odds[order], T[order], np.ones(len(T)) if weights is None else weights[order]
    # calling positive everything from position i on
    correct = np.concatenate([[0.0], np.cumsum(w * (1 - 2 * labels))]) + w @ labels
    below = np.concatenate([[0.0], np.cumsum(w)])
    edges = np.concatenate([[scores[0] - 1.0], 0.5 * (scores[1:] + scores[:-1]), [scores[-1] + 1.0]])
    usable = np.concatenate([[True], np.diff(scores) > 0, [True]])
    neutral = int(np.searchsorted(scores, 0.0, side="left"))
    best = np.flatnonzero(usable & (correct >= correct[usable].max() - 1e-9 * below[-1]))
    chosen = best[np.argmin(np.abs(edges[best]))]
    gain, changed = correct[chosen] - correct[neutral], abs(below[chosen] - below[neutral])
    return _probability(edges[chosen]) if gain > np.sqrt(changed) else 0.5


def instance_threshold(
    log_odds: Array, negative: Array, false_positive_rate: float, weights: Array | None = None
) -> float:
    """The probability that instances of negative bags exceed at the chosen rate, from their out-of-bag scores.

    Parameters
    ----------
    log_odds : (N,) out-of-bag log-odds of all instances.
    negative : (N,) whether the instance lies in a negative bag, and so is known to be negative.
    weights : (N,) of their bags, all > 0; 1 each when None.

    Examples
    --------
    >>> instance_threshold(np.linspace(-4, 4, 101), np.ones(101, dtype=bool), 0.5)
    0.5
    """
    if not negative.any():
        return 0.5
    order = np.argsort(log_odds[negative], kind="stable")
    w = np.ones(len(order)) if weights is None else weights[negative][order]
    first = np.concatenate([[0.0], np.cumsum(w)[:-1]])  # a value of weight 2 has two places
    places = np.column_stack([first, first + np.maximum(w - 1.0, 0.0)]).ravel()
    at = (1.0 - false_positive_rate) * places[-1]
    return _probability(float(np.interp(at, places, np.repeat(log_odds[negative][order], 2))))


@dataclass(frozen=True)
class InstanceRecalibration:
    """A monotone map from out-of-bag log-odds to P(y = 1), linear between knots (K,)."""

    log_odds: Array
    prob: Array

    def apply(self, log_odds: Array) -> Array:
        """(N,) recalibrated probabilities."""
        return np.interp(log_odds, self.log_odds, self.prob)


def fit_recalibration(log_odds: Array, negative: Array, weights: Array | None = None) -> InstanceRecalibration | None:
    """P(y = 1 | score) = 1 - P(negative bag | score) / P(negative bag | low score), by isotonic regression.

    Instances of negative bags show how negatives score; low scores in positive bags are negatives, too, so the share
    of negative bags is flat there and falls where positives appear. None when only one class of bags is at hand. The
    weights (N,) are those of the bags, all > 0; 1 each when None.

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
    scores, w = log_odds[order], np.ones(len(order)) if weights is None else weights[order]
    _, place = np.unique(scores, return_inverse=True)
    count = np.bincount(place, weights=w)
    mean = np.bincount(place, weights=w * negative[order]) / count
    share = isotonic_regression(mean, sample_weight=count, increasing=False)[place]
    ends = np.cumsum(w)
    half = max(ends[-1] // 2, min(1.0, ends[-1]))
    lower = np.clip(half - (ends - w), 0.0, w)  # what of each lies in the lower half
    plateau = lower @ share / half
    prob = np.maximum.accumulate(np.clip(1.0 - share / plateau, 0.0, 1.0))
    steps = np.flatnonzero(np.diff(prob) != 0)
    knots = np.unique(np.concatenate([[0], steps, steps + 1, [len(prob) - 1]]))
    if len(knots) > MAX_KNOTS:
        knots = knots[np.linspace(0, len(knots) - 1, MAX_KNOTS).astype(int)]
    return InstanceRecalibration(scores[knots], prob[knots])


def read_referral(rule: Any) -> tuple[str, float]:
    """The kind of a referral rule and its target; a rule that is none is refused.

    Examples
    --------
    >>> read_referral("workload=0.1"), read_referral("interval")
    (('workload', 0.1), ('interval', 0.0))
    """
    kind, _, share = rule.partition("=") if isinstance(rule, str) else ("", "", "")
    if rule == "interval":
        return rule, 0.0
    try:
        target = float(share)
    except ValueError:
        target = np.nan
    if kind not in ("workload", "error") or not 0 < target < 1:
        raise InputError(f"referral must be {RULE}, got {rule!r}.")
    return kind, target


def choose_referral(rule: str, log_odds: Array, T: Array, threshold: float, weights: Array) -> Referral | None:
    """The margin that reaches the target on out-of-bag bags; None for the rule of the interval.

    Parameters
    ----------
    rule : "interval", "workload=SHARE" or "error=SHARE".
    log_odds, T, weights : (B,) out-of-bag log-odds, labels and weights of the bags.
    threshold : probability from which a bag is called positive.

    Examples
    --------
    >>> log_odds, T = np.array([-3.0, -2.0, 0.5, 4.0]), np.array([0, 0, 0, 1])
    >>> found = choose_referral("error=0.1", log_odds, T, 0.5, np.ones(4))
    >>> found.share, found.kept_error, found.error
    (0.25, 0.0, 0.25)
    """
    kind, target = read_referral(rule)
    if kind == "interval":
        return None
    centre = np.log(threshold) - np.log1p(-threshold)
    distance, w = np.abs(log_odds - centre), weights / weights.sum()
    wrong = w * ((log_odds >= centre) != (T == 1))
    order = np.argsort(distance, kind="stable")
    share = np.concatenate([[0.0], np.cumsum(w[order])])
    left = wrong.sum() - np.concatenate([[0.0], np.cumsum(wrong[order])])
    kept_error = left / np.maximum(1.0 - share, 1e-12)
    kept_error[-1] = 0.0
    edges = np.concatenate([[0.0], 0.5 * (distance[order][1:] + distance[order][:-1]), [distance.max() + 1.0]])
    good = share >= target - 1e-12 if kind == "workload" else kept_error <= target + 1e-12
    good &= np.diff(distance[order], prepend=0.0, append=np.inf) > 0  # a margin refers all bags at one distance
    chosen = int(np.argmax(good))
    cost = {"share": float(share[chosen]), "kept_error": float(kept_error[chosen]), "error": float(wrong.sum())}
    return Referral(float(edges[chosen]), **cost)


def _probability(log_odds: float) -> float:
    """sigma(log_odds), kept off 0 and 1 so that its own log-odds are finite."""
    return float(np.clip(sigmoid(np.array(log_odds)), 1e-300, 1.0 - 2.0**-53))
