"""The numbers that the paper prints in its Tables 1 to 9, and on which bags they can have been measured."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from psimil.foundations.errors import InputError

COUNTS = ("n_features", "n_inducing")
REACH = 6.0  # standard deviations around the mean in which fold accuracies are sought


def paper_table(number: int) -> pd.DataFrame:
    """One table of the paper with one row per printed cell, as ``scripts/extract_paper_tables.py`` read it.

    Parameters
    ----------
    number : 1 datasets, 2 literature on RSNA, 3 literature on CQ500, 4 MNIST PCA, 5 MNIST RAW, 6 MUSK1, 7 MUSK2,
        8 RSNA, 9 CQ500.

    Returns
    -------
    table : columns ``table``, ``source``, ``column``, ``value`` (text) for 1 to 3; ``table``, ``dataset``,
        ``n_inducing``, ``model``, ``metric``, ``mean``, ``sd`` for the others, with ``n_features`` for 8 and 9.

    Examples
    --------
    >>> paper_table(6)[["n_inducing", "model", "metric", "mean", "sd"]].to_dict("records")[0]
    {'n_inducing': 50, 'model': 'G-VGPMIL', 'metric': 'bag_accuracy', 'mean': 0.8832, 'sd': 0.0202}
    """
    frame = _all_tables()
    chosen = frame[frame["table"] == number]
    if chosen.empty:
        raise InputError(f"the paper has no table {number}. Ask for 1 to {frame['table'].max()}.")
    chosen = chosen.dropna(axis="columns", how="all").reset_index(drop=True)
    return chosen.astype({name: "int64" for name in COUNTS if name in chosen})


def possible_counts(mean: float, sd: float, sizes: ArrayLike, digits: int = 4) -> int:
    """How many outcomes of the folds give the printed mean and standard deviation (ddof 0) of accuracy.

    Parameters
    ----------
    mean, sd : as printed, rounded to ``digits``.
    sizes : (K,) measured bags of each fold; an outcome is a number of right ones in each, folds of equal size are
        not told apart.

    Returns
    -------
    count : 0 when the figures cannot have been measured on folds of these sizes.

    Examples
    --------
    >>> possible_counts(0.75, 0.25, [2, 4], digits=2)  # 1/2 and 4/4, or 2/2 and 2/4
    2
    >>> possible_counts(0.75, 0.01, [2, 4], digits=2)
    0
    """
    folds, copies = np.unique(np.asarray(sizes), return_counts=True)
    low, high = mean - REACH * sd - 1e-9, mean + REACH * sd + 1e-9
    first = np.zeros(1)  # sum of the accuracies so far, and of their squares
    second = np.zeros(1)
    for size, number in zip(folds, copies, strict=True):
        right = np.arange(np.ceil(max(low, 0.0) * size), np.floor(min(high, 1.0) * size) + 1)
        choices = np.array(list(combinations_with_replacement(right / size, int(number)))).reshape(-1, int(number))
        first = (first[:, None] + choices.sum(axis=1)).ravel()
        second = (second[:, None] + np.square(choices).sum(axis=1)).ravel()
    n = int(copies.sum())
    found_mean = first / n
    found_sd = np.sqrt(np.maximum(second / n - found_mean**2, 0.0))
    half = 0.5 * 10.0**-digits + 1e-12
    return int(((np.abs(found_mean - mean) <= half) & (np.abs(found_sd - sd) <= half)).sum())


@cache
def _all_tables() -> pd.DataFrame:
    types = dict.fromkeys(("dataset", "model", "metric", "source", "column", "value"), "object")
    types |= dict.fromkeys(COUNTS, "Int64") | {"mean": "float64", "sd": "float64"}
    with (files("psimil.paper.experiments") / "data" / "paper_tables.csv").open(encoding="utf-8") as stream:
        return pd.read_csv(stream, dtype=types, keep_default_na=False, na_values=[""])
