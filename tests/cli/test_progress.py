"""Signs of life: every phase of a fit is told, times left are estimates, files get few lines, terminals a bar."""

import io
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

from commands import frame_of, terminal
from psimil import GVGPMIL, VGPMIL
from psimil.cli import progress
from psimil.cli.progress import Course
from psimil.cli.shell import Shell
from psimil.datasets import load_musk1
from psimil.foundations.phases import Plan, Step, following, tell, tell_plan
from psimil.inference.history import SETTLING, Convergence


@pytest.fixture(scope="module", params=[VGPMIL, GVGPMIL])
def told(request):
    """What a default fit of MUSK1 tells."""
    bags, y = load_musk1()
    heard = []
    with following(heard.append):
        model = request.param(random_state=0).fit(bags, y)
    return heard, model


def test_every_phase_of_a_fit_moves(told):
    heard, model = told
    steps = [step for step in heard if isinstance(step, Step)]
    phases = list(dict.fromkeys(step.phase for step in steps))
    assert phases[0] == "inducing points" and phases[-1] == "thresholds"
    assert phases == ["inducing points", "steps of the kernel", "passes", "out-of-bag predictions", "thresholds"]
    for phase, stage in (("steps of the kernel", "kernel"), ("passes", "fit")):
        done = [step.done for step in steps if step.phase == phase]
        assert done == [row["iteration"] for row in model.history_ if row["stage"] == stage]
        assert done == list(range(1, len(done) + 1)) and len(done) > 3


def test_a_bar_goes_through_the_fit_without_a_leap(told):
    heard, _ = told
    course, shares = Course(), []
    for event in heard[:-1]:
        course.hear(event)
        shares.append(course.share)
    assert heard[-1] == Plan({})
    assert shares[0] == 0 and 0.95 < shares[-1] <= 1
    leaps = [after - before for before, after in pairwise(shares)]
    assert max(leaps) < 0.2 and min(leaps) > -0.15  # passes learn only on the way how many of them are left


def test_passes_that_converge_are_not_counted_up_to_the_limit(told):
    heard, model = told
    passes = [step for step in heard if isinstance(step, Step) and step.phase.endswith("passes")]
    assert all("at most 100" in step.note for step in passes if step.of is None)
    assert all(step.done <= step.of < 100 for step in passes if step.of is not None)
    if isinstance(model, GVGPMIL):  # three rises tell how fast they fall; where no step helps any more, nothing does
        assert sum(step.of is not None for step in passes) >= 2


def settle(*bounds, tol=0.01, moved=0):
    convergence = Convergence(tol, 10)
    for number, bound in enumerate(bounds, start=1):
        convergence(SimpleNamespace(bound=SimpleNamespace(total=bound), change=None, unfinished=number <= moved))
    return convergence


def test_the_fall_of_the_rise_tells_how_many_passes_are_left():
    halving = settle(-160.0, -80.0, -40.0, -20.0, -10.0)  # rises of 8, 4, 2, 1 nats per bag
    assert halving.left == [8.0, 4.0, 2.0, 1.0]
    assert halving.expected(5, None, 100) == 5 + 7  # 1 / 2^7 < 0.01
    assert halving.expected(5, None, 9) == 9
    assert settle(-160.0, -80.0).expected(2, None, 100) is None
    assert settle(-4.0, -3.0, -2.0, -1.0).expected(4, None, 100) is None  # it does not fall
    assert settle(tol=0.0).expected(1, None, 100) == 100


def test_while_the_kernel_moves_its_steps_are_waited_for():
    moving = settle(-160.0, -80.0, moved=2)
    assert moving.expected(2, 32, 100) == 32 + SETTLING
    assert moving.expected(2, 32, 20) == 20
    assert settle(-160.0, -80.0, -40.0, moved=2).left == [4.0]
    assert moving.expected(40, 32, 100) == 41


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_counted_steps_give_the_time_left():
    clock = Clock()
    course = Course(clock)
    course.count(10, "folds", done=2)
    assert course.share == 0.2 and course.left is None and course.lines == ["folds 2 of 10"]
    clock.now = 30.0
    course.step("fold 3")
    assert course.left == pytest.approx(7 * 30)
    course.hear(Step("refits", 1, 2))
    assert course.share == pytest.approx(0.35)
    assert course.lines == ["folds 3 of 10, fold 3", "refits 1 of 2"]
    course.hear(Plan({"passes": 1.0, "refits": 3.0}))
    course.hear(Step("refits", 1, 3))
    assert course.share == pytest.approx(0.3 + 0.1 / 3)
    course.hear(Plan({}))
    assert course.share == pytest.approx(0.4)
    course.step("fold 4")
    assert course.share == pytest.approx(0.4)


