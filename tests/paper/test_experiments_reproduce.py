"""``psimil reproduce``: what a run leaves, and that a killed run ends like one that was never interrupted."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from commands import ROOT, call, fails, process, times_typer

COMMAND = ["reproduce", "musk1", "--quick", "--models", "svm,vgpmil", "--out", "runs", "--json"]
COMPARED = ["tables/scores.csv", "tables/scores.md", "tables/scores.tex", "splits.csv",
            "metrics.json", "config.json", "environment.json"]  # fmt: skip
SECONDS = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nobody interrupted, whose figures are sketches, and what it printed."""
    folder = tmp_path_factory.mktemp("whole")
    with contextlib.chdir(folder):
        done = call(*COMMAND, "--jobs", "1")
    assert done.exit_code == 0, done.stderr
    return folder / "runs" / "musk1-quick", done


def killed(folder, reached, jobs):
    """Run until ``reached`` is true, then kill the process and its workers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "psimil", *COMMAND, "--jobs", str(jobs)]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:  # fmt: skip
        try:
            ends = time.monotonic() + SECONDS
            while not reached() and running.poll() is None and time.monotonic() < ends:
                time.sleep(0.005)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode


def fits(run):
    return {path: path.stat().st_mtime_ns for path in run.glob("fits/*.json")}


def assert_same(run, expected):
    for name in COMPARED:
        assert (run / name).read_bytes() == (expected / name).read_bytes(), name
    assert {p.name for p in fits(run)} == {p.name for p in fits(expected)}
    first, second = (pd.read_csv(folder / "fits.csv").drop(columns="seconds") for folder in (run, expected))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


@pytest.fixture
def unfinished(whole, tmp_path):
    """A run of which four fits are finished and nothing is reported."""
    run = tmp_path / "runs" / "musk1-quick"
    shutil.copytree(whole[0], run)
    for name in ("tables", "figures"):
        shutil.rmtree(run / name)
    lost = [path for path in run.glob("*/*.svm.split[12].*") if path.is_file()]
    assert len(lost) == 4
    for path in [*lost, *(run / name for name in ("fits.csv", "splits.csv", "metrics.json", "summary.md"))]:
        path.unlink()
    return run


@pytest.mark.slow  # a process that is killed in earnest; test_experiments_jobs.py stops one in this process
def test_a_killed_run_ends_like_one_that_was_not(whole, unfinished, tmp_path):
    assert killed(tmp_path, lambda: len(fits(unfinished)) > 4, jobs=1) == -signal.SIGKILL
    before = fits(unfinished)
    assert 5 <= len(before) < 6 and not (unfinished / "summary.md").exists()
    done = process(*COMMAND, "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"]["musk1"]["run_now"] == 6 - len(before)
    assert before.items() <= fits(unfinished).items()  # kept, not written again
    assert_same(unfinished, whole[0])


@pytest.mark.slow
def test_a_run_killed_again_and_again(whole, tmp_path):
    run = tmp_path / "runs" / "musk1-quick"
    points = [
        lambda: (run / "config.json").exists(),
        lambda: len(fits(run)) >= 1,
        lambda: len(fits(run)) >= 3,
        lambda: len(fits(run)) >= 5,
        lambda: (run / "tables" / "scores.csv").exists(),
        lambda: (run / "figures").exists(),
    ]
    kept = {}
    for reached in points:
        assert killed(tmp_path, reached, jobs=2) == -signal.SIGKILL
        assert kept.items() <= fits(run).items()
        kept = fits(run)
    assert process(*COMMAND, "--jobs", "2", cwd=tmp_path).returncode == 0
    assert kept == fits(run) and len(kept) == 6
    assert_same(run, whole[0])


# What a run leaves


def test_every_promised_file_is_there(whole):
    run, _ = whole
    found = {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
    keys = [f"nested.cross-validation.{m}.split{s}" for m in ("svm", "vgpmil.m50") for s in range(3)]
    figures = ["bars-nested-cross-validation", "bound", "referral-cross-validation", "theta",
               "time-auc-nested-cross-validation"]  # fmt: skip
    promised = {"fits.csv", "splits.csv", "metrics.json", "config.json", "environment.json", "summary.md"}
    promised |= {f"tables/{name}.{kind}" for name in ("scores", "time") for kind in ("csv", "md", "tex")}
    promised |= {f"fits/{key}.json" for key in keys} | {f"predictions/{key}.npz" for key in keys}
    promised |= {f"figures/{name}.{kind}" for name in figures for kind in ("png", "pdf", "csv")}
    promised |= {f"history/{key}.csv" for key in keys if "vgpmil" in key}
    assert promised <= found
    assert not [name for name in found if name.endswith(".tmp")]
    for name in promised:
        assert (run / name).stat().st_size > 0, name


def test_the_numbers_are_the_same_everywhere(whole):
    run, done = whole
    assert len(done.stdout.splitlines()) == 1
    facts = json.loads(done.stdout)["results"]["musk1"]
    assert (facts["fits"], facts["run_now"], facts["out"]) == (6, 6, os.path.join("runs", "musk1-quick"))
    scores = json.loads((run / "metrics.json").read_text())["scores"]
    assert facts["scores"] == scores
    table = pd.read_csv(run / "tables" / "scores.csv", keep_default_na=False, na_values=[""])
    assert list(table.columns) == list(scores[0])
    for line, record in zip(table.to_dict("records"), scores, strict=True):
        for name, value in record.items():
            assert line[name] == (pytest.approx(value, rel=1e-14) if isinstance(value, float) else value) or (
                value in (None, "") and pd.isna(line[name])
            )
    rows = pd.read_csv(run / "fits.csv")
    for record in scores:
        auc = rows[rows["model"] == record["model"]]["bag_auc"]
        assert (record["n"], len(auc)) == (3, 3)
        assert record["bag_auc_mean"] == pytest.approx(auc.mean())
        assert record["bag_auc_sd"] == pytest.approx(np.std(auc, ddof=1))
    text = (run / "tables" / "scores.md").read_text()
    assert text in (run / "summary.md").read_text() and f"{scores[0]['bag_auc_mean']:.3f}" in text
    assert "held-out bags" in text and "Research use only" in (run / "summary.md").read_text()


def test_splits_tell_which_bags_were_measured(whole):
    splits = pd.read_csv(whole[0] / "splits.csv")
    measured = splits[splits["part"] == "measured"]
    assert measured["bag"].is_unique and set(measured["bag"]) < set(range(92))
    assert measured.groupby("split").size().between(18, 19).all()  # three of five folds
    counts = measured.groupby("split").size()
    rows = pd.read_csv(whole[0] / "fits.csv")
    assert rows.groupby("split")["n_test"].unique().map(list).to_dict() == {s: [n] for s, n in counts.items()}


def test_no_text_file_names_the_machine(whole):
    run, _ = whole
    for path in run.rglob("*"):
        if path.suffix in (".csv", ".md", ".tex", ".json"):
            text = path.read_text(encoding="utf-8")
            assert str(run.parent) not in text and not re.search(r"/(home|tmp|work|root|Users|var)/", text), path


# The command line


def test_an_unknown_experiment_is_told_the_list(tmp_path):
    done = call("reproduce", "musk3", "--out", tmp_path / "runs")
    fails(done, 2, "'musk3' is not one of musk1, musk2, mnist-pca, mnist-raw, ich, all")
    fails(call("reproduce", "musk1", "--protocol", "honest"), 2, "nested, paper, published, all")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("experiment", ["mnist-pca", "mnist_raw", "ich", "all"])
def test_files_that_are_not_embedded_are_asked_for_before_anything_is_run(tmp_path, experiment):
    done = call("reproduce", experiment, "--quick", "--out", tmp_path / "runs")
    fails(done, 66, "not embedded", "--data", "mnist-raw" if experiment == "all" else experiment.replace("_", "-"))
    assert not (tmp_path / "runs").exists()
    (tmp_path / "empty").mkdir()
    done = call("reproduce", experiment, "--data", tmp_path / "empty", "--no-download", "--out", tmp_path / "runs")
    fails(done, 66, "was not found in")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("models", "message"), [("svm,bert", "no model is called 'bert'"), ("cnn", "musk1 has no fits of cnn")]
)
def test_models_that_cannot_be_run(tmp_path, models, message):
    fails(call("reproduce", "musk1", "--models", models, "--out", tmp_path / "runs"), 65, message)
    assert not (tmp_path / "runs").exists()


def test_a_run_of_nothing_but_a_missing_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = call("reproduce", "musk1", "--models", "attention", "--out", tmp_path / "runs", "--quiet")
    fails(done, 65, "no fit is left to run")
    assert not (tmp_path / "runs").exists()


def test_foreign_files_are_left_alone(tmp_path):
    folder = tmp_path / "runs" / "musk1-quick"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("mine")
    for more in ([], ["--overwrite"]):
        done = call("reproduce", "musk1", "--quick", "--models", "svm", "--out", tmp_path / "runs", *more)
        fails(done, 74, "not of a psimil run")
    assert [p.name for p in folder.iterdir()] == ["thesis.txt"]


def test_help_is_quick(tmp_path):
    assert "--protocol" in process("reproduce", "--help", cwd=tmp_path).stdout
    assert times_typer("reproduce", "--help", cwd=tmp_path) < 5
