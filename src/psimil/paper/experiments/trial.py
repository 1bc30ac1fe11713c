"""Run jobs: fit the model as the protocol says, measure it on the bags the protocol names; in parallel if wished."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict

from psimil.datasets import LabelledBags
from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning
from psimil.paper.experiments.models import CANDIDATES, Entry, entry
from psimil.paper.experiments.plans import Job
from psimil.paper.experiments.scores import ModelOutput
from psimil.paper.experiments.trial_data import TrialData, gather
from psimil.predictive.thresholds import bag_threshold
from psimil.results.metrics import bag_metrics

if TYPE_CHECKING:
    from psimil.paper.experiments.records import Records

PATIENCE = 10
INNER_FOLDS = 3
SMALL = 500  # bags up to which baselines choose parameters and threshold by inner cross-validation
STOPPING = {"nested": "auc", "paper": "auc", "published": "log_loss"}
MAX_ITER = {"nested": 100, "paper": 100, "published": 60}


@dataclass(frozen=True, eq=False)
class Trial:
    """A finished job: one row of scores and one set of predictions per measured cohort, and the bound's history."""

    rows: list[dict[str, Any]]
    predictions: list[dict[str, Array]]
    history: list[dict[str, Any]] = field(default_factory=list)


def run_trial(job: Job, directory: str | None) -> Trial:
    """Fit and measure.

    Parameters
    ----------
    directory : where data files lie; None for embedded data.

    Examples
    --------
    >>> trial = run_trial(Job("musk1", "nested", "svm", split=0), None)
    >>> trial.rows[0]["measured_on"], trial.rows[0]["n_test"]
    ('held-out bags', 19)
    """
    registered = entry(job.model)
    data = gather(job, directory, stopping=registered.needs_stopping)
    started = time.perf_counter()
    with warnings.catch_warnings():
        for category in (DataWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        model, threshold = _fit(job, registered, data)
        seconds = time.perf_counter() - started
        outputs = [
            (measured, measured.stored if registered.build is None else ModelOutput.of(model, measured.bags, threshold))
            for measured in data.measured
        ]
        facts = _facts(job, registered, model, data) | {"seconds": seconds}
    known = [(measured, output) for measured, output in outputs if output is not None]
    rows = [
        facts
        | {"task": measured.name or job.task, "measured_on": measured.measured_on}
        | {"n_test": len(measured.bags.y), "threshold": output.threshold}
        | output.scores(measured.bags)
        for measured, output in known
    ]
    predictions = [output.arrays(measured.bags) for measured, output in known]
    history = [dict(row) for row in model.history_] if registered.is_gaussian_process else []
    return Trial(rows, predictions, history)


def _fit(job: Job, registered: Entry, data: TrialData) -> tuple[Any, float]:
    if registered.build is None:
        return None, 0.5
    model = registered.build(job)
    train = data.train
    if not registered.is_gaussian_process:
        return _fit_baseline(model, registered, train, job.seed)
    if data.stop is None:
        candidates = [clone(model).set_params(**chosen) for chosen in CANDIDATES.get(job.experiment, [{}])]
        fitted = [candidate.fit(train.bags, train.y) for candidate in candidates]
        return max(fitted, key=lambda candidate: candidate.out_of_bag_.mean_log_predictive), 0.5
    model.set_params(early_stopping=STOPPING[job.protocol], max_iter=MAX_ITER[job.protocol])
    if registered.preset != "published":  # which brings its own, warm-up included
        model.set_params(patience=PATIENCE)
    return model.fit(train.bags, train.y, eval_set=(data.stop.bags, data.stop.y)), 0.5


def _fit_baseline(model: Any, registered: Entry, train: LabelledBags, seed: int) -> tuple[Any, float]:
    """Parameters and threshold by inner cross-validation on the training bags, where they are few."""
    if len(train.y) > SMALL:
        return model.fit(train.bags, train.y), 0.5
    folds = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    chosen = clone(model)
    if registered.grid:
        search = GridSearchCV(model, dict(registered.grid), scoring="neg_log_loss", cv=folds, refit=False)
        chosen.set_params(**search.fit(train.bags, train.y).best_params_)
    out_of_fold = cross_val_predict(chosen, train.bags, train.y, cv=folds, method="decision_function")
    return chosen.fit(train.bags, train.y), bag_threshold(np.asarray(out_of_fold), train.y)


def _facts(job: Job, registered: Entry, model: Any, data: TrialData) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "experiment": job.experiment,
        "protocol": job.protocol,
        "model": registered.label,
        "preset": registered.preset,
        "split": job.split,
        "repeat": job.repeat,
        "cnn": job.cnn,
        "n_features": job.n_features,
        "n_inducing": job.n_inducing,
        "alpha": job.alpha,
        "beta": job.beta,
        "n_train": len(data.train.y),
    }
    if registered.is_gaussian_process:
        facts |= {
            "n_inducing": None if model.n_inducing == "auto" else model.n_inducing,
            "standardize": model.standardize,
            "aggregate": model.model_.aggregate,
            "sharing": model.model_.sharing,
            "coupling": model.model_.coupling,
            "context": model.model_.context,
            "kernel": str(model.kernel_),
            "passes": model.n_iter_,
            "select_accuracy": _accuracy(model, data.stop),
        }
    return facts


def _accuracy(model: Any, stop: LabelledBags | None) -> float:
    """Accuracy on the bags that stopped the training, by which the paper's grid is searched."""
    if stop is None:
        return float("nan")
    prediction = model.predict_dist(stop.bags)
    return bag_metrics(stop.y, prediction.prob, prediction.threshold, prediction.log_odds)["accuracy"]


def run_jobs(
    jobs: Sequence[Job],
    directory: str | None,
    records: Records,
    *,
    n_jobs: int = 1,
    cluster: str | None = None,
    follow: Callable[[str], None] | None = None,
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
    absent = find_spec("torch") is None
    missing = {name for name in {job.model for job in jobs} if entry(name).needs_torch and absent}
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
