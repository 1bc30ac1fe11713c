"""Figures of the experiments: scores of models side by side, and training time against AUC, each with its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from psimil.figures.canvas import COLOURS, LINES, axes_or_new
from psimil.figures.lettering import SMALLEST, axes_points, figure_of, legend_below, literal, titled
from psimil.foundations.errors import InputError
from psimil.results.render import heading, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = ("bag_accuracy", "bag_f1", "bag_auc", "instance_accuracy", "instance_f1", "instance_auc")
HATCHES = ("", "//", "..", "xx", "\\\\")  # with seven colours: 35 pairs before one comes again
MARKERS = "osD^v<>P"
PLACES = [(dx, dy) for far in (1, 2, 3, 4, 5) for dy in (11 * far, -11 * far) for dx in (26, -26, 0, 52, -52)]  # points


def bars_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation per model and metric: accuracy, F1 and AUC of bags and of instances, where known.

    Parameters
    ----------
    rows : one row per run of one experiment, with a column ``model`` and the metrics.

    Returns
    -------
    table : columns ``model``, ``metric``, ``mean``, ``sd``, ``lower`` and ``upper`` (one standard deviation to each
        side, ended at 0 and 1), ``n``.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "VGPMIL", "bag_auc": [0.8, 0.9]})
    >>> bars_table(rows)[["metric", "mean", "n"]].round(3).to_dict("records")
    [{'metric': 'bag_auc', 'mean': 0.85, 'n': 2}]
    """
    metrics = [name for name in METRICS if name in rows and rows[name].notna().any()]
    if not metrics:
        raise InputError(f"there is no metric to draw. The rows need one of {', '.join(METRICS)}.")
    table = pd.DataFrame(
        {"model": row["model"], "metric": name, "mean": row[f"{name}_mean"], "sd": row[f"{name}_sd"]}
        | {"n": row[f"{name}_n"]}
        for row in summarise(rows, ["model"], metrics).to_dict("records")
        for name in metrics
    )
    table["lower"], table["upper"] = _ends(table["mean"], table["sd"])
    return table[["model", "metric", "mean", "sd", "lower", "upper", "n"]]


