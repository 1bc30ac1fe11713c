"""Tables of results: mean and standard deviation per cell, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from psimil.foundations.errors import InputError

ABSENT = "–"
WORDS = {"f1": "F1", "auc": "AUC", "ece": "ECE", "brier": "Brier", "cnn": "CNN", "middle": "middle of the bag:"}
HEADINGS = {"n": "Runs", "n_inducing": "Inducing points", "n_train": "Training bags", "n_test": "Test bags"}
SMALLER_IS_BETTER = ("log_loss", "brier", "ece", "localisation_error", "seconds", "passes")
NEVER_POOLED = ("experiment", "protocol", "measured_on", "preset")
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", ABSENT: "--",
}  # fmt: skip


def heading(column: str) -> str:
    """A column name in words.

    Examples
    --------
    >>> heading("instance_f1"), heading("measured_on"), heading("n_inducing")
    ('Instance F1', 'Measured on', 'Inducing points')
    >>> heading("instance_auc_within_bags"), heading("middle_localisation_error")
    ('Instance AUC within bags', 'Middle of the bag: localisation error')
    """
    words = [WORDS.get(word, word) for word in column.replace("log_loss", "log-loss").split("_")]
    text = " ".join(words)
    return HEADINGS.get(column, text[:1].upper() + text[1:])


def summarise(rows: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Mean and standard deviation (ddof 1) of the metrics in every group of rows, in order of first appearance.

    Parameters
    ----------
    rows : one row per run; columns such as ``experiment``, ``model``, ``split``, ``bag_auc``.
    by : columns that name a group.
    metrics : columns to average; missing values are left out, a column that is not there is all missing.

    Returns
    -------
    table : the columns ``by``, ``n`` (rows of the group) and, per metric, ``<metric>_mean``, ``<metric>_sd`` (nan for
        one value) and ``<metric>_n`` (values that were there).

    Raises
    ------
    InputError
        When a group would pool rows of several experiments, protocols, presets, or things measured on.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": ["VGPMIL", "VGPMIL", "SVM"], "bag_auc": [0.8, 0.9, 0.7]})
    >>> summarise(rows, ["model"], ["bag_auc"]).round(3).to_dict("records")[0]
    {'model': 'VGPMIL', 'n': 2, 'bag_auc_mean': 0.85, 'bag_auc_sd': 0.071, 'bag_auc_n': 2}
    """
    unknown = [name for name in by if name not in rows]
    if unknown or not by:
        raise InputError(f"cannot group by {unknown}. The rows have the columns {rows.columns.tolist()}.")
    if rows.empty:
        raise InputError("there are no rows to summarise. Check the selection.")
    grouped = rows.groupby(list(by), sort=False, dropna=False, observed=True)
    for column in NEVER_POOLED:
        if column in rows and column not in by and (grouped[column].nunique(dropna=False) > 1).any():
            kinds = ", ".join(map(str, rows[column].unique()))
            raise InputError(f"a group mixes rows of {column}: {kinds}. Select one or add {column!r} to the groups.")
    records = []
    for _, group in grouped:
        record: dict[str, Any] = {name: group[name].iloc[0] for name in by} | {"n": len(group)}
        for metric in metrics:
            values = group[metric].dropna() if metric in rows else pd.Series(dtype=np.float64)
            record |= {f"{metric}_mean": float(values.mean()), f"{metric}_sd": float(values.std(ddof=1))}
            record[f"{metric}_n"] = len(values)
        records.append(record)
    return pd.DataFrame(records)


def to_markdown(frame: pd.DataFrame) -> str:
    """A table of :func:`summarise` in Markdown, with cells such as ``0.912 ± 0.004``.

    Parameters
    ----------
    frame : of :func:`summarise`; any other column is written as text.

    Returns
    -------
    text : lines that end in a newline; an absent number is ``–``, one run has no ±, and ``(n=3)`` marks a metric that
        fewer runs have than the row says.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": ["VGPMIL", "VGPMIL", "SVM"], "bag_auc": [0.8, 0.9, None]})
    >>> to_markdown(summarise(rows, ["model"], ["bag_auc"])).splitlines()[2:]
    ['| VGPMIL | 2 | 0.850 ± 0.071 |', '| SVM | 1 | – |']
    """
    names = _columns(frame)
    align = ["---:" if f"{name}_mean" in frame else "---" for name in names]
    cells = [[" ± ".join(part) + note for part, note in line] for line in _cells(frame, names, digits=3)]
    lines = [map(heading, names), align, *cells]
    return "".join(f"| {' | '.join(_one_line(cell) for cell in line)} |\n" for line in lines)


