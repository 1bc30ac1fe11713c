"""Change what computes or decides in small ways, one at a time, and see whether the tests notice.

``python scripts/mutate.py --mutants 250 --seed 0`` from the root of a checkout. Every mutant runs in a forked child
that gets the changed text of one module from an import hook; no file of the source is written. Results go to
docs/trust/mutants.csv as they come: a stopped run goes on where it was, ``--again`` runs the survivors once more.

A child sees the tests that ``mutation_tests.py`` names, in that order, without those that alone take longer than
``LONGEST``, up to ``BUDGET`` seconds of unmutated time, then the doctests of the module. Programs that a test starts
run the source as it is.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import CodeType
from typing import Any

import hypothesis
import pytest
from mutants import Mutant, mutants, sample
from mutation_tests import files_for

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "psimil"
RESULTS = ROOT / "docs" / "trust" / "mutants.csv"
COLUMNS = ("file", "line", "column", "operator", "after", "before", "result", "seconds")
STUDY = ("first", "why")  # the result of the first run, and a word by hand on what survives
HEAVY = ("numpy", "scipy.optimize", "scipy.stats", "sklearn.cluster", "sklearn.model_selection", "pandas", "joblib")
HEAVY += ("matplotlib", "safetensors.numpy", "pyarrow.parquet")
ROOMS = ("model", "inference", "predictive", "estimators", "results", "store", "files", "data", "viewer")
ROOMS += ("ct/dicom", "ct/dicomweb", "ct/network", "ct/report", "ct/scans")  # those that compute or decide
LIMIT, FILES = 90.0, 50_000  # seconds of a child, and files that it may leave at a time
LONGEST, BUDGET = 8.0, 10.0  # seconds, unmutated, of one test and of all tests of a module


class Planted(importlib.machinery.SourceFileLoader, importlib.abc.MetaPathFinder):
    """An import hook that gives one module another text."""

    def __init__(self, file: Path, text: str) -> None:
        name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
        super().__init__(name, str(file))
        self.text = text

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Only the one module is found here."""
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None
        )

    def get_code(self, fullname: str) -> CodeType:
        """The changed text, compiled; never from a cache."""
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Chosen:
    """A pytest plugin that leaves out named tests, or skips what takes too long and writes down how long all take."""

    def __init__(self, left_out: Iterable[str], timed: bool) -> None:
        self.left_out, self.timed, self.seconds = frozenset(left_out), timed, dict[str, float]()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep what is not left out."""
        items[:] = [item for item in items if item.nodeid not in self.left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """An alarm ends tests that are too long to be of use; once the budget is spent none is."""
        if self.timed:
            if sum(s for s in self.seconds.values() if s < LONGEST) > BUDGET:
                pytest.skip("too late")
            signal.signal(signal.SIGALRM, lambda *_: pytest.skip("too long"))
            signal.setitimer(signal.ITIMER_REAL, 1.1 * LONGEST)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Set up, call and tear down together; without end for a test that was not seen to pass."""
        if not report.passed:
            self.seconds[report.nodeid] = math.inf
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def forked(work: Callable[[Path], int], limit: float) -> int | None:
    """The code that ``work`` returns in a child of its own, None when it took too long or filled the disk."""
    folder = Path(tempfile.mkdtemp(prefix="mutate-"))
    child = os.fork()
    if not child:
        os.setsid()
        code = 99
        try:
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # most of the time to start
            for descriptor in (1, 2):
                os.dup2(os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
            code = work(folder)
        finally:
            os._exit(code)
    until, free = time.monotonic() + limit, os.statvfs(folder).f_ffree
    try:
        while time.monotonic() < until and free - os.statvfs(folder).f_ffree < FILES:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_tests(files: list[str], folder: Path, left_out: Iterable[str] = (), times: Path | None = None) -> int:
    """Pytest's exit code; seconds of each test go to ``times``."""
    # rewritten assertions would bring their own import hook for files that are named here
    options = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow", f"--basetemp={folder / 't'}"]
    options += ["-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0", *(["-x"] if times is None else [])]
    chosen = Chosen(left_out, times is not None)
    code = int(pytest.main([*options, *files], plugins=[chosen]))
    if times is not None:
        times.write_text(json.dumps(chosen.seconds))
    return code


def baseline(files: Iterable[str], kept: Path) -> dict[str, dict[str, float]]:
    """Seconds of every unmutated test of each test file, all of which must pass; known ones are read from ``kept``."""
    seconds: dict[str, dict[str, float]] = json.loads(kept.read_text()) if kept.exists() else {}
    times = kept.with_suffix(".part")
    for file in files:
        if file not in seconds:
            code = forked(lambda folder, file=file: run_tests([file], folder, times=times), 600.0)
            alone = file.startswith("src/")  # a module beside its own copy in the package: some examples need one
            if code not in (0, 5) and not (alone and code == 1):  # 5: no doctests
                raise SystemExit(f"{file} fails without any change ({code}).")
            seconds[file] = json.loads(times.read_text())
            kept.write_text(json.dumps(seconds))
            print(f"baseline {sum(s for s in seconds[file].values() if s < LONGEST):6.1f} s  {file}", flush=True)
    return seconds


def left_out(files: list[str], seconds: dict[str, dict[str, float]], budget: float = BUDGET) -> set[str]:
    """Tests that alone take too long, and those after the budget is spent, but for the doctests of the module."""
    out, spent = set(), 0.0
    for file in files:
        for test, duration in seconds[file].items():
            if duration > LONGEST or (spent > budget and file != files[-1]):
                out.add(test)
            else:
                spent += duration
    return out


def fate(mutant: Mutant, seconds: dict[str, dict[str, float]], budget: float = BUDGET) -> str:
    """``killed``, ``timeout`` or ``survived``."""
    path, files = SOURCE / mutant.file, files_for(mutant.file)
    without = left_out(files, seconds, budget)
    used = [file for file in files[:-1] if seconds[file].keys() - without]

    def work(folder: Path) -> int:
        sys.meta_path.insert(0, Planted(path, mutant.apply(path.read_text(encoding="utf-8"))))
        return run_tests([*used, files[-1]], folder, without)

    code = forked(work, LIMIT)
    return "timeout" if code is None else "killed" if code else "survived"


def broken(file: str) -> Mutant:
    """A mutant that every test must notice."""
    return Mutant(file, 1, 0, "control", "", "raise RuntimeError\n", 1, 0)


def main() -> None:
    """Run what is asked and not yet known; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no mutant after this time")
    parser.add_argument("--again", action="store_true", help="only the survivors of earlier runs")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests of a module")
    parser.add_argument("--baseline", type=Path, default=Path(tempfile.gettempdir()) / "psimil-mutate.json")
    asked = parser.parse_args()
    until = time.monotonic() + 60.0 * asked.minutes
    os.chdir(ROOT)
    hypothesis.settings.register_profile("mutate", deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    hypothesis.settings.load_profile("mutate")  # a busy machine is no mutant
    for name in HEAVY:
        importlib.import_module(name)
    paths = [path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py"))]
    found = {str(p.relative_to(SOURCE)): mutants(str(p.relative_to(SOURCE)), p.read_text()) for p in paths}
    chosen = sample({file: some for file, some in found.items() if some}, asked.mutants, asked.seed)
    rows = _read()
    todo = [
        m for m in chosen if (rows.get(m.key, {}).get("result") == "survived" if asked.again else m.key not in rows)
    ]
    seconds = baseline(dict.fromkeys(t for m in todo for t in files_for(m.file)), asked.baseline)
    if todo and fate(broken(todo[0].file), seconds) != "killed":
        raise SystemExit("a module that cannot be imported is not noticed: the import hook does not work.")
    for mutant in todo:
        if time.monotonic() > until:
            break
        begun = time.monotonic()
        result = fate(mutant, seconds, asked.budget)
        took = f"{time.monotonic() - begun:.1f}"
        known = rows.get(mutant.key, {"first": result, "why": ""})
        row = dict(zip(COLUMNS, (*mutant.key, mutant.before, result, took), strict=True))
        rows[mutant.key] = row | {"first": known["first"], "why": known["why"] if result == "survived" else ""}
        _write(rows)
        print(f"{result:8} {took:>5} s  {mutant.file}:{mutant.line} {mutant.operator}", flush=True)
    results = [rows[m.key]["result"] for m in chosen if m.key in rows]
    counts = {word: results.count(word) for word in ("killed", "timeout", "survived")}
    score = (counts["killed"] + counts["timeout"]) / max(1, len(results))
    print(json.dumps({"mutants": len(results), **counts, "possible": sum(map(len, found.values())), "score": score}))


def _read() -> dict[tuple[str, ...], dict[str, str]]:
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as stream:
        return {tuple(row[c] for c in COLUMNS[:5]): row for row in csv.DictReader(stream)}


def _write(rows: dict[tuple[str, ...], dict[str, str]]) -> None:
    with RESULTS.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS + STUDY, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


if __name__ == "__main__":
    main()
