"""Scores of several models side by side, with the paper's values where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from psimil.experiments.render import heading, summarise
from psimil.figures.canvas import BLACK, COLOURS, axes_or_new
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

METRICS = ("bag_accuracy", "bag_f1", "bag_auc", "instance_accuracy", "instance_f1", "instance_auc")
HATCHES = ("", "//", "..", "xx", "\\\\", "--")


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
    table : columns ``model``, ``metric``, ``mean``, ``sd``, ``n``, ``paper`` (nan where the paper has none).

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
    return pd.DataFrame(records)


def plot_bars(
    rows: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    paper: pd.DataFrame | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Bars per metric, one per model, with whiskers of one standard deviation; the paper's value is a hollow diamond.

    The axis of scores begins near the smallest of them, not at 0; each bar carries its value.

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
    low = float(np.nanmin([(table["mean"] - table["sd"].fillna(0.0)).min(), table["paper"].min()]))
    floor = max(0.0, float(np.floor(10 * low - 0.5) / 10))
    for k, model in enumerate(models):
        part = table[table["model"] == model].reset_index(drop=True)
        x = np.arange(len(names)) + (k - (len(models) - 1) / 2) * width
        ax.bar(
            x, part["mean"] - floor, width, bottom=floor, yerr=part["sd"], capsize=3, label=model, edgecolor="white",
            color=COLOURS[k % len(COLOURS)], hatch=HATCHES[k % len(HATCHES)], error_kw={"linewidth": 1},
        )  # fmt: skip
        for place, mean in zip(x, part["mean"], strict=True):
            if not np.isnan(mean):
                ax.text(place, floor, f" {mean:.3f}", rotation=90, ha="center", va="bottom", fontsize="x-small",
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})  # fmt: skip
        if part["paper"].notna().any():
            first = not any(line.get_label() == "paper" for line in ax.lines)
            ax.plot(x, part["paper"], "D", markerfacecolor="none", markeredgecolor=BLACK, markersize=6,
                    label="paper" if first else "_paper")  # fmt: skip
    ax.set_xticks(range(len(names)), [heading(name).replace(" ", "\n", 1) for name in names])
    ax.set(xlabel="metric", ylabel="mean, with one standard deviation", title="Scores by model")
    ax.set_ylim(floor, 1.0 if table["mean"].max() <= 1 else None)
    shown = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    order = [*models, *({"paper"} & set(shown))]
    ax.legend([shown[name] for name in order], order, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0),
              borderaxespad=5, ncols=4)  # fmt: skip
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
