"""Write the table of docs/results/scaling.md from results/benchmarks.jsonl; no figure in it is typed by hand.

Run from the root of a checkout:
``python scripts/write_benchmarks.py results/benchmarks.jsonl docs/results/scaling.md``.
Benchmarks add their lines themselves: ``PSIMIL_RECORD=results/benchmarks.jsonl python benchmarks/bench_pass.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from marked import put


class Row(NamedTuple):
    """A line of the table: which figure of which benchmark, in words, and what was aimed at."""

    benchmark: str
    figure: str
    words: str
    aim: str
    digits: int = 2


ROWS = (
    Row("pass", "ratio", "pass against dsyrk + dtrmm, N = 56 000, M = 200", "at most 1.3"),
    Row("fit", "fit", "whole default fit, MNIST PCA, M = 200, against dsyrk + dtrmm", "at most 35", 0),
    Row(
        "authors", "ratio", "an epoch of the authors' code against one of ours, N = 20 000, M = 200", "at least 100", 0
    ),
    Row("cluster", "ratio", "two workers against one, N = 1 000 000", "at least 1.7"),
    Row("cluster", "kills", "passes that lost a worker", "20", 0),
    Row("cluster", "passes_with_other_bits", "those whose sums had other bits", "0", 0),
    Row("stream", "ratio", "streamed at N = 10 000 000 against in memory, per instance", "at most 1.8"),
    Row("stream", "peak_mb_10000000", "peak memory at N = 10 000 000, MB", "at most 1500", 0),
    Row("stream", "memory_growth", "that against N = 1 000 000", "at most 1.05", 3),
    Row("predict_stream", "peak_mb_1000000", "peak memory of `psimil predict` at N = 1 000 000, MB", "at most 400", 0),
    Row("predict_stream", "peak_mb_10000000", "the same at N = 10 000 000, MB", "at most 400", 0),
    *(
        Row(
            "minibatch",
            f"{data}, {kernel}, 500 bags, {passes}",
            f"rise of the bound by minibatches after {passes} passes' worth ({data}, {kernel} kernel), N = 10^6",
            "" if passes == 1 else "at least 0.99",
            4,
        )
        for data in ("direction", "clusters")
        for kernel in ("fixed", "learned")
        for passes in (1, 2)
    ),
    *(
        Row("slopes", f"{axis}, {way}", f"slope of a pass {way} in {axis}, logarithmic axes", expected)
        for axis, way, expected in (
            ("N", "in memory", "1"),
            ("N", "streamed", "1"),
            ("M", "in memory", "1 to 2"),
            ("M", "streamed", "1 to 2"),
            ("D", "in memory", "0"),
            ("D", "streamed", "0 to 1"),
            ("workers", "streamed", "-1"),
        )
    ),
)


def table(records: list[dict[str, Any]]) -> str:
    """The rows that have figures, every run of each."""
    lines = ["| benchmark | what | measured, run by run | aimed at | commits |", "|---|---|---|---|---|"]
    for row in ROWS:
        runs = [r for r in records if r["figures"]["benchmark"] == row.benchmark and row.figure in r["figures"]]
        if runs:
            values = ", ".join(f"{r['figures'][row.figure]:.{row.digits}f}" for r in runs)
            commits = ", ".join(dict.fromkeys(r["commit"] for r in runs))
            lines.append(f"| `{runs[0]['command']}` | {row.words} | {values} | {row.aim} | {commits} |")
    return "\n".join(lines)


def main() -> None:
    """Put the table between its two marks."""
    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    put(Path(sys.argv[2]), "benchmarks", table(records))


if __name__ == "__main__":
    main()
