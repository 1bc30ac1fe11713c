"""How far runs lie apart, as ends of error bars that are possible scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

UNBOUNDED = ("log_loss", "seconds", "passes")  # metrics without a largest value


def largest_score(metric: str) -> float:
    """What no score of this name exceeds.

    Examples
    --------
    >>> largest_score("bag_auc"), largest_score("bag_log_loss")
    (1.0, inf)
    """
    return float("inf") if metric.endswith(UNBOUNDED) else 1.0


def ends(mean: pd.Series, sd: pd.Series, metric: str) -> tuple[pd.Series, pd.Series]:
    """One standard deviation below and above the mean, but no further than a score of this name can go.

    A bar that ends at 0 or at the largest score is shorter than the other half; of one run there is no deviation, and
    both ends are the mean. A mean outside the range, which no score has, is its own end.

    Examples
    --------
    >>> import pandas as pd
    >>> low, high = ends(pd.Series([0.97]), pd.Series([0.05]), "bag_auc")
    >>> low.round(2).item(), high.item()
    (0.92, 1.0)
    """
    around = sd.fillna(0.0)
    low, high = (mean - around).clip(lower=0.0), (mean + around).clip(upper=largest_score(metric))
    return low.where(low < mean, mean), high.where(high > mean, mean)
