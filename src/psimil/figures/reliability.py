"""Whether probabilities mean what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from psimil.figures.canvas import BLUE, axes_or_new
from psimil.metrics import expected_calibration_error

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def reliability_table(y: ArrayLike, prob: ArrayLike, bins: int = 10) -> pd.DataFrame:
    """Mean probability and share of positives per bin of equal width; empty bins are left out.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1.

    Examples
    --------
    >>> reliability_table([0, 0, 1, 1], [0.25, 0.25, 0.75, 1.0], bins=2)["positives"].tolist()
    [0.0, 1.0]
    """
    import pandas as pd

    expected_calibration_error(y, prob, bins)  # checks the arguments
    t, p = np.asarray(y, dtype=np.float64), np.asarray(prob, dtype=np.float64)
    k = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(k, minlength=bins)
    used = count > 0
    return pd.DataFrame(
        {
            "bin_start": np.arange(bins)[used] / bins,
            "count": count[used],
            "probability": np.bincount(k, p, minlength=bins)[used] / count[used],
            "positives": np.bincount(k, t, minlength=bins)[used] / count[used],
        }
    )


def plot_reliability(y: ArrayLike, prob: ArrayLike, bins: int = 10, *, ax: Axes | None = None) -> Axes:
    """Share of positives against predicted probability; on the diagonal, probabilities are calibrated.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1, of bags that were not trained on.
    bins : number of bins of equal width.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from psimil.figures import new_figure
    >>> plot_reliability([0, 1, 1], [0.2, 0.6, 0.9], ax=new_figure()).get_ylabel()
    'share of positives'
    """
    table = reliability_table(y, prob, bins)
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="calibrated")
    ax.plot(table["probability"], table["positives"], color=BLUE, marker="o", label="observed")
    for p, share, count in zip(table["probability"], table["positives"], table["count"], strict=True):
        ax.annotate(str(count), (p, share), textcoords="offset points", xytext=(4, 6), fontsize="small")
    error = expected_calibration_error(y, prob, bins)
    ax.set(xlabel="predicted probability", ylabel="share of positives", xlim=(0, 1), ylim=(-0.05, 1.1))
    ax.set_title(f"Reliability: calibration error {error:.3f} (numbers count bags)")
    ax.legend(frameon=False)
    return ax
