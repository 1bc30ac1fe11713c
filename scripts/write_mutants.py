"""Write the tables of mutation of docs/trust/testing.md from docs/trust/mutants.csv; no figure is typed by hand.

Run from the root of a checkout: ``python scripts/write_mutants.py docs/trust/mutants.csv docs/trust/testing.md``.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from pathlib import Path

from marked import put

RESULTS = ("killed", "timeout", "survived")


def counts(rows: list[dict[str, str]]) -> str:
    """One line per room, first run and last."""
    lines = [
        "| Where | Mutants | Killed at first | Survived at first | Killed at last | Survived at last |",
        "|---|---|---|---|---|---|",
    ]
    rooms = {row["file"].split("/")[0] if "/" in row["file"] else row["file"] for row in rows}
    for room in [*sorted(rooms), ""]:
        some = [row for row in rows if row["file"].startswith(room)]
        first, last = (Counter(row[column] for row in some) for column in ("first", "result"))
        cells = [n for c in (first, last) for n in (c["killed"] + c["timeout"], c["survived"])]
        lines.append(f"| {f'`{room}`' if room else 'all'} | {len(some)} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def survivors(rows: list[dict[str, str]]) -> str:
    """One line per survivor, with what was found out about it."""
    lines = ["| Place | Change | Why it survives |", "|---|---|---|"]
    for row in sorted(rows, key=lambda row: (row["file"], int(row["line"]))):
        if row["result"] == "survived":
            change = f"`{row['before']}` to `{row['after']}`".replace("|", "\\|")
            lines.append(f"| `{row['file']}:{row['line']}` | {change} | {row['why'] or 'open'} |")
    return "\n".join(lines)


def main() -> None:
    """Put the tables between their marks."""
    with Path(sys.argv[1]).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert all(row[column] in RESULTS for row in rows for column in ("first", "result"))
    put(Path(sys.argv[2]), "counts", counts(rows))
    put(Path(sys.argv[2]), "survivors", survivors(rows))


if __name__ == "__main__":
    main()
