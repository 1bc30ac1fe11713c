"""The evidence lower bound, term by term, constants included."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
