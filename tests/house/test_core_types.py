"""scripts/core_types.py: the tests of another processor run as that processor, and none are left out in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import core_types  # noqa: E402


def test_blas_is_of_the_type_that_was_asked_for():
    import scipy.linalg  # noqa: F401 - its BLAS is not that of NumPy

    asked = os.environ.get(core_types.VARIABLE)
    found = core_types.found_types(threadpool_info())
    assert asked is None or found == {asked}


def test_every_numerical_test_exists():
    assert len(set(core_types.NUMERICAL)) == len(core_types.NUMERICAL)
    for name in core_types.NUMERICAL:
        assert list((ROOT / "tests").rglob(f"test_{name}.py")), name


def test_every_test_that_is_named_alone_can_be_collected():
    named = [*core_types.SINGLE, *core_types.LEFT_OUT]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("probed", "kept", "said"),
    [
        (None, [], "lacks its instructions"),
        ({"Haswell"}, [], "answers Haswell"),
        ({"Zen", "Haswell"}, [], "answers Haswell and Zen"),
        (set(), [], "answers nothing"),
        ({"Zen"}, ["Zen"], ""),
    ],
)
def test_types_that_cannot_be_had_are_named(monkeypatch, capsys, probed, kept, said):
    monkeypatch.setattr(core_types, "probe", lambda name: {"SkylakeX"} if name is None else probed)
    assert core_types.that_run(["Zen"]) == kept
    assert said in capsys.readouterr().out


def test_the_type_in_use_is_not_tested_twice(monkeypatch, capsys):
    monkeypatch.setattr(core_types, "probe", lambda name: {"Zen"})
    assert core_types.that_run(["Zen"]) == []
    assert "type in use" in capsys.readouterr().out


def test_unknown_types_are_refused():
    command = [sys.executable, str(ROOT / "scripts" / "core_types.py"), "Pentium"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Pentium" in done.stderr


@pytest.mark.parametrize(
    ("status", "kept", "expected"), [(0, ["Zen"], 0), (1, ["Zen"], 1), (5, ["Zen"], 1), (0, [], 1)]
)
def test_a_failure_or_nothing_to_run_is_a_failure(monkeypatch, status, kept, expected):
    monkeypatch.setattr(core_types, "probe", lambda name: {"Haswell"})
    monkeypatch.setattr(core_types, "that_run", lambda names: kept)
    monkeypatch.setattr(core_types.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(core_types.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], status))
    monkeypatch.setattr(sys, "argv", ["core_types.py", "Zen"])
    assert core_types.main() == expected
