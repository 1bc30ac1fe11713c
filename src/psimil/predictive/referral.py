"""Which bags go to a human reader: those nearest the threshold, as many as a target chosen out-of-bag allows.

For probabilities that can be trusted, the chance that a call is wrong depends on the distance of the bag's log-odds
from the threshold alone, so that referring the nearest bags leaves the fewest errors among the kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

Array = NDArray[Any]

RULE = '"interval", "workload=SHARE" or "error=SHARE" with a share between 0 and 1'
KEPT, NEAR, UNLIKE = "", "near the threshold", "unlike the training data"  # why a bag is referred, in every output
BOTH = f"{NEAR} and {UNLIKE}"


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


def read_referral(rule: Any) -> tuple[str, float]:
    """The kind of a referral rule and its target; a rule that is none is refused.

    Examples
    --------
    >>> read_referral("workload=0.1"), read_referral("interval")
    (('workload', 0.1), ('interval', 0.0))
    """
    kind, _, share = rule.partition("=") if isinstance(rule, str) else ("", "", "")
    if rule == "interval":
        return rule, 0.0
    try:
        target = float(share)
    except ValueError:
        target = np.nan
    if kind not in ("workload", "error") or not 0 < target < 1:
        raise InputError(f"referral must be {RULE}, got {rule!r}.")
    return kind, target


def choose_referral(rule: str, log_odds: Array, T: Array, threshold: float, weights: Array) -> Referral | None:
    """The margin that reaches the target on out-of-bag bags; None for the rule of the interval.

    Parameters
    ----------
    rule : "interval", "workload=SHARE" or "error=SHARE".
    log_odds, T, weights : (B,) out-of-bag log-odds, labels and weights of the bags.
    threshold : probability from which a bag is called positive.

    Examples
    --------
    >>> log_odds, T = np.array([-3.0, -2.0, 0.5, 4.0]), np.array([0, 0, 0, 1])
    >>> found = choose_referral("error=0.1", log_odds, T, 0.5, np.ones(4))
    >>> found.share, found.kept_error, found.error
    (0.25, 0.0, 0.25)
    """
    kind, target = read_referral(rule)
    if kind == "interval":
        return None
    centre = np.log(threshold) - np.log1p(-threshold)
    distance, w = np.abs(log_odds - centre), weights / weights.sum()
    wrong = w * ((log_odds >= centre) != (T == 1))
    order = np.argsort(distance, kind="stable")
    share = np.concatenate([[0.0], np.cumsum(w[order])])
    left = wrong.sum() - np.concatenate([[0.0], np.cumsum(wrong[order])])
    kept_error = left / np.maximum(1.0 - share, 1e-12)
    kept_error[-1] = 0.0
    edges = np.concatenate([[0.0], 0.5 * (distance[order][1:] + distance[order][:-1]), [distance.max() + 1.0]])
    good = share >= target - 1e-12 if kind == "workload" else kept_error <= target + 1e-12
    good &= np.diff(distance[order], prepend=0.0, append=np.inf) > 0  # a margin refers all bags at one distance
    chosen = int(np.argmax(good))
    cost = {"share": float(share[chosen]), "kept_error": float(kept_error[chosen]), "error": float(wrong.sum())}
    return Referral(float(edges[chosen]), **cost)
