"""Write docs/results/reproduction.md, its record and a table of the README from committed result files.

Run from the root of a checkout: ``python scripts/write_reproduction.py results docs/results README.md``. No score in
them is typed by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from marked import put
from reproduction import answer, record

TEXTS = Path(__file__).with_name("reproduction")
PAGES = {"reproduction.md": ("answer.md", answer.blocks), "reproduction-record.md": ("record.md", record.blocks)}


def main() -> None:
    """Fill both texts with tables, and the README's."""
    results, folder, readme = map(Path, sys.argv[1:4])
    for page, (text, blocks) in PAGES.items():
        filled = (TEXTS / text).read_text(encoding="utf-8")
        for name, block in blocks(results).items():
            filled = filled.replace(f"<!-- {name} -->", block.strip())
        (folder / page).write_text(filled.rstrip() + "\n", encoding="utf-8")
    put(readme, "slices", answer.first_screen(results))


if __name__ == "__main__":
    main()
