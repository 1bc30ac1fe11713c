"""q(y) of each bag given the latent means: exact, mean field (Eq. 25), or the authors' surrogate.

Each posterior maps the means of whole bags to instance probabilities pi and to the three terms of the bound that
involve labels. ``inf * 0`` in ``log H (1 - E G)`` means 0: with H = inf the bag label holds for certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.logistic import log1mexp, sigmoid, softplus
from psimil.model.bag_likelihoods import Labels


@dataclass(frozen=True)
class LabelPosterior:
    """q(y), Eqs. (9) and (24): pi (N,) and, per bag (B,), terms of the bound: potential, E log p(T|y), entropy."""

    pi: Array
    potential: Array
    bags: Array
    entropy: Array


class LabelUpdate(Protocol):
    """A rule for q(y)."""

    def __call__(self, mu: Array, labels: Labels, previous: Array | None) -> LabelPosterior:
        """q(y) given the latent means mu (N,) and the previous pi (N,), if the rule is iterative."""


def exact(mu: Array, labels: Labels, previous: Array | None = None) -> LabelPosterior:
    """The joint optimum q(y_b) proportional to exp(y'mu) H^G of Eq. (4), in closed form.

    With s_n = sigma(mu_n) and P0 = prod(1 - s_n): T = 1: pi_n = H s_n / (P0 + H (1 - P0)); T = 0: pi_n =
    s_n / (H P0 + 1 - P0). Known instances are fixed: a known positive makes P0 = 0 (docs/mathematics/derivations.md).

    Examples
    --------
    >>> labels = Labels(T=np.array([1, 0]), offsets=np.array([0, 2, 3]))
    >>> exact(np.zeros(3), labels).pi.round(4)
    array([0.6667, 0.6667, 0.    ])
    """
    T, log_H = labels.T, labels.log_H
    plus = softplus(mu)
    free = np.ones(len(mu), dtype=bool) if labels.known is None else labels.known < 0
    log_P0 = -labels.sum(np.where(free, plus, 0.0))
    # log(1 - P0); when every s_n is tiny it is the log of their sum
    with np.errstate(divide="ignore"):
        log_some = np.where(log_P0 > -1e-14, _log_sum(np.where(free, mu - plus, -np.inf), labels), log1mexp(log_P0))
    if labels.known is not None:
        certain = labels.sum((labels.known == 1).astype(float)) > 0
        log_P0, log_some = np.where(certain, -np.inf, log_P0), np.where(certain, 0.0, log_some)
    # mass of the labellings that contradict the bag label, and of those that agree, relative to H
    log_wrong = np.where(T == 1, log_P0, log_some) - log_H
    log_norm = np.logaddexp(np.where(T == 1, log_some, log_P0), log_wrong)
    log_pi = mu - plus - labels.spread(log_norm + np.where(T == 1, 0.0, log_H))
    pi = np.exp(np.minimum(log_pi, 0.0))
    gain = plus - 0.5 * mu  # log 2 cosh(mu / 2)
    if labels.known is not None:
        pi = np.where(free, pi, labels.known)
        gain = np.where(free, gain, (labels.known - 0.5) * mu)
    potential = labels.sum((pi - 0.5) * mu)
    wrong = np.exp(log_wrong - log_norm)
    bags = -_times(log_H, wrong) - softplus(np.array(-log_H))
    total = labels.sum(gain) + log_norm - softplus(np.array(-log_H))
    return LabelPosterior(pi, potential, bags, total - potential - bags)


def mean_field(mu: Array, labels: Labels, previous: Array | None = None) -> LabelPosterior:
    """Eq. (25): independent q(y_n), updated one position of every bag at a time, largest mean first.

    Updating all instances at once is not coordinate ascent and oscillates. For H = inf the limit is taken: the
    instance with the largest mean gets pi = 1, the others sigma(mu); in negative bags pi = 0. Eq. (11) is the same
    update in the older model; Eqs. (44) to (53) derive it.

    Examples
    --------
    >>> labels = Labels(T=np.array([1]), offsets=np.array([0, 2]), log_H=np.log(100.0))
    >>> mean_field(np.array([1.0, -1.0]), labels, np.array([0.5, 0.5])).pi.round(3)
    array([0.965, 0.302])
    """
    if labels.log_H == np.inf:
        return factorised(mu, _certain_mean_field(mu, labels), labels)
    pi0 = exact(mu, labels).pi if previous is None else previous
    sign = labels.spread(2.0 * labels.T - 1.0)
    logit = _logit(pi0)
    free = np.ones(len(mu), dtype=bool) if labels.known is None else labels.known < 0
    if labels.known is not None:
        logit = np.where(free, logit, np.where(labels.known == 1, np.inf, -np.inf))
    survival = -softplus(logit)  # log(1 - pi)
    bag = labels.spread(np.arange(len(labels.T)))
    order = labels.order(mu)
    position = np.arange(len(mu)) - labels.spread(labels.offsets[:-1])
    by_position = order[np.argsort(position, kind="stable")]
    counts = np.cumsum(np.bincount(position))
    for at_position in np.split(by_position, counts[:-1]):
        rows = at_position[free[at_position]]
        others = _segment_others(survival, labels, rows, bag[rows])
        logit[rows] = mu[rows] + sign[rows] * labels.log_H * np.exp(others)
        survival[rows] = -softplus(logit[rows])
    return factorised(mu, sigmoid(logit), labels)


def given(mu: Array, labels: Labels, previous: Array | None = None) -> LabelPosterior:
    """The previous pi, kept: a start from random labels as in the paper.

    Examples
    --------
    >>> labels = Labels(T=np.array([1]), offsets=np.array([0, 2]), log_H=np.log(100.0))
    >>> given(np.zeros(2), labels, np.array([0.9, 0.1])).pi
    array([0.9, 0.1])
    """
    return factorised(mu, exact(mu, labels).pi if previous is None else previous, labels)


@dataclass(frozen=True)
class Rule:
    """A rule for q(y), and what is known of it.

    Parameters
    ----------
    update : the rule.
    breaks_ties : whether it looks at the keys of instances.
    ascends : whether it never lowers the bound.
    """

    update: LabelUpdate
    breaks_ties: bool = False
    ascends: bool = True


EXACT, GIVEN = Rule(exact), Rule(given)
RULES = {"exact": EXACT, "mean_field": Rule(mean_field, breaks_ties=True)}


def _certain_mean_field(mu: Array, labels: Labels) -> Array:
    pi = np.where(labels.spread(labels.T) == 1, sigmoid(mu), 0.0)
    candidates, decided = mu, np.zeros(len(labels.T), dtype=bool)
    if labels.known is not None:
        pi = np.where(labels.known < 0, pi, labels.known)
        candidates = np.where(labels.known == 0, -np.inf, mu)
        decided = labels.sum((labels.known == 1).astype(float)) > 0
    winner = labels.order(candidates)[labels.offsets[:-1]]
    pi[winner[(labels.T == 1) & ~decided]] = 1.0
    return pi


def _segment_others(survival: Array, labels: Labels, rows: Array, bags: Array) -> Array:
    """Log prod_{j != n} (1 - pi_j) for one row per bag; sums without the row itself, so that -inf is exact."""
    own = survival[rows].copy()
    survival[rows] = 0.0
    total = labels.sum(survival)[bags]
    survival[rows] = own
    return np.asarray(total)


def factorised(mu: Array, pi: Array, labels: Labels) -> LabelPosterior:
    """The label terms of the bound for independent q(y_n)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nan_to_num(pi * np.log(pi)) - np.nan_to_num((1 - pi) * np.log1p(-pi))
        log_none = labels.sum(np.log1p(-pi))  # log prod(1 - pi)
    wrong = np.where(labels.T == 1, np.exp(log_none), -np.expm1(log_none))
    bags = -_times(labels.log_H, wrong) - softplus(np.array(-labels.log_H))
    return LabelPosterior(pi, labels.sum((pi - 0.5) * mu), bags, labels.sum(entropy))


def _log_sum(log_values: Array, labels: Labels) -> Array:
    """(B,) log of the sum of exp(log_values) over each bag."""
    top = np.maximum(np.maximum.reduceat(log_values, labels.offsets[:-1]), -1e300)
    return np.asarray(top + np.log(labels.sum(np.exp(log_values - labels.spread(top)))))


def _times(log_H: float, x: Array) -> Array:
    """log_H x with inf * 0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(x == 0, 0.0, log_H * x)


def _logit(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))
