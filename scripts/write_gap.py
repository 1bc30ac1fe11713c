"""Measure the gap between the posteriors of a fit and the exact one, and write docs/mathematics/inference-gap.md.

Run from the root of a checkout: ``python scripts/write_gap.py docs --data FOLDER`` measures, draws and writes all
of it (about an hour); ``--only real`` measures one part again and keeps the others; ``--page-only`` writes the page and
draws the figures again from the tables in docs/images. No number in the page is typed by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gap.figures import draw_all
from gap.page import page
from gap.parts import PARTS, QUICK, TABLES, Settings, measure, read_tables
from provenance import write_page

from psimil.files.atomic import atomic_write


def main() -> None:
    """Read the arguments, measure unless told not to, draw the figures, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--data", help="folder of RSNA, CQ500 and MNIST; without it their rows are left out")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="measure these parts and keep the others")
    parser.add_argument("--page-only", action="store_true", help="draw and write from the tables that are there")
    parser.add_argument("--quick", action="store_true", help="tiny problems, to see whether everything runs")
    arguments = parser.parse_args()
    folder = arguments.docs / "images"
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "gap.json"
    facts = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    parts = [] if arguments.page_only else arguments.only or list(PARTS)
    settings = QUICK if arguments.quick else Settings()
    for part in parts:
        facts[part] = json.loads(json.dumps(measure(part, settings, arguments.data, folder)))  # as it will be read
        known = {name: facts[name] for name in PARTS if name in facts}
        atomic_write(written, lambda stream, known=known: stream.write(json.dumps(known, indent=1).encode() + b"\n"))
    if not all((folder / f"{name}.csv").exists() for name in TABLES):
        return  # some parts are still to be measured
    tables = read_tables(folder)
    draw_all(tables, folder)
    text = page(tables, {name: facts[name] for name in PARTS})
    write_page(arguments.docs / "mathematics" / "inference-gap.md", text)


if __name__ == "__main__":
    main()
