"""From instances to bags: every rule with its moments, interval, likelihood and draws, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import sigmoid, softplus
from psimil.inference.intervals import instance_interval, noisy_or_interval
from psimil.inference.moments import BagMoments, InstanceMoments, largest, most_probable, noisy_or

Array = NDArray[Any]


class Aggregate(Protocol):
    """What prediction and calibration ask of a rule that makes a bag of its instances."""

    def moments(self, instances: InstanceMoments, offsets: Array) -> BagMoments:
        """Probability, standard deviation and log-odds of B bags."""

    def interval(
        self, latent: tuple[Array, Array], instances: InstanceMoments, offsets: Array, z: float
    ) -> tuple[Array, Array]:
        """(B,), (B,) ends of the credible intervals at z standard deviations; latent mean and variance (N,)."""

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

    def moments(self, instances: InstanceMoments, offsets: Array) -> BagMoments:
        """As :func:`noisy_or`."""
        return noisy_or(instances, offsets)

    def interval(
        self, latent: tuple[Array, Array], instances: InstanceMoments, offsets: Array, z: float
    ) -> tuple[Array, Array]:
        """As :func:`noisy_or_interval`."""
        return noisy_or_interval(*latent, offsets, z)

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

    def moments(self, instances: InstanceMoments, offsets: Array) -> BagMoments:
        """As :func:`largest`."""
        return largest(instances, offsets)

    def interval(
        self, latent: tuple[Array, Array], instances: InstanceMoments, offsets: Array, z: float
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
