"""The fuzz targets: their corpus is replayed, a few hundred changed inputs are tried, and the judge is judged."""

import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pydicom")
pytest.importorskip("pyarrow")
pytest.importorskip("fastapi")

FUZZ = Path(__file__).parents[2] / "fuzz"
sys.path.insert(0, str(FUZZ))

from engine import explore  # noqa: E402
from flight import Flight  # noqa: E402
from mutator import changed_bytes, changed_json  # noqa: E402
from outcomes import MAX_GROWTH, Execution, Tally, execute, limited  # noqa: E402
from target import NAMES, Target, kept_inputs, target_named  # noqa: E402

from psimil.foundations.errors import InputError, ModelFileError  # noqa: E402

EXECUTIONS = 300


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    made = {}

    def target(name):
        if name not in made:
            made[name] = target_named(name, tmp_path_factory.mktemp(name))
        return made[name]

    with limited():
        yield target
    for each in made.values():
        each.close()


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_corpus(targets, name, tried):
    target, tally = targets(name), Tally()
    for data in [*target.seeds(), *kept_inputs(name)]:
        tally.add(data, execute(target, data))
    assert tally.failures == {}
    assert [word for word in tally.outcomes if not re.match(r"\w*(Error|File) |refused", word)]  # some succeed
    assert len(tally.outcomes) >= 4
    tried.add(f"fuzz {name}", tally.executions)


@pytest.mark.parametrize("name", NAMES)
def test_changed_inputs_are_read_or_refused(targets, name, tried):
    target, tally = targets(name), Tally()
    pool = [*target.seeds(), *kept_inputs(name)]
    explore(target, pool, EXECUTIONS, 20, tally)
    assert tally.executions == EXECUTIONS and tally.failures == {}
    assert len(tally.outcomes) >= 8  # the changes reach many places
    tried.add(f"fuzz {name}", tally.executions)


@pytest.mark.parametrize("name", NAMES)
def test_large_inputs_are_read_or_refused_soon(targets, name, tried):
    target, tally = targets(name), Tally()
    for data in target.bombs().values():
        for _ in range(3):  # on a busy machine a processor may be slow, but not always
            found = execute(target, data)
            if not found.outcome.startswith("slow"):
                break
        tally.add(data, found)
    assert tally.executions >= 3 and tally.failures == {}
    tried.add(f"fuzz {name}", tally.executions)


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_is_small(name):
    kept = kept_inputs(name)
    assert kept and max(map(len, kept)) <= 8192 and len(kept) <= 64


@pytest.mark.parametrize("name", NAMES)
def test_changes_depend_on_the_seed_alone(targets, name):
    target = targets(name)
    data = target.seeds()[0]
    first, again = ([target.change(data, random.Random(seed)) for seed in range(20)] for _ in range(2))
    assert first == again and len(set(first)) > 10


def judged(run):
    return execute(Target("none", run, list, lambda data, rng: data, ()), b"")


def refuse(error):
    def run(data):
        raise error

    return run


def test_success_and_our_errors_pass():
    assert not judged(lambda data: "fine").failed
    assert not judged(refuse(InputError("no"))).failed
    assert not judged(refuse(ModelFileError("no"))).failed


@pytest.mark.parametrize(
    "error", [ValueError("no"), MemoryError(), SystemExit(1), RecursionError(), AssertionError("x")]
)
def test_other_errors_fail(error):
    found = judged(refuse(error))
    assert found.failed and found.outcome.startswith(type(error).__name__)


def test_messages_with_a_path_fail():
    assert judged(refuse(InputError("cannot open /tmp/patient.dcm"))).failed


def test_slow_and_large_executions_fail(monkeypatch):
    monkeypatch.setattr("outcomes.MAX_SECONDS", 0.01)

    def slow(data):
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        return "done"

    assert judged(slow).outcome == "slow: done"
    monkeypatch.setattr("outcomes.MAX_GROWTH", -1)
    assert judged(lambda data: "done").outcome == "large: done"
    assert MAX_GROWTH == 256 << 20


def test_a_bomb_meets_a_limit():
    def bomb(data):
        return str(len(bytearray(64 << 30)))

    with limited():
        found = judged(bomb)
    assert found.failed and found.outcome.startswith("MemoryError")


def test_the_tally_keeps_the_smallest_inputs_that_fail():
    tally = Tally()
    for data in (b"long one", b"b", b"cc", b"a", b"dd"):
        tally.add(data, Execution("bad", True, 0.1, 5))
    assert not tally.add(b"", Execution("bad", False, 0.0, 0)) and tally.add(b"", Execution("good", False, 0.0, 0))
    assert tally.failures == {"bad": [b"a", b"b", b"cc"]}
    assert tally.summary()["outcomes"] == {"bad": 6, "good": 1} and tally.slowest == 0.1


def test_inputs_with_a_new_outcome_join_the_pool():
    target = Target("none", lambda data: f"length {min(len(data), 4)}", list, lambda data, rng: data + b"x", ())
    pool, tally = [b""], Tally()
    found = explore(target, pool, 200, 0, tally)
    assert set(tally.outcomes) == {f"length {n}" for n in range(5)} and len(found) == 5 == len(pool) - 1


def test_the_mutator_changes_bytes_and_json():
    rng = random.Random(0)
    assert len({changed_bytes(b"abc 12", rng, [b"word"], b"other") for _ in range(100)}) > 50
    assert changed_bytes(b"", rng, []) is not None
    value = {"a": [1, {"b": None}], "c": "x"}
    assert len({json.dumps(changed_json(value, rng)) for _ in range(100)}) > 50
    assert value == {"a": [1, {"b": None}], "c": "x"}


def test_the_last_input_outlives_a_process(tmp_path):
    code = "import os, sys; from pathlib import Path; from flight import Flight\n"
    code += "Flight(Path(sys.argv[1])).note(3, b'killer'); os.abort()"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "flight")], cwd=FUZZ, check=False, capture_output=True, timeout=600
    )
    with Flight(tmp_path / "flight") as flight:
        assert flight.last() == (3, b"killer")


@pytest.mark.slow
def test_the_command_ends_with_a_line_of_json():
    command = [sys.executable, str(FUZZ / "run.py"), "stores", "--executions", "200", "--engine", "plain"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0 and found["failures"] == {} and found["executions"] == 200
    assert found["target"] == "stores" and found["unique_outcomes"] >= 5 and found["growth_mb"] < 256
