"""What a run of the tests tried: each test says how much, the end of the run adds it up.

PSIMIL_FAULTS=full injects every fault as often as ROBUSTNESS.md asks; otherwise a few times.
"""

import csv
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

FULL = os.environ.get("PSIMIL_FAULTS") == "full"
OFTEN = {
    "F1": 200, "F2": 20, "F3": 1, "F4": 200, "F5": 50, "F7": 10, "F8": 20, "F9": 10_000, "F10": 1000,
    "F11": 8, "F12": 5, "F15": 1, "F16": 200, "F17": 5, "F19": 100, "F20": 50,
}  # fmt: skip
SELDOM = {"F1": 6, "F2": 2, "F4": 6, "F5": 1, "F7": 1, "F8": 2, "F9": 200, "F10": 50}
SELDOM |= {"F11": 2, "F12": 1, "F15": 1, "F16": 20, "F17": 1, "F19": 8, "F20": 6}
BAD_INPUTS = re.compile(r"test_(bad_\w+|ct_bad_files|(tables|store|storage)_damage)\.py::(?!test_f\d)|::test_b\d+_")
MARK = "tried"


class Tried:
    """What one test tried; it travels with the report of the test, also from the workers of pytest-xdist."""

    def __init__(self, properties):
        self._properties = properties

    def add(self, what, count=1):
        self._properties.append((MARK, [what, int(count)]))


class Faults(Tried):
    """The faults that one test injects."""

    full = FULL

    def repeats(self, number):
        """How often this run injects the fault."""
        return (OFTEN if FULL else SELDOM)[number]

    def add(self, number, count=1):
        assert number in OFTEN, number
        super().add(f"fault {number}", count)


@pytest.fixture
def tried(request):
    return Tried(request.node.user_properties)


@pytest.fixture
def faults(request):
    return Faults(request.node.user_properties)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """What is known of a test without its help."""
    report = yield
    if report.when == "call":
        tried = Tried(report.user_properties)
        file = item.path.name
        if file == "test_contract.py" and "check" in getattr(getattr(item, "callspec", None), "params", {}):
            tried.add("contract checks")
        if file.startswith("test_properties") and hasattr(getattr(item, "obj", None), "hypothesis"):
            tried.add("properties")
        if BAD_INPUTS.search(item.nodeid):
            tried.add("bad inputs")
    return report


class Counting:
    """The sum over all tests that passed, in the process that writes to the terminal."""

    def __init__(self, root):
        self.root, self.counts = Path(root), Counter()

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == MARK:
                    self.counts[value[0]] += value[1]

    def pytest_terminal_summary(self, terminalreporter):
        if self.counts:
            terminalreporter.section("what was tried")
            for line in [*counted(self.counts), *recorded(self.root)]:
                terminalreporter.write_line(line)


def counted(counts):
    """Lines for what ran, faults and fuzz targets on one line each.

    >>> counted({"bad inputs": 2, "fault F10": 3, "fault F2": 1})
    ['bad inputs: 2', 'faults injected: F2 1, F10 3']
    """
    lines = [f"{what}: {n}" for what, n in sorted(counts.items()) if not what.startswith(("fault ", "fuzz "))]
    for start, title in (("fault ", "faults injected"), ("fuzz ", "fuzz executions")):
        found = {what.removeprefix(start): n for what, n in counts.items() if what.startswith(start)}
        names = sorted(found, key=lambda name: (len(name), name))
        if found:
            lines.append(f"{title}: " + ", ".join(f"{name} {found[name]}" for name in names))
    return lines


def recorded(root):
    """Lines for what ran at another time and left a file: fuzz campaigns and mutants."""
    lines, campaign, mutants = [], root / "fuzz" / "campaigns.json", root / "docs" / "trust" / "mutants.csv"
    if campaign.is_file():
        totals = Counter()
        for run in json.loads(campaign.read_text()):
            totals[run["target"]] += run["executions"]
        lines.append("fuzz/campaigns.json, executions: " + ", ".join(f"{name} {n}" for name, n in totals.items()))
    if mutants.is_file():
        with mutants.open(newline="") as file:
            outcomes = Counter(row["result"] for row in csv.DictReader(file))
        found = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
        lines.append(f"docs/trust/mutants.csv: {found}")
    return lines
