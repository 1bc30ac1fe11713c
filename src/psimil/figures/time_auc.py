"""Training time against AUC, one marker per model and number of inducing points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psimil.experiments.render import heading, summarise
from psimil.figures.canvas import COLOURS, axes_or_new
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MARKERS = "osD^v<>P"


def time_auc_table(rows: pd.DataFrame, metric: str = "bag_auc") -> pd.DataFrame:
    """Mean and standard deviation of seconds and score per experiment, model and number of inducing points.

    Parameters
    ----------
    rows : one row per run with columns ``model``, ``seconds``, the metric and, optionally, ``experiment`` and
        ``n_inducing``.
    metric : what is drawn against time.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"model": "VGPMIL", "n_inducing": 50, "seconds": [1.0, 3.0], "bag_auc": [0.8, 0.9]})
    >>> time_auc_table(rows)["seconds_mean"].tolist()
    [2.0]
    """
    missing = [name for name in ("model", "seconds", metric) if name not in rows]
    if missing:
        raise InputError(f"the rows have no column {', '.join(missing)}.")
    by = [name for name in ("experiment", "model", "n_inducing") if name in rows]
    table = summarise(rows, by, ["seconds", metric])
    if "experiment" not in table:
        table.insert(0, "experiment", "")
    if "n_inducing" not in table:
        table.insert(2, "n_inducing", float("nan"))
    untimed = table[~(table["seconds_mean"] > 0)]
    if len(untimed):
        raise InputError(f"{untimed['model'].iloc[0]} has no training time above 0. Leave its rows out.")
    return table


def plot_time_auc(rows: pd.DataFrame, metric: str = "bag_auc", *, ax: Axes | None = None) -> Axes:
    """Score against training seconds on a logarithmic axis: colour is the model, shape the experiment, text M.

    Bars are one standard deviation over the runs. For one panel per experiment, call it once per panel with ``ax``.

    Parameters
    ----------
    rows, metric : see :func:`time_auc_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pandas as pd
    >>> from psimil.figures import new_figure
    >>> rows = pd.DataFrame({"model": "VGPMIL", "n_inducing": 50, "seconds": [1.0, 3.0], "bag_auc": [0.8, 0.9]})
    >>> plot_time_auc(rows, ax=new_figure()).get_xscale()
    'log'
    """
    table = time_auc_table(rows, metric)
    ax = axes_or_new(ax)
    _seconds_axis(ax)
    models, experiments = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table["experiment"]))
    for (experiment, model), group in table.groupby(["experiment", "model"], sort=False):
        k, e = models.index(model), experiments.index(experiment)
        points = group.sort_values("n_inducing").fillna({"seconds_sd": 0.0})
        ax.errorbar(
            points["seconds_mean"], points[f"{metric}_mean"],
            xerr=[points["seconds_sd"].clip(upper=0.9 * points["seconds_mean"]), points["seconds_sd"]],
            yerr=points[f"{metric}_sd"], label=f"{model}, {experiment}" if len(experiments) > 1 else model,
            color=COLOURS[k % len(COLOURS)], marker=MARKERS[(e if len(experiments) > 1 else k) % len(MARKERS)],
            linestyle=("-", "--", ":", "-.")[k % 4], linewidth=1, markersize=7, elinewidth=1, capsize=2,
        )  # fmt: skip
        side = 1 if k % 2 == 0 else -1  # labels above the bars of one model, below those of the next
        for point in points.dropna(subset=["n_inducing"]).fillna(0.0).to_dict("records"):
            end = (point["seconds_mean"], point[f"{metric}_mean"] + side * point[f"{metric}_sd"])
            ax.annotate(
                f"M={point['n_inducing']:g}", end, (0, 4 * side), textcoords="offset points", fontsize="small",
                ha="center", va="bottom" if side > 0 else "top",
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
            )  # fmt: skip
    ax.margins(0.1, 0.12)
    if table["seconds_mean"].nunique() == 1 and not table["seconds_sd"].any():  # one point: no range to scale to
        ax.set_xlim(0.5 * table["seconds_mean"].iloc[0], 2.0 * table["seconds_mean"].iloc[0])
    ax.set(xlabel="training time in seconds", ylabel=heading(metric))
    ax.set_title(f"Training time and {heading(metric)}", parse_math=False)
    ax.legend(frameon=False)
    return ax


def _seconds_axis(ax: Axes) -> None:
    """Logarithmic, with plain numbers at 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
