"""Running jobs: each once, in any number of processes, or on a Dask cluster, with equal results."""

import sys
import time
from dataclasses import replace
from importlib.util import find_spec

import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from psimil.cluster import workforce
from psimil.foundations.errors import InputError, MissingFile
from psimil.paper.experiments import trial
from psimil.paper.experiments.plans import Job, plan
from psimil.paper.experiments.records import Records
from psimil.paper.experiments.trial import Trial, run_jobs, runnable

JOBS = [
    Job("musk1", "nested", "svm", split=1),
    Job("musk1", "nested", "vgpmil-bound", split=0, n_inducing=10),
    Job("musk1", "published", "vgpmil-bound", split=0, n_inducing=10),
]


def rows_without_seconds(records):
    return records.rows(JOBS).drop(columns="seconds")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The rows of the jobs, run one after the other."""
    records = Records(tmp_path_factory.mktemp("alone"))
    with threadpool_limits(1):
        assert run_jobs(JOBS, None, records) == 3
    return rows_without_seconds(records)


@pytest.fixture
def counted(monkeypatch):
    """Keys of the jobs that are run; nothing is fitted."""
    seen = []

    def fake(job, directory):
        seen.append(job.key)
        if job.split == 3:
            raise MissingFile("gone")
        return Trial([{"split": job.split, "directory": directory}], [])

    monkeypatch.setattr(trial, "run_trial", fake)
    return seen


def test_finished_jobs_are_never_run_again(counted, tmp_path):
    jobs = [Job("musk1", "nested", "svm", split=split) for split in (2, 0, 1)]
    records, told = Records(tmp_path), []
    assert run_jobs(jobs[:2], "folder", records, follow=told.append) == 2
    assert run_jobs(jobs, "folder", records, follow=told.append) == 1
    assert run_jobs(jobs, "folder", records) == 0
    assert counted == told == [job.key for job in jobs]
    assert records.rows(jobs).to_dict("list") == {"split": [2, 0, 1], "directory": ["folder"] * 3}


def test_a_repeat_with_another_setting_is_another_job(counted, tmp_path):
    job, records = Job("musk1", "nested", "vgpmil", n_inducing=50), Records(tmp_path)
    for other in (job, replace(job, n_inducing=100), replace(job, repeat=1), replace(job, split=1)):
        assert run_jobs([other], None, records) == 1
    assert len(set(counted)) == 4


def test_a_failing_job_keeps_those_before_it(counted, tmp_path):
    jobs = [Job("musk1", "nested", "svm", split=split) for split in range(5)]
    records = Records(tmp_path)
    with pytest.raises(MissingFile, match="gone"):
        run_jobs(jobs, None, records)
    assert [records.has(job) for job in jobs] == [True, True, True, False, False]


def test_processes_give_the_same_rows(alone, tmp_path):
    records, told = Records(tmp_path), []
    assert run_jobs(JOBS, None, records, n_jobs=2, follow=told.append) == 3
    assert sorted(told) == sorted(job.key for job in JOBS)
    pd.testing.assert_frame_equal(rows_without_seconds(records), alone, check_exact=True)


def test_without_torch_attention_is_left_out(monkeypatch):
    jobs = plan("musk1", "nested", models=["svm", "attention", "smooth"])
    monkeypatch.setitem(sys.modules, "torch", None)
    kept, left_out = runnable(jobs)
    assert left_out == ["Attention MIL", "Smooth attention MIL"]
    assert kept == [job for job in jobs if job.model == "svm"] and len(kept) == 25
    assert runnable(kept) == (kept, [])


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_with_torch_nothing_is_left_out():
    jobs = plan("musk1", "nested", models=["svm", "attention"])
    assert runnable(jobs) == (jobs, [])


# Dask


def test_a_dask_cluster_gives_the_same_rows(alone, tmp_path):
    distributed = pytest.importorskip("distributed")
    records, told = Records(tmp_path), []
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, threadpool_limits(1):
        count = run_jobs(JOBS, None, records, cluster=cluster.scheduler_address, follow=told.append)
        assert run_jobs(JOBS, None, records, cluster=cluster.scheduler_address) == 0
    assert count == 3 and sorted(told) == sorted(job.key for job in JOBS)
    pd.testing.assert_frame_equal(rows_without_seconds(records), alone, check_exact=True)


def refused(address, tmp_path):
    started = time.perf_counter()
    with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}"):
        run_jobs(JOBS, None, Records(tmp_path), cluster=address)
    assert not (tmp_path / "fits").exists()
    return time.perf_counter() - started


def test_an_address_that_is_none(tmp_path):
    pytest.importorskip("distributed")
    assert refused("nonsense", tmp_path) < 60


def test_an_address_where_nobody_listens(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    assert workforce.ANSWER_WITHIN <= 15
    monkeypatch.setattr(workforce, "ANSWER_WITHIN", 1)
    assert refused("tcp://127.0.0.1:9", tmp_path) < 60


def test_without_dask_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"\[distributed\]"):
        run_jobs(JOBS, None, Records(tmp_path), cluster="tcp://127.0.0.1:8786")
