"""The durable side of a run: finished fits on disk, and the directory that may be continued or not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from psimil.datasets import load_musk1
from psimil.files import workdir
from psimil.foundations.errors import InputError, OutputError
from psimil.paper.experiments.plans import Job, plan
from psimil.paper.experiments.records import Records, open_records
from psimil.paper.experiments.trial import Trial
from psimil.paper.experiments.trial_data import split_rows

JOBS = [Job("musk1", "nested", "svm", split=split) for split in range(4)]


def trial(job, cohorts=1):
    rows = [
        {"split": np.int64(job.split), "bag_auc": np.float64(0.1) * (job.split + 3), "task": f"task {n}", "cnn": None,
         "instance_auc": float("nan")}
        for n in range(cohorts)
    ]  # fmt: skip
    arrays = [{"y": np.arange(3) + n, "aggregate": np.array("max")} for n in range(cohorts)]
    return Trial(rows, arrays, [{"pass": 1, "elbo": -2.5}])


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "run")


def test_round_trip(records):
    job = JOBS[2]
    assert not records.has(job)
    records.keep(job, trial(job, cohorts=2))
    assert records.has(job) and not records.has(JOBS[1])
    frame = records.rows(JOBS)
    assert frame["bag_auc"].tolist() == [0.1 * 5] * 2 and frame["task"].tolist() == ["task 0", "task 1"]
    assert frame[["instance_auc", "cnn"]].isna().all(axis=None)
    kept = list(records.predictions(JOBS))
    assert [row["task"] for row, _ in kept] == ["task 0", "task 1"]
    for number, (_, arrays) in enumerate(kept):
        assert arrays["y"].tolist() == [number, number + 1, number + 2] and str(arrays["aggregate"]) == "max"
    assert (records.path / "history" / f"{job.key}.csv").read_text() == "pass,elbo\n1,-2.5\n"


def test_rows_come_in_the_order_of_the_jobs(records):
    for job in (JOBS[3], JOBS[0], JOBS[2]):
        records.keep(job, trial(job))
    assert records.rows(JOBS)["split"].tolist() == [0, 2, 3]
    assert records.rows(JOBS[::-1])["split"].tolist() == [3, 2, 0]
    assert [row["split"] for row, _ in records.predictions(JOBS)] == [0, 2, 3]


def test_nothing_is_finished_without_its_json(records):
    job = JOBS[0]
    records.keep(job, trial(job))
    (records.path / "fits" / f"{job.key}.json").unlink()
    assert not records.has(job) and list(records.predictions(JOBS)) == []
    with pytest.raises(InputError, match="no fit has finished yet"):
        records.rows(JOBS)


def test_the_json_is_written_last(records, monkeypatch):
    written = []

    def note(path, write):
        written.append(path.suffix)
        if path.suffix == ".json":
            raise KeyboardInterrupt

    monkeypatch.setattr("psimil.paper.experiments.records.atomic_write", note)
    with pytest.raises(KeyboardInterrupt):
        records.keep(JOBS[0], trial(JOBS[0], cohorts=2))
    assert written == [".npz", ".npz", ".json"] and not records.has(JOBS[0])


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"job": 1, "rows": []}', b'{"rows": []}', b"\xff\xfe", b'{"job": {}}']
)
def test_a_damaged_file_is_named(records, content):
    job = JOBS[0]
    records.keep(job, trial(job))
    path = records.path / "fits" / f"{job.key}.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{job.key}.json is damaged .*Delete it; the fit will be repeated"):
        records.rows(JOBS)


def test_the_json_of_another_fit_is_refused(records):
    job = JOBS[0]
    for other in (JOBS[1], replace(job, quick=True)):
        records.keep(other, trial(other))
        (records.path / "fits" / f"{other.key}.json").replace(records.path / "fits" / f"{job.key}.json")
        with pytest.raises(InputError, match=f"{job.key}.json is damaged .it is of another fit"):
            records.rows([job])


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 and no more"])
def test_lost_or_damaged_predictions_are_named(records, content):
    job = JOBS[0]
    records.keep(job, trial(job))
    path = records.path / "predictions" / f"{job.key}.npz"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{job.key}.npz .*Delete {job.key}.json"):
        list(records.predictions(JOBS))


# The run directory


def test_a_run_is_begun_and_continued(tmp_path):
    run = open_records(tmp_path / "deep" / "run", "musk1", quick=True)
    config = json.loads((run.path / "config.json").read_text())
    assert config["experiment"] == "musk1" and config["quick"] is True
    run.keep(JOBS[0], trial(JOBS[0]))
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in run.path.rglob("*") if p.is_file()}
    again = open_records(run.path, "musk1", quick=True)
    assert again.has(JOBS[0])
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in run.path.rglob("*") if p.is_file()} == before


def test_a_run_that_was_killed_at_its_very_beginning_is_continued(tmp_path):
    run = open_records(tmp_path, "musk1", quick=True)
    (run.path / "environment.json").unlink()
    open_records(tmp_path, "musk1", quick=True)
    assert json.loads((run.path / "environment.json").read_text())["psimil"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["thesis.txt", "config.json"])
def test_a_foreign_directory_is_refused(tmp_path, name, overwrite):
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(OutputError, match="files that are not of a psimil run"):
        open_records(tmp_path, "musk1", quick=True, overwrite=overwrite)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, '{"mine": 1}')]


def test_a_file_is_not_a_directory(tmp_path):
    (tmp_path / "run").write_text("mine")
    for path in (tmp_path / "run", tmp_path / "run" / "deeper"):
        with pytest.raises(OutputError, match="cannot write"):
            open_records(path, "musk1", quick=True)
    assert (tmp_path / "run").read_text() == "mine"


def test_a_run_with_other_settings_or_of_another_version_is_refused(tmp_path, monkeypatch):
    open_records(tmp_path, "musk1", quick=True)
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(OutputError, match=r"quick was True\. .*--overwrite"):
        open_records(tmp_path, "musk1", quick=False)
    with pytest.raises(OutputError, match="experiment was 'musk1'"):
        open_records(tmp_path, "musk2", quick=True)
    here = workdir.environment()
    for name in ("psimil", "commit"):
        monkeypatch.setattr(workdir, "environment", lambda name=name: here | {name: "another"})
        with pytest.raises(OutputError, match=f"{name} was"):
            open_records(tmp_path, "musk1", quick=True)
    assert (tmp_path / "config.json").read_bytes() == before


def test_overwriting_clears_its_own_files_only(tmp_path):
    run = open_records(tmp_path, "musk1", quick=True)
    run.keep(JOBS[0], trial(JOBS[0]))
    for name in ("tables/scores.csv", "figures/theta.png", "summary.md", "fits.csv", "splits.csv", "metrics.json"):
        run.write_text(name, "old")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "fits.csv").write_text("mine")
    again = open_records(tmp_path, "musk1", quick=False, overwrite=True)
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert left == ["config.json", "environment.json", "notes.txt", "thesis/fits.csv"]
    assert not again.has(JOBS[0]) and json.loads((tmp_path / "config.json").read_text())["quick"] is False


def test_split_rows_tell_every_bag_of_every_split_once():
    y = load_musk1()[1]
    jobs = plan("musk1", "nested", models=["svm", "vgpmil", "vgpmil-published"])
    rows = split_rows(jobs, y)
    counted = {}
    for row in rows:
        key = row["repeat"], row["split"], row["stopping"]
        counted.setdefault(key, []).append(row["bag"])
    assert len(counted) == 25 + 5  # the model with stopping bags has one repeat
    for bags in counted.values():
        assert sorted(bags) == list(range(92))
    published = split_rows(plan("musk1", "published", models=["vgpmil-published"]), y)
    first = {part: [r["bag"] for r in published if r["split"] == 0 and r["part"] == part] for part in
             ("train", "stop", "measured")}  # fmt: skip
    assert first["train"] == first["stop"] == first["measured"] and len(first["train"]) == 73