def test_a_plan_is_weighed_again_by_what_phases_expect():
    clock = Clock()
    course = Course(clock)
    course.hear(Plan({"passes": 30.0, "other kernels": 20.0, "refits": 70.0}))
    clock.now = 10.0
    course.hear(Step("passes", 10, 30))
    assert course.share == pytest.approx(10 / 120) and course.left == pytest.approx(110)
    course.hear(Step("passes", 10, 60))  # more than it thought at first
    assert course.share == pytest.approx(10 / 150)
    course.hear(Step("a step of the kernel", 3, 7))
    assert course.share == pytest.approx(10 / 150) and course.lines == ["a step of the kernel 3 of 7"]
    course.hear(Step("refits", 35, 70))  # the other kernels were left out
    assert course.share == pytest.approx(45 / 80)
    course.hear(Plan({}))
    course.hear(Step("figures", 1, 4))
    clock.now = 20.0
    course.hear(Step("figures", 2, 4))
    assert course.share == 0.5 and course.left == pytest.approx(20.0)


def test_nobody_claims_a_time_for_passes_without_a_known_end():
    clock = Clock()
    course = Course(clock)
    course.hear(Plan({"passes": 30.0, "refits": 70.0}))
    clock.now = 5.0
    course.hear(Step("passes", 12, None, "at most 100, bound +0.02 per bag"))
    assert course.left is None and course.lines == ["passes 12, at most 100, bound +0.02 per bag"]
    course.hear(Step("refits", 0, 70))
    assert course.share == pytest.approx(12 / 82)  # twelve of about thirty were enough


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=found))
    return found


def test_a_file_gets_a_line_now_and_then(clock, capsys):
    shell = Shell(as_json=True)
    shell.display.course = Course(clock)
    with shell.listening(), shell.progress(100, "fits") as step:
        for second in range(1, 101):
            clock.now = float(second)
            step(f"job {second}")
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines() == [
        "fits 20 of 100, job 20; 20 s so far, about 80 s left",
        "fits 50 of 100, job 50; 50 s so far, about 50 s left",
        "fits 80 of 100, job 80; 80 s so far, about 20 s left",
    ]


def test_what_is_a_limit_is_called_one(clock, capsys):
    shell = Shell()
    shell.display.course = Course(clock)
    with shell.progress(40, "training", at_most=True) as step:
        clock.now = 200.0
        step("epoch 1")
    assert capsys.readouterr().err == "training 1 of 40, epoch 1; 3 min so far, at most 2 h 10 min left\n"


def test_the_quiet_and_the_short_show_nothing(clock, capsys):
    for shell in (Shell(quiet=True), Shell()):
        with shell.listening(), shell.progress(2, "fits") as step:
            tell_plan({"passes": 1.0})
            tell("passes", 1, 2)
            clock.now += 500.0 * shell.quiet
            step("one")
            shell.display.rest()
        clock.now = 0.0
    assert capsys.readouterr() == ("", "")


def test_a_closed_stderr_is_no_harm(clock, monkeypatch):
    shell = Shell()
    monkeypatch.setattr(sys, "stderr", None)
    clock.now = 100.0
    with shell.progress(2, "fits") as step:
        step("one")


def test_a_terminal_shows_a_bar_that_goes_before_anything_is_said(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "REDRAWN", 0.0)
    shell = Shell()
    with shell.listening():
        tell("refits for calibration", 3, 300)
        assert shell.display._bar is not None
        shell.say("Done.")
        assert shell.display._bar is None
        tell("figures", 1, 3, "words that are far too long for a line of eighty letters")
    assert shell.display._bar is None
    assert "refits for calibration 3 of 300" in stream.getvalue() and "..." in stream.getvalue()


@pytest.mark.slow
def test_a_fit_on_a_terminal_moves_through_its_phases(tmp_path):
    frame_of(n_bags=40).to_csv(tmp_path / "train.csv", index=False)
    code, lines = terminal("fit", "train.csv", "--out", "run", cwd=tmp_path)
    assert code == 0, lines
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for phase in ("steps of the kernel", "passes", "figures 2 of 3", " left", "AUC", "Research use only"):
        assert phase in text, phase
