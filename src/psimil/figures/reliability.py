"""Whether probabilities mean what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from psimil.figures.canvas import BLUE, axes_or_new
from psimil.figures.lettering import SMALLEST, axes_points, legend_below, titled
from psimil.foundations.numbers import at_least
from psimil.results.metrics import expected_calibration_error

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LEVEL = 0.95  # of the confidence bars
FEW = 10  # bags in a bin below which its marker is hollow


def reliability_table(y: ArrayLike, prob: ArrayLike, bins: int = 10, repeats: int = 1) -> pd.DataFrame:
    """Mean probability and share of positives per bin of equal width; empty bins are left out.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1.
    bins : number of bins of equal width.
    repeats : how often each bag is among the B, as in repeated cross-validation; the intervals count it once.

    Returns
    -------
    table : columns ``bin_start``, ``count``, ``probability``, ``positives`` (the share) and its 95 % Wilson interval,
        ``lower`` and ``upper``, which is wide where a bin has few bags.

    Examples
    --------
    >>> table = reliability_table([0, 0, 1, 1], [0.25, 0.25, 0.75, 1.0], bins=2)
    >>> table["positives"].tolist(), table["upper"].round(2).tolist()
    ([0.0, 1.0], [0.66, 1.0])
    """
    import pandas as pd

    expected_calibration_error(y, prob, bins)  # checks the arguments
    at_least(1, whole=True, repeats=repeats)
    t, p = np.asarray(y, dtype=np.float64), np.asarray(prob, dtype=np.float64)
    k = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(k, minlength=bins)
    used = count > 0
    share = np.bincount(k, t, minlength=bins)[used] / count[used]
    lower, upper = _wilson(share, count[used] / repeats)
    return pd.DataFrame(
        {
            "bin_start": np.arange(bins)[used] / bins,
            "count": count[used],
            "probability": np.bincount(k, p, minlength=bins)[used] / count[used],
            "positives": share,
            "lower": lower,
            "upper": upper,
        }
    )


def plot_reliability(
    y: ArrayLike, prob: ArrayLike, bins: int = 10, repeats: int = 1, *, ax: Axes | None = None
) -> Axes:
    """Share of positives against predicted probability; on the diagonal, probabilities are calibrated.

    Bars are 95 % Wilson intervals of the share, numbers at the top count the bags of a bin, and the marker of a bin
    with fewer than ten bags is hollow.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1, of bags that were not trained on.
    bins, repeats : see :func:`reliability_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil.figures import new_figure
    >>> plot_reliability([0, 1, 1], [0.2, 0.6, 0.9], ax=new_figure()).get_ylabel()
    'share of positives'
    """
    table = reliability_table(y, prob, bins, repeats)
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="calibrated")
    gaps = np.stack([table["positives"] - table["lower"], table["upper"] - table["positives"]])
    few = (table["count"] < FEW * repeats).to_numpy()
    for part, fill, name in ((~few, BLUE, "observed"), (few, "white", f"fewer than {FEW} bags")):
        if part.any():
            ax.errorbar(
                table["probability"][part], table["positives"][part], gaps[:, part], fmt="o", color=BLUE, capsize=2,
                markerfacecolor=fill, elinewidth=1, label=f"{name}, {LEVEL:.0%} interval",
            )  # fmt: skip
    ax.set(xlabel="predicted probability", ylabel="share of positives", xlim=(-0.02, 1.02), ylim=(-0.03, 1.03))
    error = expected_calibration_error(y, prob, bins)
    words = f"Reliability: calibration error {error:.3f}"
    if _counts(ax, table, bins):
        titled(ax, f"{words} (numbers count bags)", pad=16)
    else:
        titled(ax, words)
    legend_below(ax)
    return ax


def _counts(ax: Axes, table: pd.DataFrame, bins: int) -> bool:
    """The number of bags above each bin, if there is room for all of them."""
    cell = axes_points(ax)[0] / 1.04 / bins
    if cell < SMALLEST * (0.65 * len(str(table["count"].max())) + 0.4):
        return False
    for start, count in zip(table["bin_start"], table["count"], strict=True):
        ax.annotate(str(count), (start + 0.5 / bins, 1.0), (0, 3), ("data", "axes fraction"), ha="center",
                    textcoords="offset points", fontsize=SMALLEST)  # fmt: skip
    return True


def _wilson(share: NDArray[Any], count: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Wilson's score interval of a share among so many; it never leaves [0, 1], and has the share inside."""
    z = ndtri(0.5 + LEVEL / 2)
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return np.clip(centre - half, 0.0, share), np.clip(centre + half, share, 1.0)
