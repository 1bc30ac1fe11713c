"""Write the table of fuzzing of docs/trust/security.md from fuzz/campaigns.json; no figure in it is typed by hand.

Run from the root of a checkout: ``python scripts/write_fuzzing.py fuzz/campaigns.json docs/trust/security.md``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from marked import put


def table(campaigns: list[dict[str, Any]]) -> str:
    """One line per target: executions, failing inputs and the extremes over its campaigns."""
    lines = [
        "| target | executions | inputs that failed | slowest, s | growth, MB | commits |",
        "|---|---|---|---|---|---|",
    ]
    for target in dict.fromkeys(c["target"] for c in campaigns):
        runs = [c for c in campaigns if c["target"] == target]
        failed = sum(sum(run["failures"].values()) for run in runs)
        lines.append(
            f"| `{target}` | {sum(run['executions'] for run in runs):,} | {failed} | "
            f"{max(run['slowest_seconds'] for run in runs):.2f} | {max(run['growth_mb'] for run in runs):.0f} | "
            f"{', '.join(dict.fromkeys(run['commit'] for run in runs))} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Put the table between its two marks."""
    put(Path(sys.argv[2]), "fuzzing", table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
