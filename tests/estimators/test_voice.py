"""``verbose``: a line for every pass and phase that a notebook shows, once, and silence unless it is asked for."""

import logging
import subprocess
import sys

import numpy as np
import pytest

from psimil import VGPMIL, MultiLabelMIL
from psimil.datasets import make_bags
from psimil.estimators import voice
from psimil.foundations.phases import Plan, Step, following, tell, tell_plan

BAGS, Y, _ = make_bags(n_bags=24, n_features=3, seed=0)


def brief(**options):
    return VGPMIL(**{"n_inducing": 6, "max_iter": 3, "tol": 0.0, "random_state": 0, "verbose": True, **options})


def passes(text):
    return [line for line in text.splitlines() if ", pass " in line]


def test_it_prints_where_nobody_has_set_up_logging():
    code = (
        "from psimil import VGPMIL; from psimil.datasets import make_bags; bags, y, _ = make_bags(n_bags=24, seed=0);"
        "VGPMIL(n_inducing=6, max_iter=3, tol=0.0, random_state=0, verbose=True).fit(bags, y);"
        "VGPMIL(n_inducing=6, max_iter=3, tol=0.0, random_state=0).fit(bags, y)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    said = [line.split(":")[0] for line in passes(done.stdout)]
    assert said == [f"{stage}, pass {number}" for stage in ("kernel", "fit") for number in (1, 2, 3)]
    assert [line for line in done.stdout.splitlines() if ", pass " not in line] == [
        "inducing points", "steps of the kernel: 1 of 3", "thresholds",
    ]  # fmt: skip
    assert done.stderr == ""


def test_silence_unless_asked(capsys, caplog):
    with caplog.at_level(logging.DEBUG, logger="psimil"):
        brief(verbose=0).fit(BAGS, Y)
    assert capsys.readouterr() == ("", "") and not caplog.records


@pytest.mark.parametrize("how", [{"batch_bags": 6}, {"checkpoint": "kept"}])
def test_minibatches_and_streamed_fits_print(capsys, tmp_path, how):
    how = {name: tmp_path / value if name == "checkpoint" else value for name, value in how.items()}
    brief().fit(BAGS, Y, **how)
    said = [line.split(",")[0] for line in passes(capsys.readouterr().out)]
    stage, others = "batches" if "batch_bags" in how else "fit", len(said) - 3
    assert said == ["kernel"] * 3 + [stage] * others and 1 < others <= 3  # passes end where nothing rises


def test_bags_that_arrive_over_time_print(capsys):
    model = brief().partial_fit(BAGS[:16], Y[:16])
    assert len(passes(capsys.readouterr().out)) == model.n_iter_ > 0
    model.partial_fit(BAGS[16:], Y[16:])
    assert capsys.readouterr().out == "learned 8 more bags after 16 bags\n"


def test_several_labels_print_which_one_is_learned(capsys):
    MultiLabelMIL(brief()).fit(BAGS, np.column_stack([Y, 1 - Y]), label_names=["bleeding", "healthy"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("label")] == ["label bleeding", "label healthy"]
    assert len([line for line in lines if line.startswith("fit, pass")]) == 9


def test_verbose_speaks_to_the_logger_where_somebody_listens(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="psimil"):
        silent = brief(verbose=0).fit(BAGS, Y)
        assert not caplog.records
        loud = brief().fit(BAGS, Y)
    said = [record.getMessage() for record in caplog.records if ", pass " in record.getMessage()]
    assert len(said) == loud.n_iter_ != 0
    assert {record.name for record in caplog.records} == {"psimil"}
    assert said[0].startswith("kernel, pass 1: bound -")
    assert silent.n_iter_ > 0
    assert capsys.readouterr() == ("", "")


def test_it_prints_when_logging_is_set_up_for_warnings_only(capsys):
    logger = logging.getLogger("psimil")
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        voice.say("pass 1")
        assert capsys.readouterr() == ("pass 1\n", "")
        logger.setLevel(logging.INFO)
        voice.say("pass 2")
        assert capsys.readouterr() == ("", "pass 2\n")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def test_a_long_phase_speaks_again(capsys, monkeypatch):
    now = iter([0.0, 1.0, 10.5, 11.5, 12.0, 30.0, 31.0])
    monkeypatch.setattr(voice.time, "perf_counter", lambda: next(now))

    def work():
        tell_plan({"passes": 1.0})
        for done in range(4):
            tell("steps of the kernel", done, 24)
        tell("passes", 1, 8)
        tell("parts of the data", 7, 9)

    with voice.aloud():
        work()
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["steps of the kernel", "steps of the kernel: 2 of 24"]


def test_everybody_hears_what_is_told():
    first, second = [], []
    with following(first.append):
        tell_plan({"passes": 2.0})
        with following(second.append):
            tell("passes", 1, 2, "well")
    tell("passes", 2, 2)
    assert first == [Plan({"passes": 2.0}), Step("passes", 1, 2, "well")]
    assert second == [Step("passes", 1, 2, "well")]
