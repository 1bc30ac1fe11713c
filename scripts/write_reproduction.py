"""Write docs/results/reproduction.md and its record from committed result files; no score in them is typed by hand.

Run from the root of a checkout: ``python scripts/write_reproduction.py results docs/results``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reproduction import answer, record

TEXTS = Path(__file__).with_name("reproduction")
PAGES = {"reproduction.md": ("answer.md", answer.blocks), "reproduction-record.md": ("record.md", record.blocks)}


def main() -> None:
    """Fill both texts with tables."""
    results, folder = map(Path, sys.argv[1:3])
    for page, (text, blocks) in PAGES.items():
        filled = (TEXTS / text).read_text(encoding="utf-8")
        for name, block in blocks(results).items():
            filled = filled.replace(f"<!-- {name} -->", block.strip())
        (folder / page).write_text(filled.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
