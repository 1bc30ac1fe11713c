"""Moments of probabilities under Gaussian latents: instances by quadrature, bags by noisy-or or max, in log space."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import log1mexp, sigmoid, softplus
from psimil.foundations.quadrature import gauss_hermite, trapezoid
from psimil.foundations.threads import ordered_map

Array = NDArray[Any]

_ROWS = 2048
_TINY = 1e-280
_WIDE = 6.0  # above this variance 32 Gauss-Hermite nodes miss the bend of the logistic function


@dataclass(frozen=True)
class InstanceMoments:
    """Per instance (N,): logs of E s and E(1 - s), variance of s = sigma(f), mean and variance of -log(1 - s)."""

    log_p: Array
    log_q: Array
    variance: Array
    risk: Array
    risk_variance: Array

    @property
    def prob(self) -> Array:
        """P(y = 1), Eq. (31)."""
        return np.exp(self.log_p)

    @property
    def std(self) -> Array:
        """Standard deviation of sigma(f), Eq. (33)."""
        return np.sqrt(self.variance)

    @property
    def log_odds(self) -> Array:
        """log p / (1 - p)."""
        return self.log_p - self.log_q


def instance_moments(mean: Array, variance: Array, order: int = 32) -> InstanceMoments:
    """Eqs. (32) and (33) by quadrature instead of sampling: Gauss-Hermite, or the trapezoid rule for wide latents.

    Parameters
    ----------
    mean, variance : (N,) of the latent f.

    Examples
    --------
    >>> instance_moments(np.array([0.0]), np.array([1.0])).prob.round(6)
    array([0.5])
    """
    columns = [np.empty(len(mean)) for _ in fields(InstanceMoments)]
    wide = variance > _WIDE
    for rule, rows in ((gauss_hermite(order), np.flatnonzero(~wide)), (trapezoid(), np.flatnonzero(wide))):
        x, w = rule

        def part(start: int, rows: Array = rows, x: Array = x, w: Array = w) -> None:
            chosen = rows[start : start + _ROWS]
            mu, s2 = mean[chosen], variance[chosen]
            found = _moments(mu, s2, mu[:, None] + np.sqrt(s2)[:, None] * x, w)
            for column, values in zip(columns, found, strict=True):
                column[chosen] = values

        for _ in ordered_map(part, range(0, len(rows), _ROWS)):
            pass
    return InstanceMoments(*columns)


def sampled_moments(mean: Array, variance: Array, rng: np.random.Generator, samples: int) -> InstanceMoments:
    """Eqs. (32) and (33) as in the paper: averages over ``samples`` draws of f for each instance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sampled_moments(np.zeros(1), np.ones(1), rng, 10_000).prob.round(2)
    array([0.5])
    """
    parts = []
    for start in range(0, len(mean), _ROWS):
        mu, s2 = mean[start : start + _ROWS], variance[start : start + _ROWS]
        f = mu[:, None] + np.sqrt(s2)[:, None] * rng.standard_normal((len(mu), samples))
        parts.append(_moments(mu, s2, f, np.full(samples, 1.0 / samples)))
    return InstanceMoments(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _moments(mu: Array, s2: Array, f: Array, w: Array) -> tuple[Array, ...]:
    e = np.exp(-np.abs(f))
    total = 1.0 / (1.0 + e)
    upper = f >= 0
    s = np.where(upper, total, e * total)
    q = np.where(upper, e * total, total)
    risk = np.maximum(f, 0.0) - np.log(total)  # -log(1 - s) = softplus(f)
    mean_s, mean_q, mean_risk = s @ w, q @ w, risk @ w
    s -= mean_s[:, None]
    risk -= mean_risk[:, None]
    with np.errstate(divide="ignore"):  # far in a tail sigma(f) is exp(f), a lognormal
        log_p = np.where(mean_s > _TINY, np.log(mean_s), np.minimum(mu + 0.5 * s2, 0.0))
        log_q = np.where(mean_q > _TINY, np.log(mean_q), np.minimum(-mu + 0.5 * s2, 0.0))
    mean_risk = np.maximum(mean_risk, np.exp(np.minimum(log_p, 0.0)))
    return log_p, log_q, np.square(s) @ w, mean_risk, np.square(risk) @ w


@dataclass(frozen=True)
class BagMoments:
    """Per bag (B,): log-odds, probability, its standard deviation, and a central interval."""

    log_odds: Array
    prob: Array
    std: Array
    lower: Array
    upper: Array


def match_softplus(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean a and standard deviation t (B,) of a Gaussian whose softplus has the given mean and variance (Newton).

    Examples
    --------
    >>> moments = instance_moments(np.array([1.0]), np.array([4.0]))
    >>> [x.round(4) for x in match_softplus(moments.risk, moments.risk_variance)]
    [array([1.]), array([2.])]
    """
    x, w = gauss_hermite()
    mean, variance = np.maximum(mean, 1e-250), np.minimum(variance, 1e250)
    # the lognormal and the normal limit share these starting values
    t = np.log1p(variance / np.square(mean))
    a = np.where(mean < 1, np.log(mean) - 0.5 * t, mean)
    t = np.where(mean < 1, np.sqrt(t), np.sqrt(variance))
    target = np.stack([np.log(mean), 0.5 * np.log(np.maximum(variance, 1e-300))])
    fixed = variance <= 1e-16 * np.square(mean)
    best_a, best_t, best = a.copy(), t.copy(), np.full(len(a), np.inf)
    for _ in range(12):
        f = a[:, None] + t[:, None] * x
        plus, s = softplus(f), sigmoid(f)
        first = np.maximum(plus @ w, 1e-300)
        plus -= first[:, None]
        second = np.maximum(np.square(plus) @ w, 1e-300)
        error = np.stack([np.log(first), 0.5 * np.log(second)]) - target
        size = np.abs(error).sum(axis=0)
        better = size < best
        best_a, best_t, best = np.where(better, a, best_a), np.where(better, t, best_t), np.where(better, size, best)
        by_a = np.stack([s @ w / first, (plus * s) @ w / second])
        by_t = np.stack([(s * x) @ w / first, (plus * s * x) @ w / second]) * t
        det = by_a[0] * by_t[1] - by_a[1] * by_t[0]
        det = np.where(np.abs(det) < 1e-12, 1e-12, det)
        step_a = np.clip((by_t[1] * error[0] - by_t[0] * error[1]) / det, -2.0, 2.0)
        step_t = np.clip((by_a[0] * error[1] - by_a[1] * error[0]) / det, -1.0, 1.0)
        a, t = a - step_a, t * np.exp(-step_t)
    certain = np.log(np.expm1(np.minimum(mean, 700.0)))
    return np.where(fixed, certain, best_a), np.where(fixed, 0.0, best_t)


