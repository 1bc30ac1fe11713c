"""A limit on memory that leaves BLAS no buffer ends a fit with a line, and SIGTERM ends one that hears nothing."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from commands import ROOT, frame_of
from psimil.cli.exits import exit_code

SCRIPT = """
import resource, sys
import psimil.cli.fitted, psimil.estimators.psi_vgpmil
from psimil.cli.main import main
start = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (start + (int(sys.argv[1]) << 20),) * 2)
main(sys.argv[2:])
"""


@pytest.mark.parametrize("megabytes", [pytest.param(16, marks=pytest.mark.slow), 64])
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


@pytest.mark.parametrize("limited", [True, False])
def test_an_exception_that_the_interpreter_lost_is_short_memory_where_that_has_a_limit(monkeypatch, limited):
    limit = 1 << 30 if limited else resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    lost = SystemError("<function predict at 0x7f> returned NULL without setting an exception")
    code, message = exit_code(lost)
    assert code == 70 and message.startswith("out of memory." if limited else "this is a bug in psimil: SystemError")
    assert exit_code(SystemError("bad call"))[1].startswith("this is a bug")


BUSY = """
import signal, sys, numpy as np
import psimil.__main__ as command
command.GRACE = 0.2
signal.signal(signal.SIGTERM, lambda *_: sys.exit(command.TERMINATED))
command.end_after_grace()
A = np.ones((5000, 5000))
try:
    print("busy", flush=True)
    while True:
        A @ A
finally:
    print("in order", flush=True)
"""


@pytest.mark.parametrize(("size", "said"), [(5000, ""), (50, "in order\n")])
def test_f8_sigterm_ends_a_process_that_does_not_come_back(faults, size, said):
    """A product of seconds hears no signal before it is over; between small ones files are closed as always."""
    script = BUSY.replace("5000", str(size))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "busy\n"
        time.sleep(1.0)  # by when a product has begun
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == said
    assert process.returncode == 143
    faults.add("F8")


def test_f8_sigterm_to_a_child_does_not_end_its_parent(faults):
    script = """
import os, signal, time
import psimil.__main__ as command
command.GRACE = 0.0
command.end_after_grace()
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if (child := os.fork()) == 0:
    time.sleep(60)
    os._exit(1)
time.sleep(0.3)
os.kill(child, signal.SIGTERM)
ended = os.waitpid(child, 0)[1]
time.sleep(0.3)
print("alive", ended, flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("alive 0\n", 0), done.stderr
    faults.add("F8")
