"""Figures of the gap, from its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from gap.real import over_seeds
from gap.referring import SYNTHETIC
from gap.simulated import METHODS
from psimil.figures import plot_referral
from psimil.figures.canvas import BLACK, BLUE, DOTS_PER_INCH, GREEN, ORANGE, new_figure
from psimil.figures.lettering import figure_of, legend_below, titled
from psimil.files.atomic import atomic_write

STYLES = {  # colour, marker, line and name of each posterior
    "augmented": (ORANGE, "s", "--", "augmented (1.0.0 and the paper)"),
    "variational": (BLUE, "o", "-", "variational (default)"),
    "sampled": (GREEN, "^", "-.", "sampled"),
    "oracle": (BLACK, "x", ":", "exact (Gibbs)"),
}
SHARE = PercentFormatter(1.0, decimals=0, symbol=" %")
SPREAD = 0.05  # between posteriors, lest one hide another


def save(ax: Axes, path: Path) -> None:
    """Write the figure that the axes belong to."""
    atomic_write(path, lambda stream: figure_of(ax).savefig(stream, format="png", dpi=DOTS_PER_INCH))


def lines(ax: Axes, summary: pd.DataFrame, x: str, y: str, error: str | None = None) -> None:
    """One line for each posterior, on an axis with a place for each value of x."""
    places = sorted(summary[x].unique())
    for number, name in enumerate(METHODS):
        part = summary[summary["posterior"] == name].sort_values(x)
        colour, marker, line, label = STYLES[name]
        at = [places.index(value) + SPREAD * (number - 1.5) for value in part[x]]
        ax.errorbar(
            at, part[y], yerr=None if error is None else 2 * part[error], color=colour, marker=marker, linestyle=line,
            linewidth=2, markersize=7, capsize=3, elinewidth=1, label=label,
        )  # fmt: skip
    ax.set_xticks(range(len(places)), [f"{value:g}" for value in places])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def draw_coverage(summary: pd.DataFrame, path: Path) -> None:
    """Share of true values inside 95 % intervals against the size of bags: the figure on top of the README."""
    ax = new_figure(7.0, 4.2)
    ax.axhline(0.95, color="#888888", linewidth=1, label="what they claim")
    lines(ax, summary, "largest_bag", "inside_95", "inside_95_error")
    for name, below in (("augmented", 30), ("variational", 24)):
        part = summary[summary["posterior"] == name].sort_values("largest_bag")
        for place, share in enumerate(part["inside_95"]):
            at = (place + SPREAD * (METHODS.index(name) - 1.5), share)
            ax.annotate(f"{100 * share:.0f} %", at, xytext=(0, -below), textcoords="offset points", ha="center",
                        color=STYLES[name][0], fontsize=10, fontweight="bold")  # fmt: skip
    ax.set(xlabel="bags of up to so many instances", ylabel="true values inside 95 % intervals", ylim=(0.0, 1.05))
    ax.yaxis.set_major_formatter(SHARE)
    titled(ax, "Do 95 % intervals hold 95 % of the truth?")
    legend_below(ax)
    save(ax, path)


def draw_ratios(size: pd.DataFrame, number: pd.DataFrame, path: Path) -> None:
    """Latent deviations over exact ones, against the size and the number of bags."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    labels = ("bags of up to so many instances", "number of bags")
    for ax, table, x, label in zip(axes, (size, number), ("largest_bag", "bags"), labels, strict=True):
        ax.axhspan(0.9, 1.1, color="#eeeeee")
        lines(ax, table, x, "ratio")
        ax.set(xlabel=label, ylim=(0.0, 1.25))
    axes[0].set_ylabel("latent deviation / exact one")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save(axes[0], path)


def draw_real(table: pd.DataFrame, path: Path) -> None:
    """The same on real data: median and both tenths over held-out instances, means over seeds."""
    table = over_seeds(table)
    ax = new_figure(7.0, 3.6)
    names = list(dict.fromkeys(table["data"]))
    ax.axhspan(0.9, 1.1, color="#eeeeee")
    ax.axhline(1.0, color="#888888", linewidth=1)
    for offset, (key, part) in zip((-0.08, 0.08), table.groupby("posterior", sort=False), strict=True):
        colour, marker, _, label = STYLES[str(key)]
        spread = [part["ratio"] - part["ratio_low"], part["ratio_high"] - part["ratio"]]
        ax.errorbar([names.index(name) + offset for name in part["data"]], part["ratio"], yerr=spread, color=colour,
                    marker=marker, linestyle="none", markersize=7, capsize=3, label=label)  # fmt: skip
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="latent deviation / exact one", xlim=(-0.5, len(names) - 0.5), ylim=(0.0, 1.4))
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax)
    save(ax, path)


def draw_referral(curves: pd.DataFrame, path: Path) -> None:
    """Error among the kept against their share, on synthetic bags, means over repeats."""
    part = curves[curves["data"] == SYNTHETIC]
    means = part.groupby(["model", "fraction_kept"], sort=False)["error"].mean().reset_index()
    by_model = {str(name): rows.drop(columns="model") for name, rows in means.groupby("model", sort=False)}
    save(plot_referral(by_model, ax=new_figure(6.5, 4.2)), path)


def draw_all(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    """Every figure of the page."""
    draw_coverage(tables["gap-size-summary"], folder / "gap-coverage.png")
    draw_ratios(tables["gap-size-summary"], tables["gap-number-summary"], folder / "gap-ratios.png")
    draw_real(tables["gap-real"], folder / "gap-real.png")
    draw_referral(tables["gap-referral"], folder / "gap-referral.png")
