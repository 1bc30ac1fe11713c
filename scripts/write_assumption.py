"""Put models through the tests of the multiple instance assumption, and write docs/trust/mil-assumption.md.

Run from the root of a checkout: ``python scripts/write_assumption.py docs`` measures and writes all of it (about a
quarter of an hour, with torch installed); ``--only false_frequency`` measures some of it again; ``--page-only`` writes
the page again from the table in docs/images; ``--quick`` has small traps, one seed and quick models, for tests. No
number in the page is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from assumption.measuring import BASELINES, MODELS, AssumptionSettings, trap_rows
from gap.page import facts_lines, markdown
from provenance import filled, keep_facts, merged, provenance, read_facts, write_page

from psimil.files.csv_table import write_table
from psimil.testing import TRAPS, TrapScores

SCRIPTS = ("scripts/write_assumption.py", "scripts/assumption")
TEXT = Path(__file__).parent / "assumption" / "text.md"
QUICK = AssumptionSettings(seeds=(0,), n_bags=20, n_features=4)
QUICK_MODELS = {name: BASELINES[name] for name in ("logistic regression on bag means", "SVM on bag statistics")}
DIGITS = 4


def verdict(scores: list[TrapScores]) -> str:
    """Whether the trap was avoided, seed by seed.

    Examples
    --------
    >>> verdict([TrapScores(0.8, 0.9), TrapScores(0.8, 0.5), TrapScores(0.8, 0.7)])
    'passes 2 of 3'
    """
    passed = sum(one.passed for one in scores)
    return {0: "fails", len(scores): "passes"}.get(passed, f"passes {passed} of {len(scores)}")


def lines(rows: pd.DataFrame, name: str) -> str:
    """One line for each model in one trap: means over seeds, and the range of each."""
    written = []
    for model in [model for model in MODELS if model in set(rows["model"])]:
        part = rows[(rows["data"] == name) & (rows["model"] == model)]
        means = [f"{part[k].mean():.3f} ({part[k].min():.3f} to {part[k].max():.3f})" for k in ("alike", "turned")]
        written.append([model, *means, verdict([*map(TrapScores, part["alike"], part["turned"])])])
    return markdown(["model", "AUC, bags as in training", "AUC, trap turned round", ""], written)


def page(rows: pd.DataFrame, facts: dict[str, Any]) -> str:
    """The page, from the table and facts."""
    return filled(TEXT, {**{name.upper(): lines(rows, name) for name in TRAPS}, "FACTS": facts_lines(facts)})


def main() -> None:
    """Read the arguments, measure unless told not to, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--only", choices=list(TRAPS), nargs="+", help="measure these and keep the others")
    parser.add_argument("--page-only", action="store_true", help="write from the table that is there")
    parser.add_argument("--quick", action="store_true", help="small traps and quick models")
    arguments = parser.parse_args()
    settings, models = (QUICK, QUICK_MODELS) if arguments.quick else (AssumptionSettings(), MODELS)
    folder = arguments.docs / "images"
    folder.mkdir(parents=True, exist_ok=True)
    table, written = folder / "mil-assumption.csv", folder / "mil-assumption.json"
    facts = read_facts(written)
    for name in [] if arguments.page_only else arguments.only or TRAPS:
        known = provenance(asdict(settings), SCRIPTS)
        found = pd.DataFrame(list(trap_rows(name, settings, models))).round(DIGITS)
        write_table(merged(table, found, list(TRAPS)), table)
        facts = {key: {**facts, name: known}[key] for key in TRAPS if key in {**facts, name: known}}
        keep_facts(written, facts)
    text = page(pd.read_csv(table), facts)
    write_page(arguments.docs / "trust" / "mil-assumption.md", text)


if __name__ == "__main__":
    main()
