"""The bound of a fit, pass by pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psimil.figures.canvas import COLOURS, axes_or_new, check_columns
from psimil.figures.lettering import legend_below, literal, titled
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D")
STAGES = {
    "kernel": "kernel learned by log p(T)",
    "kernel, bag": "kernel learned in context",  # where the two are compared
    "kernel, none": "kernel learned without context",
    "fit": "fit",
    "loo": "fit with the kernel chosen out-of-bag",  # of 1.0.0
}


def history_table(history: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per pass: stage, iteration, the bound by terms, scores, seconds.

    Parameters
    ----------
    history : ``history_`` of an estimator.

    Examples
    --------
    >>> history_table([{"stage": "fit", "iteration": 1, "elbo": -9.5}]).columns.tolist()
    ['pass', 'stage', 'iteration', 'elbo']
    """
    import pandas as pd

    rows = isinstance(history, Sequence) and all(isinstance(row, Mapping) for row in history)
    if not rows:
        kind = type(history).__name__
        raise InputError(f"history must be the history_ of an estimator, one mapping per pass, got {kind}.")
    if not history:
        raise InputError("the history is empty. Fit the model first.")
    frame = pd.DataFrame([dict(row) for row in history]).drop(columns="pass", errors="ignore")  # of a history.csv
    frame.insert(0, "pass", range(1, len(frame) + 1))
    return frame


def plot_history(history: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """The bound per pass, one curve per stage; bounds of different stages belong to different models.

    Parameters
    ----------
    history : ``history_`` of an estimator.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil.figures import new_figure
    >>> rows = [{"stage": "fit", "iteration": i, "elbo": -10.0 / i} for i in (1, 2, 3)]
    >>> len(plot_history(rows, ax=new_figure()).lines)
    1
    """
    table = history_table(history)
    check_columns(table, ("stage", "elbo"), "an estimator's history_")
    ax = axes_or_new(ax)
    stages = table["stage"]
    if "context" in table:
        stages = stages.where(table["context"].isna(), stages + ", " + table["context"].astype(str))
    for k, stage in enumerate(dict.fromkeys(stages)):
        rows = table[stages == stage]
        ax.plot(rows["pass"], rows["elbo"], marker=MARKERS[k % len(MARKERS)], markersize=3.5, linewidth=1.2,
                color=COLOURS[k % len(COLOURS)], label=literal(STAGES.get(stage, stage)))  # fmt: skip
    ax.set(xlabel="pass", ylabel="bound")
    titled(ax, "Bound of the fit")
    legend_below(ax)
    return ax
