"""Measure what links, shared noise and context bring, and write docs/mathematics/neighbours-and-context.md.

Run from the root of a checkout: ``python scripts/write_neighbours.py docs --data FOLDER`` measures and writes all of it
(about half an hour); ``--only musk1`` measures some of it again; ``--page-only`` writes the page again from the
tables in docs/images. No number in the page is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gap.page import facts_lines, markdown
from neighbours.measuring import CLASSIC, WAYS, NeighbourSettings, classic_rows, scan_rows
from provenance import filled, keep_facts, merged, provenance, read_facts, write_page

from psimil.files.csv_table import write_table
from psimil.foundations.errors import DataWarning

SCRIPTS = ("scripts/write_neighbours.py", "scripts/neighbours")
TEXT = Path(__file__).parent / "neighbours" / "text.md"
NAMES = ("scans", *CLASSIC)
DIGITS = 6
TITLES = {"musk1": "MUSK1", "musk2": "MUSK2", "elephant": "Elephant", "protein": "Protein",
          "birds_brown_creeper": "Birds, brown creeper", "cq500": "CQ500, CNN 0"}  # fmt: skip


def scan_lines(rows: pd.DataFrame) -> str:
    """Means over CNNs, and the range of each."""
    lines = []
    for way in WAYS:
        part = rows[rows["way"] == way]
        numbers = [f"{part[key].mean():.4f} ({part[key].min():.3f} to {part[key].max():.3f})"
                   for key in ("bag_auc", "log_loss", "slice_auc", "within", "f1", "J", "tau")]  # fmt: skip
        lines.append([way, *numbers, f"{part['seconds'].mean():.0f}"])
    heads = [
        "labels",
        "scan AUC",
        "scan log-loss",
        "slice AUC",
        "within scans",
        "slice F1",
        "J",
        "tau",
        "seconds per fit",
    ]
    return markdown(heads, lines)


def classic_lines(rows: pd.DataFrame) -> str:
    """One line for each data set and way."""
    lines = [[TITLES[row["data"]], row["labels"], row["context"], f"{row['auc']:.4f}", f"{row['log_loss']:.4f}",
              f"{row['accuracy']:.3f}", f"{row['tau']:.2f}", f"{row['taken']} of 5", f"{row['seconds']:.1f}"]
             for row in rows.to_dict("records")]  # fmt: skip
    heads = ["data", "labels", "context", "AUC", "log-loss", "accuracy", "tau", "taken", "seconds per fit"]
    return markdown(heads, lines)


def page(scans: pd.DataFrame, classic: pd.DataFrame, facts: dict[str, Any]) -> str:
    """The page, from tables and facts."""
    return filled(TEXT, {"MIDDLE": f"{scans['middle'].mean():.3f}", "SCANS": scan_lines(scans),
                         "CLASSIC": classic_lines(classic), "FACTS": facts_lines(facts)})  # fmt: skip


def main() -> None:
    """Read the arguments, measure unless told not to, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--data", help="folder of the scans")
    parser.add_argument("--only", choices=NAMES, nargs="+", help="measure these and keep the others")
    parser.add_argument("--page-only", action="store_true", help="write from the tables that are there")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)  # of constant features, fit by fit
    folder, settings = arguments.docs / "images", NeighbourSettings()
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "neighbours.json"
    facts = read_facts(written)
    for name in [] if arguments.page_only else arguments.only or NAMES:
        known = provenance(asdict(settings), SCRIPTS)
        found = scan_rows(arguments.data, settings) if name == "scans" else classic_rows(name, arguments.data, settings)
        path = folder / ("neighbours-scans.csv" if name == "scans" else "neighbours-classic.csv")
        write_table(merged(path, pd.DataFrame(list(found)).round(DIGITS), list(NAMES)), path)
        facts = {key: {**facts, name: known}[key] for key in NAMES if key in {**facts, name: known}}
        keep_facts(written, facts)
    tables = [folder / f"neighbours-{kind}.csv" for kind in ("scans", "classic")]
    if all(path.exists() for path in tables):
        text = page(*map(pd.read_csv, tables), facts)
        write_page(arguments.docs / "mathematics" / "neighbours-and-context.md", text)


if __name__ == "__main__":
    main()
