"""Training time against AUC, one marker per model and number of inducing points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psimil.figures.canvas import COLOURS, LINES, axes_or_new
from psimil.figures.lettering import SMALLEST, figure_of, legend_below, literal, titled
from psimil.foundations.errors import InputError
from psimil.paper.figures.bars import ends, largest_score
from psimil.results.render import heading, summarise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MARKERS = "osD^v<>P"
PLACES = [(dx, dy) for far in (1, 2, 3, 4, 5) for dy in (11 * far, -11 * far) for dx in (26, -26, 0, 52, -52)]  # points


def time_auc_table(rows: pd.DataFrame, metric: str = "bag_auc") -> pd.DataFrame:
    """Mean and standard deviation of seconds and score per experiment, model and number of inducing points.

    Beside them the ends of the bars: ``seconds_fastest`` and ``seconds_slowest`` of the runs, ``<metric>_lower`` and
    ``<metric>_upper``, which are one standard deviation from the mean and no further than a score can go.

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
    timed = rows.groupby(by, sort=False, dropna=False, observed=True)["seconds"]
    table["seconds_fastest"] = [group.min() for _, group in timed]
    table["seconds_slowest"] = [group.max() for _, group in timed]
    table[f"{metric}_lower"], table[f"{metric}_upper"] = ends(table[f"{metric}_mean"], table[f"{metric}_sd"], metric)
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

    Bars across are from the fastest to the slowest run; bars up and down are one standard deviation over the runs and
    end at 0 and 1, which no score exceeds. For one panel per experiment, call it once per panel with ``ax``.

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
        points = group.sort_values("n_inducing")
        x, y = points["seconds_mean"], points[f"{metric}_mean"]
        name = f"{model}, {experiment}" if len(experiments) > 1 else model
        ax.errorbar(
            x, y, label=literal(name), xerr=[x - points["seconds_fastest"], points["seconds_slowest"] - x],
            yerr=[y - points[f"{metric}_lower"], points[f"{metric}_upper"] - y], color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[(e if len(experiments) > 1 else k) % len(MARKERS)], linestyle=LINES[k % len(LINES)],
            linewidth=1, markersize=7, elinewidth=1, capsize=2,
        )  # fmt: skip
    ax.margins(0.1, 0.12)
    if table["seconds_slowest"].max() == table["seconds_fastest"].min():  # one time: no range to scale to
        ax.set_xlim(0.5 * table["seconds_mean"].iloc[0], 2.0 * table["seconds_mean"].iloc[0])
    ax.set_yticks([tick for tick in ax.get_yticks() if 0.0 <= tick <= largest_score(metric)])
    within = ", within [0, 1]" if largest_score(metric) == 1.0 else ""
    ax.set(
        xlabel="training time in seconds, fastest to slowest run", ylabel=f"{heading(metric)} ± one deviation{within}"
    )
    titled(ax, f"Training time and {heading(metric)}")
    legend_below(ax)
    _sizes(ax, table, metric)
    return ax


def _sizes(ax: Axes, table: pd.DataFrame, metric: str) -> None:
    """M beside each point, at the first of several places where it covers no point and no other text."""
    from matplotlib.transforms import Bbox

    figure = figure_of(ax)
    figure.draw_without_rendering()
    inside, scale = ax.get_window_extent(), figure.dpi / 72
    known = table.dropna(subset=["n_inducing", f"{metric}_mean"])
    spots = ax.transData.transform(table[["seconds_mean", f"{metric}_mean"]].dropna().to_numpy())
    taken = [Bbox.from_bounds(a - 5 * scale, b - 5 * scale, 10 * scale, 10 * scale) for a, b in spots]
    for point in known.to_dict("records"):
        text = ax.annotate(
            f"$M={point['n_inducing']:g}$", (point["seconds_mean"], point[f"{metric}_mean"]), (0, 0),
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
