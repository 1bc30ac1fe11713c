"""This tree against an older commit: benchmarks of both in turn in one run, and the predictions of fits.

Machines are shared and noisy, so that only figures taken side by side can be compared: every round runs each script
once in either tree, the order changing from round to round. The quotient of a figure is the median over rounds of new
over old. With ``--predictions`` both trees fit the same models (``fits_of_commit.py``) and the largest differences of
their predictions are shown; data that are not there are left out.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from timing import last_line

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Arguments of each script, and which of its figures must not grow: seconds, and ratios to work of the same run
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "bench_pass.py": ([], ["ratio", "ratio_float32"]),
    "bench_predict.py": ([], ["ratio", "ratio_float32"]),
    "bench_fit.py": (["--rounds", "1"], ["evaluation", "evaluation_default_kernel", "fit_s", "pass_s"]),
    "bench_stream.py": (["--largest", "1000000"], ["ns_per_instance_1000000", "peak_mb_1000000"]),
    "bench_cluster.py": (["--kills", "0"], ["one_s", "two_s"]),
}


def run(tree: Path, script: Path, *arguments: str) -> str:
    """What a script prints in a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script.name} failed in {tree.name}:\n{done.stderr[-2000:]}")
    return done.stdout


def quotients(old: Path, scripts: list[str], rounds: int) -> dict[str, float]:
    """New over old of every figure of every script."""
    figures: dict[str, list[float]] = {}
    for number in range(rounds):
        for name in scripts:
            found = {}
            for tree in (old, ROOT) if number % 2 == 0 else (ROOT, old):
                lines = run(tree, tree / "benchmarks" / name, *SCRIPTS[name][0]).strip().splitlines()
                found[tree] = json.loads(lines[-1])
            for key in SCRIPTS[name][1]:
                figures.setdefault(f"{Path(name).stem}: {key}", []).append(found[ROOT][key] / found[old][key])
                print(f"{name} {key}: old {found[old][key]:.4g}, new {found[ROOT][key]:.4g}", flush=True)
    return {key: median(values) for key, values in figures.items()}


def differences(old: Path) -> dict[str, float]:
    """The largest difference of the predictions of each fit."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.npz" for number in range(2)]
        for tree, file in zip((old, ROOT), files, strict=True):
            run(tree, HERE / "fits_of_commit.py", str(file))
        before, after = (np.load(file) for file in files)
        found: dict[str, float] = {}
        for key in before.files:
            name = key.split("/")[0]
            found[name] = max(found.get(name, 0.0), float(np.abs(before[key] - after[key]).max()))
    return found


def main() -> None:
    """Print the comparison; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scripts", nargs="*", default=list(SCRIPTS), choices=list(SCRIPTS))
    parser.add_argument("--predictions", action="store_true", help="compare predictions instead of seconds")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        tree = folder / "old"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), arguments.old], cwd=ROOT, check=True)
        if arguments.predictions:
            figures = differences(tree)
        else:
            figures = quotients(tree, arguments.scripts, arguments.rounds)
        for name, value in figures.items():
            print(f"{name}: {value:.3g}")
        last_line(benchmark="commits", **figures)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
