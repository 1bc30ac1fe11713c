"""Run jobs in parallel, on this machine or on a Dask cluster; finished jobs are kept at once and never repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from joblib import Parallel, delayed, parallel_config

from psimil.paper.experiments.models import entry
from psimil.paper.experiments.plans import Job
from psimil.paper.experiments.records import Records
from psimil.paper.experiments.trial import Trial, run_trial

Follow = Callable[[str], None]


def run_jobs(
    jobs: Sequence[Job],
    directory: str | None,
    records: Records,
    *,
    n_jobs: int = 1,
    cluster: str | None = None,
    follow: Follow | None = None,
) -> int:
    """Run the jobs that are not finished yet.

    Parameters
    ----------
    directory : where data files lie, on every machine that runs jobs.
    n_jobs : processes on this machine.
    cluster : address of a Dask scheduler, which then runs the jobs instead.
    follow : called with the key of every job that finishes.

    Returns
    -------
    count : number of jobs that were run.
    """
    waiting = [job for job in jobs if not records.has(job)]
    with _backend(n_jobs, cluster) as parallel:
        tasks = (delayed(_run)(job, directory) for job in waiting)
        for job, trial in parallel(tasks):
            records.keep(job, trial)
            if follow is not None:
                follow(job.key)
    return len(waiting)


def runnable(jobs: Sequence[Job]) -> tuple[list[Job], list[str]]:
    """The jobs whose libraries are installed, and the labels of the models that were left out."""
    missing = {name for name in {job.model for job in jobs} if entry(name).needs_torch and not _has_torch()}
    return [job for job in jobs if job.model not in missing], sorted(entry(name).label for name in missing)


def _run(job: Job, directory: str | None) -> tuple[Job, Trial]:
    from threadpoolctl import threadpool_info

    if entry(job.model).needs_torch:  # torch keeps its own threads; give it what BLAS has
        import torch

        torch.set_num_threads(min((pool["num_threads"] for pool in threadpool_info()), default=1))
    return job, run_trial(job, directory)


@contextmanager
def _backend(n_jobs: int, cluster: str | None) -> Iterator[Parallel]:
    if cluster is None:
        yield Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
        return
    from psimil.cluster import connect

    with connect(cluster) as client, parallel_config(backend="dask", client=client, n_jobs=-1):
        yield Parallel(return_as="generator_unordered")


def _has_torch() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None
