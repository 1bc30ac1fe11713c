"""From latent values of one bag to probabilities, as terms: those of :mod:`psimil.predictive`, with the same nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psimil.export.terms import (
    Term,
    expm1,
    log1mexp,
    log1p,
    log_mean,
    log_tail,
    sigmoid,
    softplus,
    square,
    variance_over,
)
from psimil.foundations.logistic import WIDE, gauss_hermite, trapezoid
from psimil.predictive.aggregates import ROUNDING, TINY
from psimil.predictive.moments import NARROW, TINY_MEAN


class Estimate(NamedTuple):
    """Logs of P(1) and P(0), and the variance of the probability: of instances, each (N,), or of a bag, each (1,)."""

    log_p: Term
    log_q: Term
    variance: Term


def instances_of(mean: Term, variance: Term) -> Estimate:
    """Probabilities of instances from moments (N,) of their latent values, by quadrature."""
    graph, sums = mean.graph, [mean * 0.0 for _ in range(3)]
    ranges = (variance <= NARROW, (variance > NARROW) & (variance <= WIDE), variance > WIDE)
    for chosen, (x, w) in zip(ranges, (gauss_hermite(16), gauss_hermite(32), trapezoid()), strict=True):
        index = graph.node("Squeeze", chosen.apply("NonZero"), np.array([0]))
        f = mean.rows(index).column() + variance.rows(index).apply("Sqrt").column() * x
        s, q = sigmoid(f), sigmoid(-f)
        mean_s, mean_q = s @ w[:, None], q @ w[:, None]
        parts = (mean_s, mean_q, square(s - mean_s) @ w[:, None])
        sums = [
            graph.node("ScatterElements", old, index, part.over("Sum", 1), axis=0)
            for old, part in zip(sums, parts, strict=True)
        ]
    mean_s, mean_q, spread = sums
    return Estimate(_log_of(mean_s, mean_q, mean, variance), _log_of(mean_q, mean_s, -mean, variance), spread)


def _log_of(own: Term, other: Term, mean: Term, variance: Term) -> Term:
    """(N,) log of a mean, from the other one where that is smaller, by its tail where nodes do not reach."""
    near = (own < 0.5).where(own.apply("Log"), log1p(-other.at_most(0.5)))
    far = (own <= TINY_MEAN) | ((variance > WIDE) & (mean < variance.apply("Sqrt") * -6.0))
    return far.where(log_tail(mean.at_most(-1e-3), variance), near)


def instances_of_draws(f: Term, count: int) -> Estimate:
    """The same from draws (N, S) of the latent values themselves."""
    log_p, log_q = (log_mean(-softplus(value), 1, count) for value in (-f, f))
    return Estimate(log_p, log_q, variance_over(sigmoid(f), 1))


def bag_of_draws(f: Term, count: int, aggregate: str, sharing: float) -> Estimate:
    """The bag from draws (N, S) of its latent values."""
    if aggregate == "noisy_or":
        log_negative = -_total_hazard(softplus(f), sharing)
        log_positive = log1mexp(log_negative)
    else:
        top = f.over("Max", 0, keep=True)
        log_negative, log_positive = -softplus(top), -softplus(-top)
    spread = variance_over(log_positive.apply("Exp"), 1)
    return Estimate(log_mean(log_positive, 1, count), log_mean(log_negative, 1, count), spread)


def largest_of(instances: Estimate) -> Estimate:
    """The bag as its most probable instance."""
    winner = instances.log_p.graph.node("ArgMax", instances.log_p - instances.log_q, axis=0, keepdims=1)
    return Estimate(*(part.rows(winner) for part in instances))


def noisy_or_of(instances: Estimate, draws: Term | None, sharing: float) -> Estimate:
    """The bag that one positive instance makes positive.

    Parameters
    ----------
    draws : (N, S) of the latent values, which tell how instances hang together; None for independent ones.
    sharing : tau of the noise that labels share.
    """
    log_p, log_q, spread = instances
    total = log_q.over("Sum", 0, keep=True)
    relative = log1p(spread * (log_q * -2.0).at_most(650.0).apply("Exp")).over("Sum", 0, keep=True)
    of_bag, log_share = (total * 2.0).apply("Exp") * expm1(relative.at_most(700.0)), None
    if draws is not None:
        total, of_bag, log_share = _corrected(total, relative, log_q.over("Min", 0, keep=True), draws, sharing)
    positive = log1mexp(total)
    top = log_p.over("Max", 0, keep=True)
    added = (log_p - top).apply("Exp").over("Sum", 0, keep=True).apply("Log")
    if log_share is not None:
        added = (added + log_share).at_least(0.0)
    positive = (total > -1e-10).where(top + added, positive)
    largest = positive.apply("Exp") * -expm1(positive)
    return Estimate(positive, total, of_bag.at_most(largest))


def _corrected(total: Term, relative: Term, most: Term, draws: Term, sharing: float) -> tuple[Term, Term, Term]:
    """(1,) log P(0) and the variance of the bag, what draws say corrected by what is known of single instances.

    And the log of the part of the sum of tiny probabilities that shared noise leaves.
    """
    risk = softplus(draws)
    sums = _total_hazard(risk, sharing)  # (1, S)
    lowest, least = risk.over("Min", 1, keep=True), sums.over("Min", 1, keep=True)
    negative, survival = (lowest - risk).apply("Exp"), (least - sums).apply("Exp")
    apart, mean = negative.over("Mean", 1, keep=True), survival.over("Mean", 1, keep=True)
    log_negative = (mean.apply("Log") - least).over("Sum", 1)
    log_apart = (apart.apply("Log") - lowest).over("Sum", 1).over("Sum", 0, keep=True)
    log_std = variance_over(survival, 1).apply("Sqrt").apply("Log") - least.over("Sum", 1)
    own_relative = log1p(variance_over(negative, 1) / square(apart.over("Sum", 1))).over("Sum", 0, keep=True)
    A, C = survival / mean - 1.0, (negative / apart - 1.0).over("Sum", 0, keep=True)
    spread = square(C).over("Mean", 1)
    added = risk.over("Mean", 1, keep=True).over("Sum", 0, keep=True).over("Sum", 1)
    log_share = sums.over("Mean", 1).at_least(TINY).apply("Log") - added.at_least(TINY).apply("Log")
    known = (A * C).over("Mean", 1) / spread.at_least(ROUNDING)
    weight = (spread > ROUNDING).where(known, log_share.apply("Exp"))
    weight = weight.at_least(0.0).at_most(1.0)
    error = _finite(total - log_apart)
    of_std = _finite(_log_std(total, relative) - _log_std(log_apart, own_relative))
    joint = (log_negative + weight * error).at_least(total).at_most(most)
    return joint, ((log_std + weight * of_std) * 2.0).apply("Exp"), log_share


def _total_hazard(hazards: Term, sharing: float) -> Term:
    """(1, S) -log P(0) of the bag, from the hazards (N, S) of its instances."""
    if sharing == 0:
        return hazards.over("Sum", 0, keep=True)
    top = hazards.over("Max", 0, keep=True).at_least(TINY)
    parts = (hazards / top).power(1.0 / (1.0 - sharing)).over("Sum", 0, keep=True)
    return top * parts.power(1.0 - sharing)


def _log_std(log_mean_: Term, relative: Term) -> Term:
    """Log of the standard deviation of a product of independent factors."""
    return log_mean_ + (relative + log1mexp(-relative.at_least(TINY))) * 0.5


def _finite(value: Term) -> Term:
    return value.is_finite().where(value, 0.0)
