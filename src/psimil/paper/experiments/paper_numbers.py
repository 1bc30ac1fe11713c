"""The numbers that the paper prints in its Tables 1 to 9, as ``scripts/extract_paper_tables.py`` read them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

COUNTS = ("n_features", "n_inducing")


def paper_table(number: int) -> pd.DataFrame:
    """One table of the paper with one row per printed cell.

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


def paper_value(
    dataset: str, model: str, n_inducing: int, metric: str, n_features: int | None = None
) -> tuple[float, float]:
    """Mean and standard deviation that the paper prints for one model.

    Parameters
    ----------
    dataset : "MNIST PCA", "MNIST RAW", "MUSK1", "MUSK2", "RSNA" or "CQ500".
    model : "VGPMIL" or "G-VGPMIL".
    n_inducing : 50, 100 or 200.
    metric : "bag_accuracy", "bag_f1", "bag_auc", or the same with "instance_" where instances have labels.
    n_features : 8, 32 or 128 for RSNA and CQ500, None for the others.

    Returns
    -------
    mean, sd : over the paper's five splits.

    Raises
    ------
    InputError
        When the paper has no such value; the message lists the values it has.

    Examples
    --------
    >>> paper_value("RSNA", "VGPMIL", 200, "bag_auc", n_features=8)
    (0.9595, 0.0074)
    """
    rows = _all_tables().dropna(subset=["metric"])
    asked = {"dataset": dataset, "model": model, "metric": metric, "n_inducing": n_inducing}
    for column, value in asked.items():
        rows = _only(rows, rows[column] == value, column, value)
    same = rows["n_features"].isna() if n_features is None else (rows["n_features"] == n_features).fillna(False)
    row = _only(rows, same, "n_features", n_features).iloc[0]
    return float(row["mean"]), float(row["sd"])


def _only(rows: pd.DataFrame, chosen: pd.Series, column: str, value: object) -> pd.DataFrame:
    if chosen.any():
        return rows[chosen]
    known = ", ".join(str(found) for found in rows[column].dropna().unique()) or "None"
    raise InputError(f"the paper prints no such value with {column} {value}. It has {column}: {known}.")


@cache
def _all_tables() -> pd.DataFrame:
    import pandas as pd

    types = dict.fromkeys(("dataset", "model", "metric", "source", "column", "value"), "object")
    types |= dict.fromkeys(COUNTS, "Int64") | {"mean": "float64", "sd": "float64"}
    with (files("psimil.paper.experiments") / "data" / "paper_tables.csv").open(encoding="utf-8") as stream:
        return pd.read_csv(stream, dtype=types, keep_default_na=False, na_values=[""])
