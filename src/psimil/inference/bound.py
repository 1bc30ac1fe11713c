"""The evidence lower bound, term by term, constants included, and the sums over instances that it follows from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Bound:
    """L = - kl + potential + scale_mixture + bags + entropy - log_z (docs/derivations.md).

    The bound of the joint density of Eqs. (18), (41) and (42), which every update of Eq. (43) raises.

    Examples
    --------
    >>> Bound(kl=1.0, potential=0.5, scale_mixture=-2.0, bags=0.0, entropy=0.25, log_z=0.0).total
    -2.25
    """

    kl: float
    potential: float
    scale_mixture: float
    bags: float
    entropy: float
    log_z: float

    @property
    def total(self) -> float:
        """L."""
        return -self.kl + self.potential + self.scale_mixture + self.bags + self.entropy - self.log_z

    def as_dict(self) -> dict[str, float]:
        """The terms and their total, for a history."""
        return {**asdict(self), "elbo": self.total}


@dataclass(frozen=True)
class Statistics:
    """Sums over instances, Eqs. (58) to (60): V' Theta V (M, M), V' kappa (M,), and the data terms of the bound.

    Examples
    --------
    >>> import numpy as np
    >>> sums = Statistics(np.ones((1, 1)), np.ones(1), 1.0, 2.0, 3.0, 4.0)
    >>> (sums + sums).bags, sums.scaled(0.5).entropy
    (6.0, 2.0)
    """

    V_theta_V: Array
    V_kappa: Array
    potential: float
    scale_mixture: float
    bags: float
    entropy: float

    def __add__(self, other: Statistics) -> Statistics:
        """The sums over two sets of bags."""
        return Statistics(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> Statistics:
        """The sums over ``factor`` times as much data."""
        return Statistics(*(factor * getattr(self, f.name) for f in fields(self)))

    def bound(self, kl: float, log_z: float) -> Bound:
        """L, given the two terms that are not sums over bags."""
        return Bound(kl, self.potential, self.scale_mixture, self.bags, self.entropy, log_z)
