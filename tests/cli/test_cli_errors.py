"""The command line: warnings, errors, exit codes, and what an interrupted command leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from commands import QUICK, ROOT, call, fails, frame_of, process, trained


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("cli"))


def test_warnings_are_lines_on_stderr(files, tmp_path):
    done = call("fit", files / "train.csv", "--out", tmp_path / "a", "--alpha", "1", "--beta", "4", "--max-iter", "2",
                "--n-inducing", "8", "--json")  # fmt: skip
    assert done.exit_code == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("warning: ") for line in lines)
    assert "latent values grow" in done.stderr and "had not settled" in done.stderr
    assert len(json.loads(done.stdout)["warnings"]) == 2


def test_a_run_is_not_overwritten_unasked(files, tmp_path):
    out = tmp_path / "run"
    call("fit", files / "train.csv", "--out", out, *QUICK)
    before = (out / "model.safetensors").read_bytes()
    fails(call("fit", files / "train.csv", "--out", out, "--seed", "5", *QUICK), 74, "--overwrite")
    assert (out / "model.safetensors").read_bytes() == before
    (out / "mine.txt").write_text("kept")
    assert call("predict", files / "run", files / "test.csv", "--out", out, "--overwrite").exit_code == 0
    assert {p.name for p in out.iterdir()} == {
        "bags.csv",
        "instances.csv",
        "environment.json",
        "results.safetensors",
        "summary.md",
        "mine.txt",
    }


def test_a_failed_fit_leaves_an_old_run_whole_and_no_new_one(files, tmp_path):
    out = tmp_path / "run"
    call("fit", files / "train.csv", "--out", out, *QUICK)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    (tmp_path / "bad.csv").write_text("bag,label,f1\na,2,0.5\nb,0,0.1\nc,1,0.1\n")
    fails(call("fit", tmp_path / "bad.csv", "--out", out, "--overwrite"), 65, "label of bag c is 1")
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    fails(call("fit", tmp_path / "bad.csv", "--out", tmp_path / "new" / "deep"), 65)
    assert not (tmp_path / "new").exists()


def test_foreign_folders_and_files_are_never_written_to(files, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    fails(call("fit", files / "train.csv", "--out", tmp_path, "--overwrite"), 74, "not of a psimil run")
    fails(call("fit", files / "train.csv", "--out", tmp_path / "thesis.txt"), 74, "not a directory")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n# c\n\n\n\nnum_inducng = 5", 'unknown key "num_inducng" in config line 7; did you mean "n_inducing"?'),
        ("H = 5\n[kernal]\nkind = 'RBF'", 'unknown key "kernal" in config line 2; did you mean "kernel"?'),
        ("qqqqq = 1", 'unknown key "qqqqq" in config line 1.'),
        ("verbose = 1", 'unknown key "verbose" in config line 1'),
        ("H = = 5", "is not valid TOML"),
        ("H = -1", "H must be a number > 0, got -1."),
        ('n_inducing = "many"', 'n_inducing must be "auto" or a whole number >= 1'),
        ('random_state = "x"', "random_state must be a whole number"),
        ('standardize = "maybe"', "standardize must be True or False, got 'maybe'."),
        ("feature_fingerprint = 3", "feature_fingerprint must be text"),
        ('model = "svm"', "model must be one of vgpmil, gvgpmil"),
        ('alpha = "one"', "alpha and beta must be numbers"),
        ("alpha = 0", "gamma density needs alpha > 0"),
        ('model = "vgpmil"\nbeta = 2', "alpha and beta belong to the model gvgpmil"),
        ('preset = "mine"', 'preset must be "paper" or "published"'),
        ('[kernel]\nkind = "Poly"', "unknown kernel"),
        ("kernel = 5", "[kernel] in the config file"),
        ('[density]\nkind = "Normal"', "unknown density"),
        ('[density]\nkind = "StudentT"\nmu = 1', "[density] in the config file"),
        ('alpha = 1\n[density]\nkind = "StudentT"', "Keep one"),
    ],
)
def test_config_problems_are_usage_errors(files, tmp_path, text, expected):
    (tmp_path / "c.toml").write_text(text)
    fails(call("fit", files / "train.csv", "--out", tmp_path / "out", "--config", tmp_path / "c.toml"), 2, expected)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--bogus"], "No such option: --bogus"),
        (["train"], "No such command 'train'"),
        (["fit"], "Missing argument 'BAGS'"),
        (["fit", "x.csv"], "Missing option '--out'"),
        (["fit", "x.csv", "--out", "o", "--modle", "vgpmil"], "--model"),
        (["fit", "x.csv", "--out", "o", "--model", "svm"], "vgpmil, gvgpmil"),
        (["fit", "x.csv", "--out", "o", "--label-posterior", "gibbs"], "'mean_field', 'max', got 'gibbs'"),
        (["fit", "x.csv", "--out", "o", "--H", "0"], "H must be a number > 0, got '0'"),
        (["fit", "x.csv", "--out", "o", "--H", "nan"], "H must be a number > 0"),
        (["fit", "x.csv", "--out", "o", "--H", "big"], "H must be a number > 0, got 'big'"),
        (["fit", "x.csv", "--out", "o", "--n-inducing", "0"], 'n_inducing must be "auto" or a whole number >= 1'),
        (["fit", "x.csv", "--out", "o", "--n-inducing"], "'--n-inducing' requires an argument"),
        (["fit", "x.csv", "--out", "o", "--label-posterior", "max"], "needs a finite H"),
    ],
)
def test_usage_errors(arguments, expected):
    fails(call(*arguments), 2, expected)


def test_missing_files(files, tmp_path):
    fails(call("fit", tmp_path / "no.csv", "--out", tmp_path / "o"), 66, "no.csv was not found")
    fails(call("predict", tmp_path / "no.safetensors", files / "test.csv", "--out", tmp_path / "o"), 66)
    fails(call("fit", files / "train.csv", "--out", tmp_path / "o", "--config", tmp_path / "no.toml"), 66, "no.toml")
    fails(call("info", tmp_path), 66, "does not exist")


def test_data_errors(files, tmp_path):
    frame = pd.read_csv(files / "test.csv")
    cases = {
        "other": (frame[["bag", "label", "f1", "f2"]], 'has no column "f3"'),
        "blind": (frame[["bag", "f1", "f2", "f3"]], "has no bag labels"),
        "bagless": (frame[["f1", "f2", "f3"]], 'has no column "bag"'),
    }
    for name, (table, expected) in cases.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        fails(call("evaluate", files / "run", tmp_path / f"{name}.csv"), 65, expected)
    frame[["bag", "label", "f2", "f1", "f3", "instance_label"]].to_csv(tmp_path / "order.csv", index=False)
    shuffled, straight = (
        json.loads(call("evaluate", files / "run", path, "--json").stdout)
        for path in (tmp_path / "order.csv", files / "test.csv")
    )
    assert shuffled["bags"] == straight["bags"]
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04]q\x00.")
    fails(call("info", tmp_path / "model.pkl"), 65, "Python pickle")
    whole = (files / "run" / "model.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-9])
    fails(call("info", tmp_path / "cut.safetensors"), 65, "model file")


def test_hostile_names_neither_steer_the_terminal_nor_become_formulas(files, tmp_path):
    frame = frame_of(n_bags=20)
    frame["bag"] = ["=cmd|' /C calc'!A0" if b == "b00" else f"[red]{b}" for b in frame["bag"]]
    frame.to_csv(tmp_path / "x\x1b[31m.csv", index=False)
    done = call("fit", tmp_path / "x\x1b[31m.csv", "--out", tmp_path / "o", *QUICK)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout + (tmp_path / "o" / "summary.md").read_text()
    text = (tmp_path / "o" / "bags.csv").read_text()
    assert "'=cmd" in text and "\n=cmd" not in text


def test_a_bug_is_one_line_and_debug_shows_where(files, monkeypatch):
    def broken(*_, **__):
        raise KeyError("nobody expected this")

    monkeypatch.setattr("psimil.files.model_file.load_model", broken)
    fails(call("info", files / "run"), 70, "nobody expected this", "report")
    done = call("info", files / "run", "--debug")
    assert done.exit_code == 70 and "Traceback" in done.stderr
    fails(call("info", files / "run"), 70)


def test_a_full_disk_is_74(files, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    fails(call("predict", files / "run", files / "test.csv", "--out", tmp_path / "o"), 74, "no space left")


def test_from_a_shell(files, tmp_path):
    done = process("evaluate", files / "run", files / "test.csv", "--json", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["n_bags"] == 30
    done = process("fit", "no.csv", "--out", "o", cwd=tmp_path)
    assert done.returncode == 66 and done.stderr == "error: no.csv was not found. Check the path.\n" and not done.stdout


def interrupted(folder, seconds):
    frame_of(n_bags=100).to_csv(folder / "train.csv", index=False)
    (folder / "endless.toml").write_text(
        "max_iter = 1000000000\npatience = 1000000000\nearly_stopping = 'out_of_bag'\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "psimil", "fit", "train.csv", "--out", "run", "--config", "endless.toml"]
    # a parent that runs in the background of a script ignores SIGINT, and its children would inherit that
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as running:
        while not any(folder.glob(".psimil-run-*")) and running.poll() is None:
            time.sleep(0.02)
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        try:
            _, errors = running.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    return running.returncode, errors


def test_f8_ctrl_c_ends_with_130_and_leaves_nothing(tmp_path, faults):
    code, errors = interrupted(tmp_path, seconds=0.5)
    assert code == 130
    assert "Traceback" not in errors
    assert sorted(os.listdir(tmp_path)) == ["endless.toml", "train.csv"]
    faults.add("F8")


@pytest.mark.parametrize("name", ["typer", "psimil.cli.main", "psimil.cli.view", "psimil.version"])
def test_f8_an_interrupt_while_the_command_is_loaded_is_quiet(tmp_path, faults, name):
    """SIGINT comes just when a module is asked for, whatever the time is by then."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {name!r} and 'psimil.__main__' in sys.modules:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stop())\n"
    )
    script = "import sys; sys.argv[0] = 'psimil'; from psimil.__main__ import main; main()"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], env=environment, capture_output=True, text=True, timeout=300,
        check=False, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == (0 if name == "psimil.version" else 130)  # which is there before the command
    faults.add("F8")


def test_an_interrupt_while_writing_leaves_the_old_run_whole(files, tmp_path, monkeypatch):
    out = tmp_path / "run"
    call("fit", files / "train.csv", "--out", out, *QUICK)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("psimil.cli.fitted.save_figure", stop)
    done = call("fit", files / "train.csv", "--out", out, "--overwrite", "--seed", "3", *QUICK)
    assert done.exit_code == 130
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert call("fit", files / "train.csv", "--out", tmp_path / "new", *QUICK).exit_code == 130
    assert not (tmp_path / "new").exists()