def plot_bars(rows: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Bars per metric, one per model, with their value where it can be read.

    Whiskers are one standard deviation over the runs and end at 0 and 1, which no score exceeds. Bars start at 0.

    Parameters
    ----------
    rows : see :func:`bars_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil.figures import new_figure
    >>> rows = pd.DataFrame({"model": ["VGPMIL", "SVM"], "bag_auc": [0.8, 0.9]})
    >>> len(plot_bars(rows, ax=new_figure()).patches)
    2
    """
    table = bars_table(rows)
    ax = axes_or_new(ax)
    models, names = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table["metric"]))
    width = 0.84 / len(models)
    room = axes_points(ax)[0] * width / (len(names) + 0.1) / 1.25
    for k, model in enumerate(models):
        part = table[table["model"] == model].reset_index(drop=True)
        x = np.arange(len(names)) + (k - (len(models) - 1) / 2) * width
        ax.bar(
            x, part["mean"], width, yerr=[part["mean"] - part["lower"], part["upper"] - part["mean"]], capsize=2,
            label=literal(model), edgecolor="white", color=COLOURS[k % len(COLOURS)], hatch=HATCHES[k % len(HATCHES)],
            error_kw={"linewidth": 1},
        )  # fmt: skip
        for place, mean in zip(x, part["mean"], strict=True):
            if not np.isnan(mean) and room >= SMALLEST:
                ax.text(place, 0.0, f" {mean:.3f}", rotation=90, ha="center", va="bottom", fontsize=min(8.0, room),
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85})  # fmt: skip
    ax.set_xticks(range(len(names)), [heading(name).replace(" ", "\n", 1) for name in names])
    ax.set(xlabel="metric", xlim=(-0.55, len(names) - 0.45))
    ax.set_ylim(0.0 if table["lower"].min() > 0.0 else -0.03, 1.03)
    ax.set_ylabel("mean ± one standard deviation, within [0, 1]", fontsize=9)
    titled(ax, "Scores by model")
    legend_below(ax)
    return ax


def time_auc_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of seconds and bag AUC per model and number of inducing points.

    Beside them the ends of the bars: ``seconds_fastest`` and ``seconds_slowest`` of the runs, ``bag_auc_lower`` and
    ``bag_auc_upper``, which are one standard deviation from the mean and no further than a score can go.

    Parameters
    ----------
    rows : one row per run of one experiment with columns ``model``, ``n_inducing``, ``seconds`` and ``bag_auc``.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "VGPMIL", "n_inducing": 50, "seconds": [1.0, 3.0], "bag_auc": [0.8, 0.9]})
    >>> time_auc_table(rows)["seconds_mean"].tolist()
    [2.0]
    """
    by = [name for name in ("experiment", "model", "n_inducing") if name in rows]
    table = summarise(rows, by, ["seconds", "bag_auc"])
    timed = rows.groupby(by, sort=False, dropna=False, observed=True)["seconds"]
    table["seconds_fastest"], table["seconds_slowest"] = timed.min().to_numpy(), timed.max().to_numpy()
    table["bag_auc_lower"], table["bag_auc_upper"] = _ends(table["bag_auc_mean"], table["bag_auc_sd"])
    untimed = table[~(table["seconds_mean"] > 0)]
    if len(untimed):
        raise InputError(f"{untimed['model'].iloc[0]} has no training time above 0. Leave its rows out.")
    return table


def plot_time_auc(rows: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Bag AUC against training seconds on a logarithmic axis, one marker per model and number of inducing points M.

    Bars across are from the fastest to the slowest run; bars up and down are one standard deviation over the runs and
    end at 0 and 1, which no score exceeds.

    Parameters
    ----------
    rows : see :func:`time_auc_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil.figures import new_figure
    >>> rows = pd.DataFrame({"model": "VGPMIL", "n_inducing": 50, "seconds": [1.0, 3.0], "bag_auc": [0.8, 0.9]})
    >>> plot_time_auc(rows, ax=new_figure()).get_xscale()
    'log'
    """
    table = time_auc_table(rows)
    ax = axes_or_new(ax)
    _seconds_axis(ax)
    for k, (model, group) in enumerate(table.groupby("model", sort=False)):
        points = group.sort_values("n_inducing")
        x, y = points["seconds_mean"], points["bag_auc_mean"]
        ax.errorbar(
            x, y, label=literal(str(model)), xerr=[x - points["seconds_fastest"], points["seconds_slowest"] - x],
            yerr=[y - points["bag_auc_lower"], points["bag_auc_upper"] - y], color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)], linestyle=LINES[k % len(LINES)], linewidth=1, markersize=7, elinewidth=1,
            capsize=2,
        )  # fmt: skip
    ax.margins(0.1, 0.12)
    if table["seconds_slowest"].max() == table["seconds_fastest"].min():  # one time: no range to scale to
        ax.set_xlim(0.5 * table["seconds_mean"].iloc[0], 2.0 * table["seconds_mean"].iloc[0])
    ax.set_yticks([tick for tick in ax.get_yticks() if 0.0 <= tick <= 1.0])
    ax.set_xlabel("training time in seconds, fastest to slowest run")
    ax.set_ylabel("Bag AUC ± one deviation, within [0, 1]")
    titled(ax, "Training time and Bag AUC")
    legend_below(ax)
    _sizes(ax, table)
    return ax


def _ends(mean: pd.Series, sd: pd.Series) -> tuple[pd.Series, pd.Series]:
    """One standard deviation below and above the mean, within 0 and 1; of one run there is none."""
    around = sd.fillna(0.0)
    return (mean - around).clip(lower=0.0), (mean + around).clip(upper=1.0)


def _sizes(ax: Axes, table: pd.DataFrame) -> None:
    """M beside each point, at the first of several places where it covers no point and no other text."""
    from matplotlib.transforms import Bbox

    figure = figure_of(ax)
    figure.draw_without_rendering()
    inside, scale = ax.get_window_extent(), figure.dpi / 72
    spots = ax.transData.transform(table[["seconds_mean", "bag_auc_mean"]].dropna().to_numpy())
    taken = [Bbox.from_bounds(a - 5 * scale, b - 5 * scale, 10 * scale, 10 * scale) for a, b in spots]
    for point in table.dropna(subset=["n_inducing", "bag_auc_mean"]).to_dict("records"):
        text = ax.annotate(
            f"$M={point['n_inducing']:g}$", (point["seconds_mean"], point["bag_auc_mean"]), (0, 0),
            textcoords="offset points", fontsize=SMALLEST + 1, ha="center", va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
        )  # fmt: skip
        box = text.get_window_extent()
        for place in PLACES:
            text.set_position(place)
            moved = box.translated(scale * place[0], scale * place[1])
            free = not any(moved.overlaps(other) for other in taken)
            if free and inside.containsx(moved.x0) and inside.containsx(moved.x1) and inside.containsy(moved.y1):
                break
        taken.append(moved)


def _seconds_axis(ax: Axes) -> None:
    """Logarithmic, with plain numbers at 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
