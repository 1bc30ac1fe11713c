"""From instances to bags: every rule has its moments, interval, likelihood and draws in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import log1mexp, sigmoid, softplus
from psimil.inference.dependence import Dependence, log_std_of_product
from psimil.inference.intervals import instance_interval, noisy_or_interval
from psimil.inference.moments import InstanceMoments

Array = NDArray[Any]


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
    >>> from psimil.inference.moments import instance_moments
    >>> most_probable(instance_moments(np.array([0.0, 1.0]), np.zeros(2)), np.array([0, 2]))
    array([1])
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.asarray(np.lexsort((-instances.log_odds, bag))[offsets[:-1]])


class Aggregate(Protocol):
    """What prediction and calibration ask of a rule that makes a bag of its instances."""

    def moments(self, instances: InstanceMoments, offsets: Array, dependence: Dependence | None = None) -> BagMoments:
        """Probability, standard deviation and log-odds of B bags; of independent instances without ``dependence``."""

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

    def log_negative(self, p: Array, q: Array, changes: Sequence[Array], offsets: Array) -> tuple[Array, Array]:
        """log P(T = 0) (B,) and its derivatives (P, B), from E s, E(1 - s) and the derivatives of E s, each (N,)."""

    def of_draws(self, f: Array) -> Array:
        """(S,) probability of one bag for S joint draws f (n, S) of its latent values."""


@dataclass(frozen=True)
class NoisyOr:
    """The bag is negative when every instance is, Eqs. (34) to (37).

    Examples
    --------
    >>> NoisyOr().of_draws(np.zeros((2, 1)))
    array([0.75])
    """

    def moments(self, instances: InstanceMoments, offsets: Array, dependence: Dependence | None = None) -> BagMoments:
        """P = 1 - prod E(1 - s_n), Var = prod E(1 - s_n)^2 - prod (E(1 - s_n))^2, or what dependence makes of them."""
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
        # when every p_n is tiny their sum is exact where 1 - prod loses digits
        tiny = log_survival > -1e-14
        if tiny.any():
            top = np.maximum.reduceat(instances.log_p, starts)
            scaled = np.exp(instances.log_p - np.repeat(top, np.diff(offsets)))
            log_p = np.where(tiny, top + np.log(np.add.reduceat(scaled, starts)), log_p)
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
        """At z standard deviations of the log-odds; as :func:`noisy_or_interval` for independent instances."""
        if log_odds is None:
            return noisy_or_interval(*latent, offsets, z)
        centre, width = log_odds
        return sigmoid(centre - z * width), sigmoid(centre + z * width)

    def log_negative(self, p: Array, q: Array, changes: Sequence[Array], offsets: Array) -> tuple[Array, Array]:
        """Sums over the bag."""
        starts = offsets[:-1]
        slopes = np.stack([np.add.reduceat(-d / q, starts) for d in changes])
        return np.add.reduceat(np.log(q), starts), slopes

    def of_draws(self, f: Array) -> Array:
        """1 - prod(1 - sigma(f))."""
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


AGGREGATES: dict[str, Aggregate] = {"noisy_or": NoisyOr(), "max": Largest()}
