"""Measure whether the bound orders kernels as held-out bags do, and write docs/mathematics/bound-order.md about it.

Run from the root of a checkout: ``python scripts/write_bound_order.py docs --data FOLDER`` measures and writes all of
it (about an hour); ``--only musk1`` measures some data sets again and keeps the others; ``--page-only`` writes the page
again from the tables in docs/images. No number in the page is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bound_order.measuring import OrderSettings, order_rows
from bound_order.page import page
from bound_order.problems import EMBEDDED, PROBLEMS
from bound_order.ranking import averaged, summary
from provenance import keep_facts, merged, provenance, read_facts, write_page

from psimil.files.csv_table import write_table
from psimil.foundations.errors import DataWarning

SCRIPTS = ("scripts/write_bound_order.py", "scripts/bound_order")
QUICK = OrderSettings(variances=(1.0, 10.0), lengthscales=(1.0, 4.0), inducing=10, draws=16, halvings=2)
TABLES = ("bound-order", "bound-order-summary")
DIGITS = 6


def main() -> None:
    """Read the arguments, measure unless told not to, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--data", help="folder of the data; without it those that are not embedded are left out")
    parser.add_argument("--only", choices=PROBLEMS, nargs="+", help="measure these data sets and keep the others")
    parser.add_argument("--page-only", action="store_true", help="write from the tables that are there")
    parser.add_argument("--quick", action="store_true", help="a tiny grid, to see whether everything runs")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)  # of constant features, fit by fit
    folder = arguments.docs / "images"
    folder.mkdir(parents=True, exist_ok=True)
    written, settings = folder / "bound-order.json", QUICK if arguments.quick else OrderSettings()
    facts = read_facts(written)
    names = arguments.only or [name for name in PROBLEMS if arguments.data is not None or name in EMBEDDED]
    for name in [] if arguments.page_only else names:
        known, rows = provenance(asdict(settings), SCRIPTS), []
        for fold in order_rows(name, arguments.data, settings):
            rows += fold
            print(f"{PROBLEMS[name].title}: fold {fold[0]['fold'] + 1} done", flush=True)
        found = pd.DataFrame(rows)
        means = averaged(found).filter(regex="^(?!half_)")
        for table, part in zip(TABLES, (means, summary(found)), strict=True):
            write_table(merged(folder / f"{table}.csv", part.round(DIGITS), list(PROBLEMS)), folder / f"{table}.csv")
        facts[name] = known
        facts = {key: facts[key] for key in PROBLEMS if key in facts}
        keep_facts(written, facts)
    text = page(*(pd.read_csv(folder / f"{table}.csv") for table in TABLES), facts)
    write_page(arguments.docs / "mathematics" / "bound-order.md", text)


if __name__ == "__main__":
    main()