def noisy_or(instances: InstanceMoments, offsets: Array, z: float) -> BagMoments:
    """Eqs. (36) and (37) in closed form: P = 1 - prod E(1 - s_n), Var = prod E(1 - s_n)^2 - prod (E(1 - s_n))^2.

    The interval at +-z matches the total risk X = -sum log(1 - s_n) with that of a single Gaussian log-odds; the bag's
    probability is 1 - exp(-X), so a bag of one instance gets that instance's interval exactly.

    Examples
    --------
    >>> bag = noisy_or(instance_moments(np.zeros(2), np.zeros(2)), np.array([0, 2]), 1.96)
    >>> bag.prob, bag.std
    (array([0.75]), array([0.]))
    """
    starts = offsets[:-1]
    log_survival = np.add.reduceat(instances.log_q, starts)
    log_p = log1mexp(log_survival)
    # when every p_n is tiny their sum is exact where 1 - prod loses digits
    tiny = log_survival > -1e-14
    if tiny.any():
        log_p = np.where(tiny, np.log(np.add.reduceat(np.exp(instances.log_p), starts) + 1e-323), log_p)
    with np.errstate(over="ignore", under="ignore"):
        spread = np.log1p(instances.variance * np.exp(np.minimum(-2.0 * instances.log_q, 650.0)))
    variance = np.exp(2.0 * log_survival) * np.expm1(np.minimum(np.add.reduceat(spread, starts), 700.0))
    risk, risk_variance = (np.add.reduceat(v, starts) for v in (instances.risk, instances.risk_variance))
    centre, width = match_softplus(risk, risk_variance)
    low, high = sigmoid(centre - z * width), sigmoid(centre + z * width)
    prob = np.exp(log_p)
    std = np.sqrt(np.minimum(variance, prob * -np.expm1(log_p)))
    return BagMoments(log_p - log_survival, prob, std, low, high)


def largest(instances: InstanceMoments, offsets: Array, low: Array, high: Array) -> BagMoments:
    """The bag takes the moments and interval of its most probable instance.

    Examples
    --------
    >>> moments = instance_moments(np.array([0.0, 1.0]), np.zeros(2))
    >>> largest(moments, np.array([0, 2]), moments.prob, moments.prob).prob.round(4)
    array([0.7311])
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    winner = np.lexsort((-instances.log_odds, bag))[offsets[:-1]]
    chosen = InstanceMoments(*(getattr(instances, f.name)[winner] for f in fields(InstanceMoments)))
    return BagMoments(chosen.log_odds, chosen.prob, chosen.std, low[winner], high[winner])