def to_latex(frame: pd.DataFrame, caption: str, label: str) -> str:
    r"""A table of :func:`summarise` in LaTeX with booktabs and cells such as ``$0.9123 \pm 0.0045$``.

    The best mean of each metric is bold. Smaller is better for log-loss, Brier score, calibration and localisation
    error, seconds and passes. Means that print the same are equally good.

    Parameters
    ----------
    frame : of :func:`summarise`; any other column is written as text.
    caption, label : of the table; the caption is text, not LaTeX.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": ["VGPMIL", "VGPMIL", "SVM"], "bag_auc": [0.8, 0.9, 0.5]})
    >>> text = to_latex(summarise(rows, ["model"], ["bag_auc"]), "Scores", "table:scores")
    >>> text.splitlines()[6]
    'VGPMIL & 2 & $\\mathbf{0.8500 \\pm 0.0707}$ \\\\'
    """
    names = _columns(frame)
    best = {name: _best(frame, name, digits=4) for name in names if f"{name}_mean" in frame}
    lines = []
    for number, line in enumerate(_cells(frame, names, digits=4)):
        cells = []
        for name, (part, note) in zip(names, line, strict=True):
            if name not in best or part == (ABSENT,):
                cells.append(_latex(part[0]))
                continue
            value = r" \pm ".join(part)
            cells.append((rf"$\mathbf{{{value}}}$" if best[name][number] else f"${value}$") + note)
        lines.append(" & ".join(cells) + r" \\")
    layout = "".join("r" if name in best else "l" for name in names)
    opening = [r"\begin{table}[htbp]", r"\centering", rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
    body = [
        " & ".join(_latex(heading(name)) for name in names) + r" \\",
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    closing = [rf"\caption{{{_latex(caption)}}}", rf"\label{{{label}}}", r"\end{table}"]
    return "\n".join([*opening, *body, *closing]) + "\n"


def _columns(frame: pd.DataFrame) -> list[str]:
    """Columns as they are shown: the three of a metric become one, named like the metric."""
    metrics = [name.removesuffix("_mean") for name in frame if name.endswith("_mean")]
    hidden = {f"{metric}_{part}" for metric in metrics for part in ("sd", "n")}
    return [name.removesuffix("_mean") for name in frame if name not in hidden]


def _cells(frame: pd.DataFrame, names: Sequence[str], digits: int) -> list[list[tuple[tuple[str, ...], str]]]:
    """Per row and column: (mean, sd), (mean,) or (text,), and a note."""
    return [[_cell(row, name, digits) for name in names] for row in frame.to_dict("records")]


def _cell(row: dict[str, Any], name: str, digits: int) -> tuple[tuple[str, ...], str]:
    if f"{name}_mean" not in row:
        value = row[name]
        if pd.isna(value) or value == "":
            return (ABSENT,), ""
        return (f"{value:g}" if isinstance(value, float) else str(value),), ""
    mean, sd, n = row[f"{name}_mean"], row.get(f"{name}_sd", np.nan), row.get(f"{name}_n")
    if np.isnan(mean):
        return (ABSENT,), ""
    note = f" (n={n})" if n is not None and n < row.get("n", n) else ""
    return tuple(f"{value:.{digits}f}" for value in (mean, sd) if not np.isnan(value)), note


def _best(frame: pd.DataFrame, metric: str, digits: int) -> list[bool]:
    shown = frame[f"{metric}_mean"].map(lambda mean: float(f"{mean:.{digits}f}"))
    best = shown.min() if metric.endswith(SMALLER_IS_BETTER) else shown.max()
    return [bool(flag) for flag in shown == best]


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))
