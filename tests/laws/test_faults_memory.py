"""Predictions under F12: a scan of 500 slices where memory is short."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from commands import ROOT, call
from ct_files import write_series
from ct_studies import FEW, write_studies

LIMITS = [512, 384, 256, 128, 64]  # megabytes above what Python and torch take
# OpenBLAS waits forever for its first buffer when memory is short, so it gets that before the limit.
SCRIPT = """
import resource, sys
import numpy, pandas, scipy.linalg, torch, psimil.ct.report.scan_results, psimil.ct.report.run_files
from psimil.cli.main import main
scipy.linalg.lapack.dtrtri(numpy.eye(300) @ numpy.ones((300, 300)))
start = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (start + (int(sys.argv[1]) << 20),) * 2)
main(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scan of 500 slices and a model of another cohort."""
    folder = tmp_path_factory.mktemp("memory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSIMIL_ID_KEY_FILE", str(folder / "id.key"))
        studies = write_studies(folder / "train")
        done = call("ct", "train", studies, "--labels", studies.parent / "scans.csv", "--out", folder / "model", *FEW)
    assert done.exit_code == 0, done.output
    write_series(folder / "scan", 500, spacing=0.5, size=512)
    return folder


@pytest.mark.slow
def test_f12_a_long_scan_in_little_memory_is_predicted_or_refused(folder, tmp_path, faults):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PSIMIL_ID_KEY_FILE": str(folder / "id.key")}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    options = ["--thickness", "0.5", "--reports", "none", "--figures", "0", "--quiet"]
    finished = {}
    for limit in LIMITS[: faults.repeats("F12")]:
        arguments = ["ct", "predict", folder / "scan", "--model", folder / "model", "--out", tmp_path / f"{limit}"]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(limit), *arguments, *options],
            env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        finished[limit] = done.returncode == 0
        if done.returncode:
            assert done.returncode == 70 and done.stderr.startswith("error: out of memory."), (limit, done.stderr)
            assert len(done.stderr.splitlines()) == 1 and not (tmp_path / f"{limit}").exists()
        else:
            assert len((tmp_path / f"{limit}" / "instances.csv").read_text().splitlines()) == 501
        faults.add("F12")
    assert finished[512]
