"""How the instances of a bag hang together under q(v): what joint draws of their latent values say beyond marginals.

Instances of one bag share v, so that 1 - E prod(1 - s_n) is not 1 - prod E(1 - s_n): where latent values rise and fall
together, a product of marginals counts the same doubt many times and takes large bags for positive. Marginals are known
exactly (by quadrature), so what the draws say of them is a control variate: with A = prod(1 - s_n) over its mean and
C = sum (1 - s_n) over their means, the log of E prod(1 - s_n) is corrected by w = Cov(A, C) / Var(C) times the error of
the draws in sum log E(1 - s_n). A bag of one has w = 1 and gets its instance's numbers exactly; for a thousand
instances, whose errors add up, w is small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import log1mexp, softplus

Array = NDArray[Any]

DRAWS = 128  # of the latent values of every bag
TINY = 1e-300


class Dependence(NamedTuple):
    """Of B bags, each (B,), as draws say.

    Parameters
    ----------
    log_negative, log_apart : log E prod(1 - s_n), and sum log E(1 - s_n) as if instances were independent.
    log_std, log_std_apart : log of the standard deviation of prod(1 - s_n), and as if instances were independent.
    weight : w, how far exact marginals correct the draws.
    centre, width : mean and standard deviation of the log-odds of 1 - prod(1 - s_n).
    """

    log_negative: Array
    log_apart: Array
    log_std: Array
    log_std_apart: Array
    weight: Array
    centre: Array
    width: Array

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


def stretch(own: Array, wanted: Array) -> Array:
    """What gives deviations of variance ``own`` the variance ``wanted``; 1 where they do not vary at all.

    Examples
    --------
    >>> stretch(np.array([4.0, 0.0]), np.array([1.0, 1.0]))
    array([0.5, 1. ])
    """
    own = np.asarray(own, dtype=np.float64)
    return np.sqrt(np.divide(wanted, own, out=np.ones_like(own), where=own > 1e-100 * wanted))


def dependence_of(f: Array, variance: Array, offsets: Array) -> Dependence:
    """The dependence that joint draws f (S, N) of the latent values of some bags show.

    Parameters
    ----------
    variance : (N,) of the latent values, of which that of the draws is an estimate.

    Examples
    --------
    >>> same = np.repeat(np.array([[-1.0], [1.0]]), 2, axis=1)  # two instances that are always equal
    >>> found = dependence_of(same, np.ones(2), np.array([0, 2]))
    >>> found.centre.round(3), bool(found.log_ratio > 0), bool(found.std_ratio > 1)
    (array([1.207]), True, True)
    """
    risk, starts = softplus(f), offsets[:-1]
    total, lowest = np.add.reduceat(risk, starts, axis=1), risk.min(axis=0)
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
    spread = np.square(C).mean(axis=0)
    weight = np.where(spread > TINY, (A * C).mean(axis=0) / np.maximum(spread, TINY), 1.0)
    log_odds = total + log1mexp(-np.maximum(total, TINY))
    # instances count for the width by their probability, which is where noise of the draws is corrected
    share = np.maximum(-np.expm1(log_q), TINY)
    known, estimated = (np.add.reduceat(share * values, starts) for values in (variance, f.var(axis=0)))
    width = log_odds.std(axis=0) * np.sqrt(known / np.maximum(estimated, TINY))
    log_std_apart = log_std_of_product(log_apart, relative)
    weight = np.clip(weight, 0.0, 1.0)
    return Dependence(log_negative, log_apart, log_std, log_std_apart, weight, log_odds.mean(axis=0), width)


def joined(parts: list[Dependence]) -> Dependence:
    """The dependence of all bags from that of some at a time, in their order.

    Examples
    --------
    >>> one = Dependence(*np.ones((7, 1)))
    >>> joined([one, one]).width
    array([1., 1.])
    """
    return Dependence(*(np.concatenate(values) for values in zip(*parts, strict=True)))
