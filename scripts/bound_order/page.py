"""docs/mathematics/bound-order.md from the tables that were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from gap.page import facts_lines, markdown
from provenance import filled

from bound_order.problems import PROBLEMS
from bound_order.ranking import among_the_better

TEXT = Path(__file__).with_name("text.md")


def summary_lines(summary: pd.DataFrame, table: pd.DataFrame) -> str:
    """The correlations, data set by data set, with the targets."""
    rows, grouped = [], table.groupby(["data", "posterior"])
    better = {key: among_the_better(part) for key, part in grouped}
    best = {(*key, by): "{variance:g}, {lengthscale:g}".format(**part.loc[part[by].idxmax()])
            for key, part in grouped for by in ("score", "held_out")}  # fmt: skip
    for row in summary.to_dict("records"):
        problem, asked = PROBLEMS[row["data"]], row["posterior"] == "variational"
        verdict = ("reached" if row["spearman"] >= problem.target else "missed") if asked else ""
        rows.append([problem.title, row["posterior"], f"{row['kernels']}", f"{row['spearman']:+.3f}",
                     f"{problem.target:.2f}" if asked else "", verdict,
                     f"{better[row['data'], row['posterior']]:+.2f}",
                     f"{row['folds_low']:+.2f} to {row['folds_high']:+.2f}" if row["folds"] > 1 else "one split",
                     f"{row['reliability']:.3f}", best[row["data"], row["posterior"], "score"],
                     best[row["data"], row["posterior"], "held_out"], f"{row['lost']:.4f}",
                     f"{row['spread']:.3f}"])  # fmt: skip
    heads = ["data", "posterior", "kernels", "Spearman", "asked", "verdict", "among the better half", "fold by fold",
             "order of held-out bags themselves", "kernel of the best score", "of the best held-out log predictive",
             "lost by the former", "best less worst kernel"]  # fmt: skip
    return markdown(heads, rows)


def known(value: float, form: str) -> str:
    """A number, or nothing where it was not measured.

    Examples
    --------
    >>> known(0.5, "+.2f"), known(float("nan"), "+.2f")
    ('+0.50', '')
    """
    return "" if pd.isna(value) else format(value, form)


def doubt_lines(summary: pd.DataFrame) -> str:
    """What might spoil the order: noise and optimism of draws, settling, the return to the prior, what q(v) misses."""
    rows = [[PROBLEMS[row["data"]].title, row["posterior"], f"{row['of_bound']:+.3f}",
             f"{row['own_draws']:+.3f}", f"{row['plain']:+.3f}", known(row.get("importance", np.nan), "+.3f"),
             known(row.get("tighter", np.nan), ".3f"),
             f"{row['bound_error']:.4f}", f"{row['optimism']:.4f}", f"{100 * row['converged']:.0f} %",
             f"{row['seconds']:.1f}"] for row in summary.to_dict("records")]  # fmt: skip
    heads = ["data", "posterior", "Spearman of the bound", "the same on the draws of the fit",
             "Spearman of the score, no return to the prior", "Spearman of the importance-weighted bound",
             "most that it lies above the bound", "largest error of a bound",
             "largest optimism of the draws of the fit", "fits that settled", "seconds per fit"]  # fmt: skip
    return markdown(heads, rows)


def kernel_lines(table: pd.DataFrame) -> str:
    """Every kernel, data set by data set, best score first."""
    parts = []
    for (data, posterior), part in table.groupby(["data", "posterior"], sort=False):
        ranks = part["held_out"].rank(ascending=False).astype(int)
        order = part.assign(rank=ranks).sort_values("score", ascending=False)
        rows = [[f"{row['variance']:g}", f"{row['lengthscale']:g}", f"{row['score']:.4f}", f"{row['bound']:.4f}",
                 f"{row['bound_error']:.4f}", f"{row['held_out']:.4f}", f"{row['rank']}"]
                for row in order.to_dict("records")]  # fmt: skip
        heads = ["variance", "length scale", "score per bag", "bound per bag", "its error on a fold",
                 "held-out log predictive", "rank"]  # fmt: skip
        parts.append(f"### {PROBLEMS[str(data)].title}, {posterior}\n\n{markdown(heads, rows)}")
    return "\n\n".join(parts)


def page(table: pd.DataFrame, summary: pd.DataFrame, facts: dict[str, Any]) -> str:
    """The page, from means over folds, their summary, and facts of every data set."""
    settings = next(iter(facts.values()))["settings"]
    missing = [problem.title for name, problem in PROBLEMS.items() if name not in facts]
    said = f" Not measured yet, or left out since their files were not given: {', '.join(missing)}." if missing else ""
    return filled(TEXT, {
        "KERNELS": f"{len(settings['variances']) * len(settings['lengthscales'])}",
        "VARIANCES": ", ".join(f"{value:g}" for value in settings["variances"]),
        "LENGTHSCALES": ", ".join(f"{value:g}" for value in settings["lengthscales"]),
        "INDUCING": f"{settings['inducing']}",
        "DRAWS": f"{settings['draws']}",
        "LEFT_OUT": said,
        "SUMMARY": summary_lines(summary, table),
        "DOUBTS": doubt_lines(summary),
        "TABLES": kernel_lines(table),
        "FACTS": facts_lines(facts),
    })  # fmt: skip
