"""From instances to bags: how instances of a bag hang together, and rules with moments, interval and draws of each.

Instances of one bag share v, so that 1 - E prod(1 - s_n) is not 1 - prod E(1 - s_n): where latent values rise and fall
together, a product of marginals counts the same doubt many times and takes large bags for positive. Marginals are known
exactly (by quadrature), so what the draws say of them is a control variate: with A = prod(1 - s_n) over its mean and
C = sum (1 - s_n) over their means, the log of E prod(1 - s_n) is corrected by w = Cov(A, C) / Var(C) times the error of
the draws in sum log E(1 - s_n). A bag of one has w = 1 and gets its instance's numbers exactly; for a thousand
instances, whose errors add up, w is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import log1mexp, sigmoid, softplus
from psimil.model.shared_labels import total_hazard
from psimil.predictive.moments import InstanceMoments, instance_interval, noisy_or_interval

Array = NDArray[Any]
Some = TypeVar("Some")

DRAWS = 128  # of the latent values of every bag
TINY = 1e-300
ROUNDING = 1e-24  # variance of relative values that may be rounding alone


class Dependence(NamedTuple):
    """Of B bags, each (B,), as draws say.

    Parameters
    ----------
    log_negative, log_apart : log E prod(1 - s_n), and sum log E(1 - s_n) as if instances were independent.
    log_std, log_std_apart : log of the standard deviation of prod(1 - s_n), and as if instances were independent.
    weight : w, how far exact marginals correct the draws.
    centre, width : mean and standard deviation of the log-odds of 1 - prod(1 - s_n).
    log_share : log of E -log prod(1 - s_n) over that of independent labels, 0 without shared noise and links. Where
        probabilities are so small that they add up, it is what is left of their sum.
    """

    log_negative: Array
    log_apart: Array
    log_std: Array
    log_std_apart: Array
    weight: Array
    centre: Array
    width: Array
    log_share: Array

    @property
    def log_ratio(self) -> Array:
        """(B,) log E prod(1 - s_n) - sum log E(1 - s_n), above 0 where latent values rise and fall together."""
        return self.log_negative - self.log_apart

    @property
    def std_ratio(self) -> Array:
        """(B,) standard deviation of the bag's probability over that of independent instances."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.nan_to_num(np.exp(self.log_std - self.log_std_apart), nan=1.0))

    def corrected(self, log_apart: Array, log_std_apart: Array) -> tuple[Array, Array]:
        """log E prod(1 - s_n) and the log of its deviation (B,), given exact values for independent instances."""
        with np.errstate(invalid="ignore"):
            error, of_std = log_apart - self.log_apart, log_std_apart - self.log_std_apart
        error, of_std = (np.where(np.isfinite(value), value, 0.0) for value in (error, of_std))
        return self.log_negative + self.weight * error, self.log_std + self.weight * of_std

    def taken(self, bags: Array) -> Dependence:
        """That of some of the bags."""
        return Dependence(*(values[bags] for values in self))


def log_std_of_product(log_mean: Array, relative: Array) -> Array:
    """Log of the standard deviation of a product of independent factors.

    Parameters
    ----------
    log_mean : of the product.
    relative : sum over its factors of log(1 + variance / mean^2).

    Examples
    --------
    >>> np.exp(log_std_of_product(np.zeros(1), np.log1p(np.array([0.25])))).round(12)
    array([0.5])
    """
    return np.asarray(log_mean + 0.5 * (relative + log1mexp(-np.maximum(relative, TINY))))


