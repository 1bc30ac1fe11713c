"""Run directories: an old run or a new one as a whole (F15), one writer at a time (F16), the user's files kept."""

import json
import os
import re
import signal
import stat
import sys

import pytest

from psimil.files import rundir
from psimil.files.rundir import opened
from psimil.files.workdir import open_workdir
from psimil.foundations.errors import OutputError

NAMES = ("bags.csv", "instances.csv", "model.safetensors", "results.safetensors", "summary.md", "figures/bag.png")
STEPS = ("os.", "shutil.", "ctypes.call_function", "ctypes.set_errno", "fcntl.", "open")


def write(path, words, overwrite=False):
    """A run whose files all say the same."""
    with opened(path, overwrite=overwrite) as run:
        fill(run, words)
        run.finish()


def fill(run, words):
    run.start({"seed": 0})
    run.figure("bag")
    for name in NAMES:
        run.write_text(name, words)


def told(path):
    """What the files of a run say, each once."""
    assert {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()} >= {*NAMES, "environment.json"}
    return {(path / name).read_text() for name in NAMES}


def forked(work):
    """The exit code, or minus the signal, of a child that does the work."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except OutputError as error:
            code = 74 if "another command is writing" in str(error) or "is there already" in str(error) else 1
        finally:
            os._exit(code)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step, path, words):
    """A run that overwrites another and is killed before a step of its end, counted from 0."""
    with opened(path, overwrite=True) as run:
        fill(run, words)
        left = [step]

        def count(event, _):
            if event.startswith(STEPS):
                left[0] -= 1
                if left[0] == -1:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        run.finish()


def test_f15_a_run_killed_at_any_step_leaves_the_old_one_or_the_new_one(tmp_path, faults):
    path, seen, step = tmp_path / "run", [], 0
    write(path, "0")
    (path / "mine.txt").write_text("kept")
    (path / "figures" / "mine.txt").write_text("kept")
    while True:
        words = str(step + 1)
        code = ended(forked(lambda step=step, words=words: killed_at(step, path, words)))
        found = told(path)
        assert len(found) == 1, f"step {step}: {found}"
        assert (path / "mine.txt").read_text() == (path / "figures" / "mine.txt").read_text() == "kept"
        seen.append(found.pop())
        if code == 0:
            break
        assert code == -signal.SIGKILL
        step += 1
    assert seen[0] == "0" and seen[-1] == words and step > 10
    assert os.listdir(tmp_path) == ["run"]  # nothing of the killed ones is left
    faults.add("F15", step)


@pytest.mark.parametrize("overwrite", [False, True])
def test_f16_of_two_runs_at_once_one_wins_whole_and_the_other_is_told(tmp_path, faults, overwrite):
    for turn in range(faults.repeats("F16") // 2):
        path = tmp_path / f"run{turn}"
        if overwrite:
            write(path, "old")
        gate, start = os.pipe()

        def race(words, path=path, gate=gate, start=start):
            os.close(start)
            os.read(gate, 1)
            write(path, words, overwrite)

        children = {words: forked(lambda words=words, race=race: race(words)) for words in ("first", "second")}
        os.close(gate)
        os.close(start)
        codes = {words: ended(child) for words, child in children.items()}
        won = [words for words, code in codes.items() if code == 0]
        assert set(codes.values()) <= {0, 74} and won
        assert len(won) == 1 or overwrite  # of two that overwrite, one may have been done before the other began
        assert told(path) in [{words} for words in won]
        assert os.listdir(tmp_path) == [path.name]
        rundir.shutil.rmtree(path)
        faults.add("F16")


def test_a_second_run_is_told_before_it_works(tmp_path):
    with opened(tmp_path / "run") as first:
        fill(first, "first")
        with pytest.raises(OutputError, match="another command is writing"), opened(tmp_path / "run"):
            pass
        first.finish()
    assert told(tmp_path / "run") == {"first"}


@pytest.mark.parametrize("there", [False, True], ids=["new", "overwritten"])
def test_runs_in_one_another_are_not_written_at_once(tmp_path, there):
    """The outer one, replaced as a whole, took what the inner one was writing with it, or was lost at its end."""
    outer, inner = tmp_path / "run", tmp_path / "run" / "deep" / "inner"
    if there:
        write(outer, "old")
    settings = {"key": "command", "own": ("fits",)}
    with opened(outer, overwrite=True) as run:
        fill(run, "outer")
        said = rf"another command is writing to {re.escape(str(outer))}, in which it lies\. Wait until it is done"
        with pytest.raises(OutputError, match=said), opened(inner):
            pytest.fail("work began")
        with pytest.raises(OutputError, match=said):
            open_workdir(inner, {"command": "x"}, **settings)
        assert outer.exists() is there and not (outer / "deep").exists()
        run.finish()
    assert told(outer) == {"outer"}
    with opened(inner) as run:
        fill(run, "inner")
        with (
            pytest.raises(OutputError, match="another command is writing to a folder in it"),
            opened(outer, overwrite=True),
        ):
            pytest.fail("work began")
        run.finish()
    assert told(inner) == {"inner"} and told(outer) == {"outer"}
    open_workdir(outer / "work", {"command": "x"}, **settings)
    with pytest.raises(OutputError, match="writing to a folder in it"), opened(outer, overwrite=True):
        pytest.fail("work began")


def test_what_a_killed_run_left_goes_at_the_next_start(tmp_path):
    def stopped():
        with opened(tmp_path / "run") as run:
            fill(run, "half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert ended(forked(stopped)) == -signal.SIGKILL
    assert not (tmp_path / "run").exists() and len(os.listdir(tmp_path)) == 1
    write(tmp_path / "run", "whole")
    assert told(tmp_path / "run") == {"whole"} and os.listdir(tmp_path) == ["run"]


def test_a_link_in_place_of_what_waits_is_not_followed(tmp_path):
    mine = tmp_path / "elsewhere"
    mine.mkdir()
    (mine / "bags.csv").write_text("mine")
    with opened(tmp_path / "run") as run:
        name = run.aside.name
    (tmp_path / name).symlink_to(mine)
    with pytest.raises(OutputError, match="cannot write"), opened(tmp_path / "run"):
        pass
    assert (mine / "bags.csv").read_text() == "mine"


def test_files_of_the_earlier_run_go_and_those_of_the_user_stay(tmp_path):
    path = tmp_path / "run"
    with opened(path) as run:
        fill(run, "old")
        run.write_text("a-name-of-another-version.csv", "old")
        run.finish()
    assert "a-name-of-another-version.csv" in json.loads((path / "environment.json").read_text())["files"]
    (path / "thesis" / "empty").mkdir(parents=True)
    (path / "thesis" / "notes.txt").write_text("mine")
    (path / "link").symlink_to("thesis")
    path.chmod(0o750)
    with opened(path, overwrite=True) as run:
        run.start({})
        run.write_text("summary.md", "new")
        run.finish()
    assert {str(p.relative_to(path)) for p in path.rglob("*")} == {
        "environment.json", "summary.md", "thesis", "thesis/empty", "thesis/notes.txt", "link",
    }  # fmt: skip
    assert (path / "link" / "notes.txt").read_text() == "mine" and (path / "link").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_what_a_run_has_not_listed_is_the_users_whatever_its_name(tmp_path):
    write(tmp_path / "run", "old")
    for name in ("scores.csv", "figures/mine.png", "reports/k.dcm", "musk1.csv"):
        (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / name).write_text("mine")
    write(tmp_path / "run", "new", overwrite=True)
    assert told(tmp_path / "run") == {"new"}
    for name in ("scores.csv", "figures/mine.png", "reports/k.dcm", "musk1.csv"):
        assert (tmp_path / "run" / name).read_text() == "mine"


def test_a_folder_that_holds_what_is_read_is_refused(tmp_path):
    write(tmp_path / "run", "old")
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "run" / "bags.csv")
    for given in (tmp_path / "run" / "bags.csv", link):
        with (
            pytest.raises(OutputError, match="which is read, lies in it"),
            opened(tmp_path / "run", overwrite=True, inputs=(None, given)),
        ):
            pass
    assert told(tmp_path / "run") == {"old"}


def test_a_run_inside_another_comes_to_its_place_with_it(tmp_path):
    for words in ("old", "new"):
        with opened(tmp_path / "run", overwrite=True) as run:
            fill(run, words)
            fill(run.inside("prediction"), words)
            run.finish()
        assert told(tmp_path / "run") == told(tmp_path / "run" / "prediction") == {words}


def test_a_run_behind_a_link_is_replaced_where_it_is(tmp_path):
    write(tmp_path / "deep", "old")
    (tmp_path / "run").symlink_to("deep")
    write(tmp_path / "run", "new", overwrite=True)
    assert (tmp_path / "run").is_symlink() and told(tmp_path / "deep") == {"new"}


def test_the_folder_that_one_is_in_is_refused(tmp_path, monkeypatch):
    write(tmp_path / "run", "old")
    monkeypatch.chdir(tmp_path / "run")
    for path in (tmp_path / "run", rundir.Path(), rundir.Path("figures/..")):
        with pytest.raises(OutputError, match="Name a folder inside it"), opened(path, overwrite=True):
            pass
    write(rundir.Path("inside"), "new")
    assert told(tmp_path / "run" / "inside") == {"new"}


def test_a_file_system_that_cannot_exchange_is_told_before_the_work(tmp_path, monkeypatch):
    write(tmp_path / "run", "old")

    def cannot(*_):
        raise OSError(22, "invalid argument")

    monkeypatch.setattr(rundir, "exchange", cannot)
    with (
        pytest.raises(OutputError, match="cannot exchange folders"),
        opened(tmp_path / "run", overwrite=True),
    ):
        pytest.fail("work began")
    assert told(tmp_path / "run") == {"old"} and os.listdir(tmp_path) == ["run"]


def test_two_processes_do_not_work_in_one_directory(tmp_path):
    settings = {"key": "command", "own": ("fits",)}
    open_workdir(tmp_path / "work", {"command": "x"}, **settings)
    rundir.PATIENCE, patience = 0.0, rundir.PATIENCE
    try:
        code = ended(forked(lambda: other(tmp_path / "work", settings)))
    finally:
        rundir.PATIENCE = patience
    assert code == 74
    open_workdir(tmp_path / "work", {"command": "x"}, **settings)  # the same process goes on


def other(path, settings):
    """Another process: it shares no lock with the one that it comes from."""
    from psimil.files import workdir

    workdir.PATIENCE = 0.0
    workdir._LOCKS.clear()
    open_workdir(path, {"command": "x"}, **settings)
