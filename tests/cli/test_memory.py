"""A limit on memory that leaves BLAS no buffer ends a fit with a line, not in a wait without end."""

import os
import subprocess
import sys

import pytest

from commands import ROOT, frame_of

SCRIPT = """
import resource, sys
import psimil.cli.fitted, psimil.estimators.psi_vgpmil
from psimil.cli.main import main
start = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (start + (int(sys.argv[1]) << 20),) * 2)
main(sys.argv[2:])
"""


@pytest.mark.parametrize("megabytes", [16, 64])
def test_f12_a_fit_in_too_little_memory_is_refused(tmp_path, faults, megabytes):
    frame_of(n_bags=10).to_csv(tmp_path / "t.csv", index=False)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(megabytes), "fit", "t.csv", "--out", "run", "--max-iter", "2"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr[:21]) == (70, "error: out of memory."), done.stderr
    assert os.listdir(tmp_path) == ["t.csv"]
    faults.add("F12")
