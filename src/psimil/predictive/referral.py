"""Which bags go to a human reader: those nearest the threshold, as many as a target chosen out-of-bag allows.

For probabilities that can be trusted, the chance that a call is wrong depends on the distance of the bag's log-odds
from the threshold alone, so that referring the nearest bags leaves the fewest errors among the kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

KEPT, NEAR, UNLIKE = "", "near the threshold", "unlike the training data"  # why a bag is referred, in every output
BOTH = f"{NEAR} and {UNLIKE}"


def not_analysed(obstacle: str) -> str:
    """The reason of a bag that could not be analysed, whatever its numbers are; empty without an obstacle.

    Examples
    --------
    >>> not_analysed("a single slice"), not_analysed("")
    ('could not be analysed: a single slice', '')
    """
    return f"could not be analysed: {obstacle}" if obstacle else KEPT


class Cost(NamedTuple):
    """What a referral costs and gains.

    Parameters
    ----------
    share : of bags that are referred.
    kept_error : share of wrong calls among the bags that are kept; 0 when none is.
    error : share of wrong calls among all bags.
    """

    share: float
    kept_error: float
    error: float

    @property
    def caught(self) -> float:
        """Share of the wrong calls that are referred; 1 when there are none."""
        return 1.0 - self.kept_error * (1.0 - self.share) / self.error if self.error else 1.0

    @property
    def words(self) -> str:
        """In words.

        Examples
        --------
        >>> Cost(0.2, 0.025, 0.1).words
        '20.0 % referred; wrong calls 10.0 % of all, 2.5 % of the kept: 80 % of them caught'
        """
        if not self.error:
            return f"{100 * self.share:.1f} % referred; no wrong calls"
        of_all, kept = f"{100 * self.error:.1f} % of all", f"{100 * self.kept_error:.1f} % of the kept"
        return (
            f"{100 * self.share:.1f} % referred; wrong calls {of_all}, {kept}: {100 * self.caught:.0f} % of them caught"
        )


@dataclass(frozen=True)
class Referral:
    """The distance of log-odds from the threshold within which bags are referred, and what that costs out-of-bag.

    Parameters
    ----------
    margin : in log-odds.
    share : of bags that are referred.
    kept_error : share of wrong calls among the bags that are kept.
    error : share of wrong calls among all bags.
    """

    margin: float
    share: float
    kept_error: float
    error: float

    @property
    def cost(self) -> Cost:
        """What it costs out-of-bag."""
        return Cost(self.share, self.kept_error, self.error)