def dependence_of(
    f: Array, variance: Array, offsets: Array, sharing: float = 0.0, log_negatives: Array | None = None
) -> Dependence:
    """The dependence that joint draws f (S, N) of the latent values of some bags show.

    Parameters
    ----------
    variance : (N,) of the latent values, of which that of the draws is an estimate.
    sharing : tau of the noise that labels of a bag share.
    log_negatives : (S, B) log P(all y = 0) of each draw, where labels are a chain.

    Examples
    --------
    >>> same = np.repeat(np.array([[-1.0], [1.0]]), 2, axis=1)  # two instances that are always equal
    >>> found = dependence_of(same, np.ones(2), np.array([0, 2]))
    >>> found.centre.round(3), bool(found.log_ratio > 0), bool(found.std_ratio > 1)
    (array([1.207]), True, True)
    """
    risk, starts = softplus(f), offsets[:-1]
    total = total_hazard(risk, offsets, sharing) if log_negatives is None else -log_negatives
    lowest = risk.min(axis=0)
    negative = np.exp(lowest - risk)  # 1 - s_n over its largest
    apart = negative.mean(axis=0)
    log_q = np.log(apart) - lowest
    least = total.min(axis=0)
    survival = np.exp(least - total)  # prod(1 - s_n) over its largest
    mean = survival.mean(axis=0)
    log_negative, log_apart = np.log(mean) - least, np.add.reduceat(log_q, starts)
    with np.errstate(divide="ignore"):
        log_std = np.log(survival.std(axis=0)) - least
    relative = np.add.reduceat(np.log1p(negative.var(axis=0) / apart**2), starts)
    A, C = survival / mean - 1.0, np.add.reduceat(negative / apart - 1.0, starts, axis=1)
    spread, sums = np.square(C).mean(axis=0), np.add.reduceat(risk.mean(axis=0), starts)
    log_share = np.log(np.maximum(total.mean(axis=0), TINY)) - np.log(np.maximum(sums, TINY))
    weight = np.where(spread > ROUNDING, (A * C).mean(axis=0) / np.maximum(spread, ROUNDING), np.exp(log_share))
    log_odds = total + log1mexp(-np.maximum(total, TINY))
    # instances count for the width by their probability, which is where noise of the draws is corrected
    share = np.maximum(-np.expm1(log_q), TINY)
    known, estimated = (np.add.reduceat(share * values, starts) for values in (variance, f.var(axis=0)))
    width = log_odds.std(axis=0) * np.sqrt(known / np.maximum(estimated, TINY))
    log_std_apart = log_std_of_product(log_apart, relative)
    weight = np.clip(weight, 0.0, 1.0)
    centre = log_odds.mean(axis=0)
    return Dependence(log_negative, log_apart, log_std, log_std_apart, weight, centre, width, log_share)


def joined(parts: Sequence[Some]) -> Some:
    """What is known of some bags at a time, for all of them: arrays one after another, in tuples and dataclasses, too.

    Anything that is no array is the same in all parts.

    Examples
    --------
    >>> one = Dependence(*np.ones((8, 1)))
    >>> joined([one, one]).width, joined([(np.zeros(1), None), (np.ones(2), None)])
    (array([1., 1.]), (array([0., 1., 1.]), None))
    """
    every: Sequence[Any] = parts
    found: Any = every[0]
    if isinstance(found, np.ndarray):
        found = np.concatenate(every)
    elif isinstance(found, tuple):
        columns = [joined(column) for column in zip(*every, strict=True)]
        found = type(found)(*columns) if hasattr(found, "_fields") else tuple(columns)
    elif is_dataclass(found) and not isinstance(found, type):
        names = [field.name for field in fields(found)]
        found = replace(found, **{name: joined([getattr(part, name) for part in every]) for name in names})
    whole: Some = found
    return whole


@dataclass(frozen=True)
class BagMoments:
    """Per bag (B,): log-odds, probability and its standard deviation."""

    log_odds: Array
    prob: Array
    std: Array


