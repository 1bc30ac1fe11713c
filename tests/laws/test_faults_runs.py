"""Fits under F8 and F11: stopped by a signal, and in places and at times that programs do not expect."""

import os
import random
import shutil
import signal
import time
from contextlib import suppress

import pytest

from commands import frame_of
from nursery import Nursery, digest_and_facts

FIT = ["--model", "vgpmil", "--n-inducing", "6", "--max-iter", "8", "--quiet"]


def fit(nursery, folder, data="train.csv", out="run", checkpoint="c", **environment):
    """The model of a fit, and of a prediction with it the table."""
    frame_of(n_bags=10).to_csv(folder / data, index=False)
    saved = ["--out", out, "--checkpoint", checkpoint]
    done = nursery.run("sketched_command", "fit", data, *saved, *FIT, cwd=folder, **environment)
    assert done.code == 0, done.stderr
    done = nursery.run("sketched_command", "predict", out, data, "--out", "p", "--quiet", cwd=folder, **environment)
    assert done.code == 0, done.stderr
    return (folder / out / "model.safetensors").read_bytes(), (folder / "p" / "bags.csv").read_bytes()


@pytest.fixture(scope="module")
def expected(nursery, tmp_path_factory):
    return fit(nursery, tmp_path_factory.mktemp("expected"))


def passes(path):
    """Complete passes in a checkpoint."""
    return len(digest_and_facts(path)[1]["history"]) if path.exists() else 0


def test_f8_a_stopped_fit_keeps_its_last_complete_pass(nursery, expected, tmp_path, faults):
    frame_of(n_bags=10).to_csv(tmp_path / "train.csv", index=False)
    arguments = ["command", "fit", "train.csv", "--out", "run", "--checkpoint", "c", *FIT]
    moment, wanted, stopped = random.Random(8), faults.repeats("F8"), 0
    for turn in range(3 * wanted):
        sent, code = ((signal.SIGINT, 130), (signal.SIGTERM, 143))[stopped % 2]
        with nursery.child(*arguments, cwd=tmp_path) as child:
            until = time.monotonic() + 600
            while passes(tmp_path / "c") < 1 + turn % 6 and not (tmp_path / "run").exists():
                assert time.monotonic() < until
                time.sleep(0.001)
            time.sleep(moment.uniform(0.0, 0.05))
            before = passes(tmp_path / "c")
            with suppress(ProcessLookupError):  # it was done before
                os.kill(child.pid, sent)
        if child.code != 0:
            assert child.code == code, child.stderr
            assert not (tmp_path / "run").exists()
            assert "Traceback" not in child.stderr
            assert passes(tmp_path / "c") >= before
            if stopped % 5 == 1:
                assert nursery.run("sketched_command", *arguments[1:], cwd=tmp_path).code == 0
                assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected[0]
            stopped += 1
            faults.add("F8")
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        (tmp_path / "c").unlink(missing_ok=True)
        if stopped == wanted:
            break
    assert stopped == wanted


LONG = "n" * 251
PLACES = {
    "not UTF-8": {"data": b"caf\xe9\xff.csv", "out": b"r\xfc", "checkpoint": b"\x80"},
    "255 bytes": {"data": LONG + ".csv", "out": "o" * 255, "checkpoint": "é" * 127 + "c"},
    "spaces and line ends": {"data": " two\nlines .csv", "out": "r\n\tun ", "checkpoint": "- c\r"},
}
CLOCKS = {"a year later": 31_536_000, "thirty years ago": -946_080_000}
STARTS = {
    "time zone": {"TZ": "Pacific/Kiritimati"},
    "Turkish": {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize(
    "place", [pytest.param(p, marks=[pytest.mark.slow] * (p not in list(PLACES)[:2])) for p in PLACES]
)
def test_f11_names_of_any_bytes(nursery, expected, tmp_path, faults, place):
    names = {what: os.fsdecode(name) for what, name in PLACES[place].items()}
    assert fit(nursery, tmp_path, **names) == expected
    faults.add("F11")


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS)
def test_f11_a_clock_that_jumps(nursery, expected, tmp_path, faults, clock):
    assert fit(nursery, tmp_path, FAULT_CLOCK=str(CLOCKS[clock])) == expected
    faults.add("F11")


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_f11_time_zones_and_languages(expected, tmp_path, tmp_path_factory, faults, start):
    elsewhere = Nursery(tmp_path_factory.mktemp("elsewhere"), **STARTS[start])
    try:
        assert fit(elsewhere, tmp_path, data="İı é.csv") == expected
    finally:
        elsewhere.close()
    faults.add("F11")
