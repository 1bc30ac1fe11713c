"""Commands in messages: they run as printed, from the folder where they were printed."""

import json
import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from commands import ROOT, call, fails, frame_of, trained
from psimil.cli import next_steps
from psimil.cli.next_steps import next_step, program, ways_to_look
from psimil.foundations import extras
from psimil.foundations.extras import install_command


@pytest.fixture
def entry(tmp_path):
    """A program named psimil in a folder of its own, as pip installs it."""
    path = tmp_path / "env" / "bin" / "psimil"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{sys.executable}\nfrom psimil.cli.main import main\nmain()\n")
    path.chmod(0o755)
    return path


def said(*command, cwd, path=""):
    """The command in the message that ``psimil view`` of an empty folder ends with."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PATH": f"{path}:/usr/bin:/bin"}
    done = subprocess.run(
        [*command, "view", "gone"], check=False, cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 66
    return done.stderr.rpartition(" or make one: ")[2].strip()


@pytest.mark.slow
def test_the_command_is_the_one_that_the_user_can_type(tmp_path, entry):
    assert said("env/bin/psimil", cwd=tmp_path) == "env/bin/psimil demo"
    assert said(str(entry), cwd="/") == f"{entry} demo"
    assert said(str(entry), cwd="/", path=entry.parent) == "psimil demo"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "psimil").write_text("#!/bin/sh\n")
    (tmp_path / "other" / "psimil").chmod(0o755)
    assert said("env/bin/psimil", cwd=tmp_path, path=tmp_path / "other") == "env/bin/psimil demo"  # not another one
    assert said(sys.executable, "-m", "psimil", cwd="/") == f"{sys.executable} -m psimil demo"
    named_python = Path(sys.executable).parent / "python"
    assert said(str(named_python), "-m", "psimil", cwd="/", path=named_python.parent) == "python -m psimil demo"


def test_names_with_spaces_are_quoted(tmp_path, monkeypatch, entry):
    spaced = tmp_path / "a folder"
    entry.parent.rename(spaced)
    monkeypatch.setattr(sys, "argv", [str(spaced / "psimil")])
    monkeypatch.chdir(tmp_path)
    assert shlex.split(next_step("view", Path("my run"))) == ["a folder/psimil", "view", "my run"]
    assert program() == "'a folder/psimil'"
    monkeypatch.chdir(spaced)
    assert program() == "./psimil"


def test_commands_printed_by_predict_run_as_printed(tmp_path):
    folder = trained(tmp_path)
    frame_of(seed=1, n_bags=4).to_csv(folder / "test.csv", index=False)  # a report shows every one of them
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    first = [sys.executable, "-m", "psimil", "predict", "run", "test.csv", "--out", "a run"]
    done = subprocess.run(first, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    line = next(line.strip() for line in done.stdout.splitlines() if " report " in line)
    subprocess.run(["/bin/sh", "-c", line], cwd=folder, env=environment, check=True, capture_output=True)
    assert (folder / "a run" / "report.html").is_file()


def test_where_the_viewer_is_missing_the_first_step_installs_it(monkeypatch):
    assert [line.split("psimil ")[1] for line in ways_to_look(Path("run"))] == ["view run", "report run"]
    monkeypatch.setattr(next_steps, "has_viewer", lambda: False)
    assert ways_to_look(Path("run"))[0] == install_command("viewer")
    fails(call("view", ROOT), 66, "holds no results")


def test_the_install_command_names_the_clone_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    assert shlex.split(install_command("ct"))[1:] == ["-m", "pip", "install", "-e", ".[ct]"]
    monkeypatch.chdir(tmp_path)
    python, *rest, target = shlex.split(install_command("ct"))
    assert os.path.samefile(python, sys.executable) and rest == ["-m", "pip", "install", "-e"]
    assert os.path.samefile(target.removesuffix("[ct]"), ROOT)


def test_an_installed_copy_names_where_it_came_from_or_the_packages(monkeypatch, tmp_path):
    class Copy:
        origin: object = None

        def read_text(self, name):
            return json.dumps(self.origin) if self.origin else None

    copy = Copy()
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "lib" / "psimil" / "foundations" / "extras.py"))
    monkeypatch.setattr(metadata, "distribution", lambda name: copy)
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy>=2", 'uvicorn>=0.54 ; extra == "viewer"'])
    assert install_command("viewer").endswith("-m pip install 'uvicorn>=0.54'")
    assert install_command("ct").endswith("pip install 'psimil[ct]'")  # nothing better is known
    clone = tmp_path / "my clone"
    clone.mkdir()
    copy.origin = {"url": clone.as_uri(), "dir_info": {}}
    assert "uvicorn" in install_command("viewer")  # the clone is gone
    (clone / "pyproject.toml").write_text('[project]\nname = "psimil"\n')
    monkeypatch.chdir(tmp_path)
    assert shlex.split(install_command("viewer"))[-1] == "./my clone[viewer]"


def test_view_says_what_to_run_where_there_are_no_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails(call("view"), 2, "Missing argument 'RESULTS'. Folder that fit, predict or ct predict wrote.")
    fails(call("view", "gone"), 66, "gone was not found", "psimil demo")
    Path("demo/prediction").mkdir(parents=True)
    Path("demo/prediction/results.safetensors").touch()
    for verb in ("view", "report"):
        fails(call(verb, "demo"), 66, f"psimil {verb} demo/prediction")
    Path("fit").mkdir()
    Path("fit/model.safetensors").touch()
    fails(call("view", "fit"), 66, "holds a model", "psimil predict fit BAGS --out runs/new")
    Path("fit/cnn.safetensors").touch()
    fails(call("view", "fit"), 66, "psimil ct predict DIR --model fit --out runs/new")
    fails(call("view", "fit/model.safetensors"), 66, "is a file")
