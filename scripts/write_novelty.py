"""Measure what a model does far from its data and what its referrals catch, and write docs/trust/far-from-the-data.md.

Run from the root of a checkout: ``python scripts/write_novelty.py docs --data FOLDER`` measures and writes all of it
(about half an hour); ``--only musk1`` measures some data sets again and keeps the others; ``--page-only`` writes the
page again from the tables in docs/images. No number in the page is typed by hand. Attention MIL needs torch.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from novelty.cases import CASES, EMBEDDED, LEFT_OUT
from novelty.measuring import NoveltySettings, case_rows
from novelty.page import page
from provenance import keep_facts, merged, provenance, read_facts, write_page

from psimil.files.csv_table import write_table

SCRIPTS = ("scripts/write_novelty.py", "scripts/novelty")
QUICK = NoveltySettings(inducing=10, epochs=2)
TABLES = ("novelty", "workload")
DIGITS = 6


def main() -> None:
    """Read the arguments, measure unless told not to, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--data", help="folder of the data; without it those that are not embedded are left out")
    parser.add_argument("--only", choices=CASES, nargs="+", help="measure these data sets and keep the others")
    parser.add_argument("--page-only", action="store_true", help="write from the tables that are there")
    parser.add_argument("--quick", action="store_true", help="few inducing points, to see whether everything runs")
    arguments = parser.parse_args()
    folder = arguments.docs / "images"
    folder.mkdir(parents=True, exist_ok=True)
    written, settings = folder / "novelty.json", QUICK if arguments.quick else NoveltySettings()
    facts = read_facts(written)
    names = arguments.only or [name for name in CASES if arguments.data is not None or name in EMBEDDED]
    for name in [] if arguments.page_only else names:
        known = provenance({**asdict(settings), "digits left out": LEFT_OUT}, SCRIPTS)
        cases = list(case_rows(name, arguments.data, settings))
        for table, parts in zip(TABLES, zip(*cases, strict=True), strict=True):
            found = pd.DataFrame([row for rows in parts for row in rows]).round(DIGITS)
            if len(found):
                write_table(merged(folder / f"{table}.csv", found, list(CASES)), folder / f"{table}.csv")
        facts[name] = known
        facts = {key: facts[key] for key in CASES if key in facts}
        keep_facts(written, facts)
    text = page(*(pd.read_csv(folder / f"{table}.csv") for table in TABLES), facts)
    write_page(arguments.docs / "trust" / "far-from-the-data.md", text)


if __name__ == "__main__":
    main()
