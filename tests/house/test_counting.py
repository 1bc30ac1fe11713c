"""What tests say they tried is added up, also over the workers of pytest-xdist."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from counting import Counting, recorded

SUPPORT = Path(__file__).parents[1] / "support"
TESTS = """
import pytest

@pytest.mark.parametrize("n", range(6))
def test_some(faults, n):
    faults.add("F1", 10)
    faults.add("F10", n)

def test_fuzz(tried):
    tried.add("fuzz urls", 7)

def test_that_fails(faults):
    faults.add("F1", 1000)
    assert False
"""


@pytest.mark.parametrize("workers", [pytest.param([], marks=pytest.mark.slow), ["-n", "2"]], ids=["alone", "spread"])
def test_counts_arrive(tmp_path, workers):
    (tmp_path / "conftest.py").write_text(
        "from counting import Counting, faults, tried\n"
        "def pytest_configure(config): config.pluginmanager.register(Counting(config.rootpath), 'counting')\n"
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *workers, "test_it.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(SUPPORT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert "faults injected: F1 60, F10 15" in lines, done.stdout
    assert "fuzz executions: urls 7" in lines
    assert "1 failed, 7 passed" in lines[-1]


@pytest.mark.slow
def test_contract_checks_properties_and_bad_inputs_are_counted(request):
    counting = request.config.pluginmanager.get_plugin("counting")
    assert isinstance(counting, Counting)
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
         "tests/laws/test_contract.py::test_named_estimators", "tests/estimators/test_bad_parameters.py",
         "tests/laws/test_properties_bags.py::test_split_undoes_concatenation", "-k", "not named or order"],
        cwd=SUPPORT.parents[1], capture_output=True, text=True, timeout=600, check=False,
    ).stdout.splitlines()  # fmt: skip
    counts = dict(line.split(": ") for line in found if line.count(": ") == 1)
    assert int(counts["contract checks"]) > 0 and int(counts["bad inputs"]) > 10
    assert counts["properties"] == "1"


def test_what_other_runs_left_is_read(tmp_path):
    assert recorded(tmp_path) == []
    (tmp_path / "fuzz").mkdir()
    (tmp_path / "docs" / "trust").mkdir(parents=True)
    runs = [
        {"target": "urls", "executions": 3},
        {"target": "dicom", "executions": 1},
        {"target": "urls", "executions": 4},
    ]
    (tmp_path / "fuzz" / "campaigns.json").write_text(json.dumps(runs))
    (tmp_path / "docs" / "trust" / "mutants.csv").write_text("name,result\na,killed\nb,survived\nc,killed\n")
    assert recorded(tmp_path) == [
        "fuzz/campaigns.json, executions: urls 7, dicom 1",
        "docs/trust/mutants.csv: 2 killed, 1 survived",
    ]
