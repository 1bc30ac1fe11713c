"""docs/trust/far-from-the-data.md from the tables that were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from gap.page import facts_lines, markdown
from provenance import filled

from novelty.cases import ASKED, CASES
from novelty.measuring import ATTENTION, ORDINARY, OURS

TEXT = Path(__file__).with_name("text.md")
REFERRED, EXTRA, AREA = 0.95, 0.02, 0.95  # what is asked of noise at 10 sd, of ordinary bags, and at 3 sd


def percent(part: float, whole: float) -> str:
    """A share in words.

    Examples
    --------
    >>> percent(1, 8)
    '12.5 %'
    """
    return f"{100.0 * part / whole:.1f} %"


def novelty_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Counts summed over cases, and mean and lowest AUC, by data and kind."""
    grouped = rows.groupby(["data", "kind"], sort=False)
    found = grouped[["bags", "referred", "uncertain", "novel"]].sum()
    found["auc"], found["auc_low"] = grouped["auc"].mean(), grouped["auc"].min()
    return found.reset_index()


def verdict(data: str, kind: str, row: dict[str, Any]) -> str:
    """Whether what is asked of a row is reached; nothing where nothing is asked."""
    reached = {
        ORDINARY: row["referred"] - row["uncertain"] <= EXTRA * row["bags"],
        "noise at 10 sd": row["referred"] >= REFERRED * row["bags"],
        "noise at 3 sd": row["auc"] >= AREA,
    }
    return "" if data not in ASKED or kind not in reached else ("reached" if reached[kind] else "missed")


def novelty_lines(summary: pd.DataFrame) -> str:
    """How many bags of each kind are referred, and how well novelty tells them from ordinary ones."""
    rows = []
    for row in summary.to_dict("records"):
        auc = "" if pd.isna(row["auc"]) else f"{row['auc']:.3f} ({row['auc_low']:.3f})"
        rows.append([CASES[row["data"]][0], row["kind"], f"{row['bags']}", percent(row["referred"], row["bags"]),
                     percent(row["uncertain"], row["bags"]), percent(row["novel"], row["bags"]),
                     percent(row["referred"] - row["uncertain"], row["bags"]), auc,
                     verdict(row["data"], row["kind"], row)])  # fmt: skip
    heads = ["data", "bags", "number", "referred", "uncertain", "novel", "referred for novelty alone",
             "AUC of novelty, mean (lowest)", "verdict"]  # fmt: skip
    return markdown(heads, rows)


def workload_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """By data and model: sums over all cases, and mean and deviation over runs of what a run catches and leaves."""
    counts = ["test_bags", "errors", "referred", "caught", "share", "caught_share"]
    runs = rows.groupby(["data", "model", "run"], sort=False).agg(
        {**dict.fromkeys(counts, "sum"), "area": "mean", "auc": "mean"}
    )
    runs = runs.assign(left=runs["errors"] - runs["caught"], left_share=runs["errors"] - runs["caught_share"])
    grouped = runs.groupby(["data", "model"], sort=False)
    found = grouped[[*counts, "left", "left_share"]].sum()
    for name in ("caught", "left", "area", "auc"):
        found[f"{name}_mean"], found[f"{name}_sd"] = grouped[name].mean(), grouped[name].std(ddof=1)
    found["runs"] = grouped.size()
    return found.reset_index()


def spread(mean: float, deviation: float, digits: int) -> str:
    """A mean with its deviation over runs, where there are several.

    Examples
    --------
    >>> spread(0.5, 0.25, 2), spread(0.5, float("nan"), 2)
    ('0.50 ± 0.25', '0.50')
    """
    return f"{mean:.{digits}f}" + ("" if pd.isna(deviation) else f" ± {deviation:.{digits}f}")


def workload_lines(summary: pd.DataFrame) -> str:
    """Errors caught and left at equal workload, and the area under the curve."""
    rows = []
    for data, part in summary.groupby("data", sort=False):
        ours, others = (part[part["model"] == name].iloc[0] for name in (OURS, ATTENTION))
        better = (ours["caught"] >= others["caught"], ours["left"] <= others["left"],
                  ours["area_mean"] <= others["area_mean"])  # fmt: skip
        for row in part.to_dict("records"):
            said = ", ".join("reached" if one else "missed" for one in better)
            rows.append([CASES[str(data)][0], row["model"], spread(row["auc_mean"], row["auc_sd"], 3),
                         f"{row['referred']} of {row['test_bags']}", f"{row['caught']} of {row['errors']}",
                         spread(row["caught_mean"], row["caught_sd"], 1), f"{row['left']}",
                         spread(row["left_mean"], row["left_sd"], 1),
                         f"{row['caught_share']} of {row['errors']} ({row['left_share']})",
                         spread(row["area_mean"], row["area_sd"], 4),
                         said if row["model"] == OURS else ""])  # fmt: skip
    heads = ["data", "model", "AUC", "referred", "errors caught", "per run", "errors left", "per run",
             "at 10 %: caught (left)", "AURC", "verdict on caught, left, AURC"]  # fmt: skip
    return markdown(heads, rows)


def page(strange: pd.DataFrame, work: pd.DataFrame, facts: dict[str, Any]) -> str:
    """The page, from rows of every case, and facts of every data set."""
    missing = [title for name, (title, _) in CASES.items() if name not in facts]
    said = f" Not measured yet, or left out since their files were not given: {', '.join(missing)}." if missing else ""
    return filled(TEXT, {
        "LEFT_OUT": said,
        "NOVELTY": novelty_lines(novelty_summary(strange)),
        "WORKLOAD": workload_lines(workload_summary(work)),
        "FACTS": facts_lines(facts),
    })  # fmt: skip
