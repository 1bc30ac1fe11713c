"""How well estimates of log p(T) order kernels, from the rows of every fold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over folds by data, posterior and kernel."""
    keys = ["data", "posterior", "variance", "lengthscale"]
    return rows.drop(columns="fold").groupby(keys, sort=False).mean().reset_index()


def agreement(a: Any, b: Any) -> float:
    """Spearman correlation.

    Examples
    --------
    >>> agreement([1.0, 2.0, 3.0], [10.0, 20.0, 40.0])
    1.0
    """
    return float(spearmanr(a, b).statistic)


def among_the_better(table: pd.DataFrame) -> float:
    """The correlation among the half of the kernels that predict held-out bags best, where poor ones do not help.

    Examples
    --------
    >>> table = pd.DataFrame({"score": [1.0, 5.0, 4.0, 3.0], "held_out": [0.0, 2.0, 3.0, 1.0]})
    >>> round(among_the_better(table), 6)
    -1.0
    """
    best = table.nlargest(max(len(table) // 2, 2), "held_out")
    return agreement(best["score"], best["held_out"])


def reliability(table: pd.DataFrame) -> float:
    """How well one half of the held-out bags orders kernels as the other does, stepped up to all of them.

    The median Spearman correlation r over halvings, as 2 r / (1 + r) (Spearman and Brown).
    """
    names = [name[:-2] for name in table.columns if name.startswith("half_") and name.endswith("_a")]
    halves = [agreement(table[f"{name}_a"], table[f"{name}_b"]) for name in names]
    r = float(np.median(halves))
    return 2.0 * r / (1.0 + r)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each data set and posterior: correlations of scores with held-out ones, and what limits them."""
    found = []
    for (data, posterior), table in averaged(rows).groupby(["data", "posterior"], sort=False):
        part = rows[(rows["data"] == data) & (rows["posterior"] == posterior)]
        folds = [agreement(one["score"], one["held_out"]) for _, one in part.groupby("fold")]
        chosen = table.loc[table["score"].idxmax(), "held_out"]
        found.append({
            "data": data, "posterior": posterior, "kernels": len(table), "folds": len(folds),
            "spearman": agreement(table["score"], table["held_out"]),
            "of_bound": agreement(table["bound"], table["held_out"]),
            "plain": agreement(table["score"], table["held_out_plain"]),
            "importance": agreement(table["importance"], table["held_out"]),
            "tighter": float((table["importance"] - table["bound"]).max()),
            "own_draws": agreement(table["own_bound"], table["held_out"]),
            "folds_low": min(folds), "folds_high": max(folds), "reliability": reliability(table),
            "lost": float(table["held_out"].max() - chosen), "spread": float(np.ptp(table["held_out"])),
            "bound_error": float(table["bound_error"].max() / np.sqrt(len(folds))),
            "optimism": float((table["own_bound"] - table["bound"]).max()),
            "converged": float(table["converged"].mean()), "seconds": float(part["seconds"].mean()),
        })  # fmt: skip
    return pd.DataFrame(found)
