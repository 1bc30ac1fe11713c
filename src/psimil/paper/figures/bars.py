"""Scores of several models side by side, with the paper's values where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from psimil.figures.canvas import BLACK, COLOURS, axes_or_new
from psimil.figures.lettering import SMALLEST, axes_points, legend_below, literal, titled
from psimil.foundations.errors import InputError
from psimil.results.render import heading, summarise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

METRICS = ("bag_accuracy", "bag_f1", "bag_auc", "instance_accuracy", "instance_f1", "instance_auc")
HATCHES = ("", "//", "..", "xx", "\\\\")  # with seven colours: 35 pairs before one comes again
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


def bars_table(
    rows: pd.DataFrame, metrics: Sequence[str] | None = None, paper: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Mean and standard deviation per model and metric.

    Parameters
    ----------
    rows : one row per run of one experiment, with a column ``model`` and the metrics.
    metrics : None takes accuracy, F1 and AUC of bags and of instances, as far as the rows have them.
    paper : columns ``model``, ``metric``, ``mean``, at most one row per model and metric, such as the rows of
        ``paper_table`` for one number of inducing points.

    Returns
    -------
    table : columns ``model``, ``metric``, ``mean``, ``sd``, ``lower`` and ``upper`` (one standard deviation to each
        side, ended at 0 and, for scores that have one, at the largest value), ``n``, ``paper`` (nan where the paper has
        none).

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"model": "VGPMIL", "bag_auc": [0.8, 0.9]})
    >>> bars_table(rows)[["metric", "mean", "n"]].round(3).to_dict("records")
    [{'metric': 'bag_auc', 'mean': 0.85, 'n': 2}]
    """
    import pandas as pd

    chosen = [m for m in METRICS if m in rows and rows[m].notna().any()] if metrics is None else list(metrics)
    if not chosen:
        raise InputError("there is no metric to draw. Name columns of the rows.")
    wide = summarise(rows, ["model"], chosen)
    printed = {} if paper is None else _printed(paper)
    records = [
        {"model": row["model"], "metric": metric, "mean": row[f"{metric}_mean"], "sd": row[f"{metric}_sd"],
         "n": row[f"{metric}_n"], "paper": printed.get((row["model"], metric), float("nan"))}
        for row in wide.to_dict("records") for metric in chosen
    ]  # fmt: skip
    table = pd.DataFrame(records)
    whiskers = pd.concat([pd.concat(ends(part["mean"], part["sd"], metric), axis=1, keys=["lower", "upper"])
                          for metric, part in table.groupby("metric", sort=False)])  # fmt: skip
    return table.join(whiskers)[["model", "metric", "mean", "sd", "lower", "upper", "n", "paper"]]


def plot_bars(
    rows: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    paper: pd.DataFrame | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Bars per metric, one per model, with their value where it can be read; the paper's is a hollow diamond.

    Whiskers are one standard deviation over the runs and end at 0 and 1, which no score exceeds. Bars start at 0.

    Parameters
    ----------
    rows, metrics, paper : see :func:`bars_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pandas as pd
    >>> from psimil.figures import new_figure
    >>> rows = pd.DataFrame({"model": ["VGPMIL", "SVM"], "bag_auc": [0.8, 0.9]})
    >>> len(plot_bars(rows, ax=new_figure()).patches)
    2
    """
    table = bars_table(rows, metrics, paper)
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
        if part["paper"].notna().any():
            first = not any(line.get_label() == "paper" for line in ax.lines)
            ax.plot(x, part["paper"], "D", markerfacecolor="none", markeredgecolor=BLACK, markersize=5,
                    label="paper" if first else "_paper")  # fmt: skip
    ax.set_xticks(range(len(names)), [heading(name).replace(" ", "\n", 1) for name in names])
    ax.set(xlabel="metric", xlim=(-0.55, len(names) - 0.45))
    top = float(np.nanmax([table["upper"].max(), table["paper"].max()]))
    scores = max(largest_score(name) for name in names) == 1.0 and top <= 1.0
    top = 1.0 if scores else max(top, 0.1)
    ax.set_ylim(0.0 if table["lower"].min() > 0.0 else -0.03 * top, 1.03 * top)
    ax.set_ylabel("mean ± one standard deviation" + (", within [0, 1]" if scores else ""), fontsize=9)
    titled(ax, "Scores by model")
    shown = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    order = [*map(literal, models), *({"paper"} & set(shown))]
    legend_below(ax, [shown[name] for name in order], order)
    return ax


def _printed(paper: pd.DataFrame) -> dict[tuple[str, str], float]:
    missing = [name for name in ("model", "metric", "mean") if name not in paper]
    if missing:
        raise InputError(f"the paper's table has no column {', '.join(missing)}.")
    if paper.duplicated(["model", "metric"]).any():
        raise InputError(
            "the paper's table has several rows per model and metric. Select one number of inducing points."
        )
    return {(row["model"], row["metric"]): row["mean"] for row in paper.to_dict("records")}