def most_probable(instances: InstanceMoments, offsets: Array) -> Array:
    """(B,) index of each bag's most probable instance.

    Examples
    --------
    >>> from psimil.predictive.moments import instance_moments
    >>> most_probable(instance_moments(np.array([0.0, 1.0]), np.zeros(2)), np.array([0, 2]))
    array([1])
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.asarray(np.lexsort((-instances.log_odds, bag))[offsets[:-1]])


@dataclass(frozen=True)
class NoisyOr:
    """The bag is negative when every instance is, Eqs. (34) to (37); every rule has these four methods.

    Examples
    --------
    >>> NoisyOr().of_draws(np.zeros((2, 1)))
    array([0.75])
    """

    def moments(self, instances: InstanceMoments, offsets: Array, dependence: Dependence | None = None) -> BagMoments:
        """Probability, standard deviation and log-odds of B bags; of independent instances without ``dependence``.

        P = 1 - prod E(1 - s_n) and Var = prod E(1 - s_n)^2 - prod (E(1 - s_n))^2, or what dependence makes of them.
        """
        starts = offsets[:-1]
        log_survival = np.add.reduceat(instances.log_q, starts)
        with np.errstate(over="ignore", under="ignore"):
            spread = np.log1p(instances.variance * np.exp(np.minimum(-2.0 * instances.log_q, 650.0)))
            relative = np.add.reduceat(spread, starts)
            variance = np.exp(2.0 * log_survival) * np.expm1(np.minimum(relative, 700.0))
        if dependence is not None:  # between independent instances and ones that are all alike
            most = np.minimum.reduceat(instances.log_q, starts)
            joint, log_std = dependence.corrected(log_survival, log_std_of_product(log_survival, relative))
            log_survival, variance = np.clip(joint, log_survival, most), np.exp(2.0 * log_std)
        log_p = log1mexp(log_survival)
        # when every p_n is tiny their sum, or what shared noise leaves of it, is exact where 1 - prod loses digits
        tiny = log_survival > -1e-10
        if tiny.any():
            top = np.maximum.reduceat(instances.log_p, starts)
            scaled = np.exp(instances.log_p - np.repeat(top, np.diff(offsets)))
            log_sum = np.log(np.add.reduceat(scaled, starts)) + (0.0 if dependence is None else dependence.log_share)
            log_p = np.where(tiny, top + np.maximum(log_sum, 0.0), log_p)
        prob = np.exp(log_p)
        std = np.sqrt(np.minimum(variance, prob * -np.expm1(log_p)))
        return BagMoments(log_p - log_survival, prob, std)

    def interval(
        self,
        latent: tuple[Array, Array],
        instances: InstanceMoments,
        offsets: Array,
        z: float,
        log_odds: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """(B,), (B,) ends of the credible intervals at z standard deviations.

        Parameters
        ----------
        latent : mean and variance (N,).
        log_odds : mean and standard deviation (B,) of the bags' log-odds; None for independent instances.
        """
        if log_odds is None:
            return noisy_or_interval(*latent, offsets, z)
        centre, width = log_odds
        return sigmoid(centre - z * width), sigmoid(centre + z * width)

    def log_negative(self, p: Array, q: Array, changes: Sequence[Array], offsets: Array) -> tuple[Array, Array]:
        """log P(T = 0) (B,) and its derivatives (P, B), from E s, E(1 - s) and the derivatives of E s, each (N,)."""
        starts = offsets[:-1]
        slopes = np.stack([np.add.reduceat(-d / q, starts) for d in changes])
        return np.add.reduceat(np.log(q), starts), slopes

    def of_draws(self, f: Array) -> Array:
        """(S,) probability of one bag for S joint draws f (n, S) of its latent values: 1 - prod(1 - sigma(f))."""
        return np.asarray(-np.expm1(-softplus(f).sum(axis=0)))


@dataclass(frozen=True)
class Largest:
    """The bag is what its most probable instance is.

    Examples
    --------
    >>> Largest().of_draws(np.zeros((2, 1)))
    array([0.5])
    """

    def moments(self, instances: InstanceMoments, offsets: Array, dependence: Dependence | None = None) -> BagMoments:
        """Those of the most probable instance."""
        winner = most_probable(instances, offsets)
        return BagMoments(instances.log_odds[winner], instances.prob[winner], instances.std[winner])

    def interval(
        self,
        latent: tuple[Array, Array],
        instances: InstanceMoments,
        offsets: Array,
        z: float,
        log_odds: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """That of the most probable instance."""
        winner = most_probable(instances, offsets)
        low, high = instance_interval(*latent, z)
        return low[winner], high[winner]

    def log_negative(self, p: Array, q: Array, changes: Sequence[Array], offsets: Array) -> tuple[Array, Array]:
        """Those of the most probable instance."""
        index = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        winner = np.lexsort((-p, index))[offsets[:-1]]
        return np.log(q[winner]), np.stack([-d[winner] / q[winner] for d in changes])

    def of_draws(self, f: Array) -> Array:
        """sigma of the largest."""
        return np.asarray(sigmoid(f.max(axis=0)))


AGGREGATES: dict[str, NoisyOr | Largest] = {"noisy_or": NoisyOr(), "max": Largest()}
