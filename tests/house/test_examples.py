"""Every example runs without warnings and says something."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_all_five_are_there():
    assert [path.stem for path in EXAMPLES] == [
        "grid_search",
        "known_instances",
        "metadata_routing",
        "own_density",
        "quickstart",
    ]


LONG = ("grid_search", "known_instances")
GAIN = (r"gain: ([-\d.]+)", r"better on (\d+) of", r"of (\d+) data sets\n")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in EXAMPLES],
)
def test_example_runs(path, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
    assert "nan" not in done.stdout
    assert not list(tmp_path.iterdir())
    if path.stem == "known_instances":
        gain, wins, of = (float(re.search(p, done.stdout)[1]) for p in GAIN)
        assert gain > 0.01 and wins > of / 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
