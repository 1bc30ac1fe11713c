"""The bags of one job: to learn from, to stop by, and to measure on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.datasets import LabelledBags, load_rsna_training
from psimil.foundations.errors import MissingFile
from psimil.paper.experiments.cohorts import Cohort, load_cohort, rows_of
from psimil.paper.experiments.job import Job
from psimil.paper.experiments.splits import HELD_OUT, Split, nested_split, paper_split, published_split, with_validation
from psimil.paper.experiments.verdict import Verdict

Array = NDArray[Any]

CROSS_VALIDATION, TO_RSNA, TO_CQ500 = "cross-validation", "CQ500 to RSNA", "RSNA to CQ500"
TASKS = {TO_RSNA: ("cq500", "rsna"), TO_CQ500: ("rsna", "cq500")}


@dataclass(frozen=True, eq=False)
class Measured:
    """Bags to measure on, what they were to the model, and what a CNN said about them."""

    bags: LabelledBags
    measured_on: str
    name: str | None = None
    stored: Verdict | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """Everything a job needs."""

    train: LabelledBags
    stop: LabelledBags | None
    measured: list[Measured]


def gather(job: Job, directory: str | None, *, stopping: bool) -> Material:
    """The bags of a job.

    Parameters
    ----------
    stopping : whether the model needs bags that stop its training also under the nested protocol.
    """
    if job.experiment == "ich" and job.protocol != "nested":
        return _supplied(job, directory)
    if job.task in TASKS:
        return _across(job, directory, stopping)
    name = "rsna" if job.experiment == "ich" else job.experiment
    cohort = load_cohort(name, directory, job.cnn, job.quick)
    split = split_of(job, cohort.y, stopping)
    bags = cohort.features(split.features)
    stop = None if split.stop is None else cohort.take(bags, split.stop)
    test = Measured(cohort.take(bags, split.test), split.measured_on, stored=_stored(cohort, bags.offsets, split.test))
    return Material(cohort.take(bags, split.train), stop, [test])


def split_of(job: Job, y: Array, stopping: bool = False) -> Split:
    """Which bags of a cross-validated cohort do what."""
    if job.protocol == "nested":
        return nested_split(y, job.split, job.repeat, stopping=stopping)
    if job.protocol == "paper":
        return paper_split(y, job.split)
    return published_split(y, job.split, stop_on_training=job.experiment.startswith("musk"))


def _across(job: Job, directory: str | None, stopping: bool) -> Material:
    """Train on one hospital's scans, measure on the other's."""
    source, target = (load_cohort(name, directory, job.cnn) for name in TASKS[job.task])
    everything, all_test = np.arange(len(source.y)), np.arange(len(target.y))
    split = with_validation(source.y, everything, everything) if stopping else None
    bags, asked = source.features(everything), target.features(everything)
    train = everything if split is None else split.train
    stop = None if split is None or split.stop is None else source.take(bags, split.stop)
    test = Measured(target.take(asked, all_test), HELD_OUT, stored=_stored(target, asked.offsets, all_test))
    return Material(source.take(bags, train), stop, [test])


def _supplied(job: Job, directory: str | None) -> Material:
    """The paper's own protocol on the RSNA training files that a user supplies."""
    if directory is None:
        raise MissingFile("the RSNA training features are not public. Name the folder of your files with --data.")
    train, test, cq500 = load_rsna_training(directory, job.n_features or 8, job.split + 1)
    parts = [LabelledBags(s.bags, s.y, s.y_instances) for s in (train, test, cq500)]
    split = with_validation(train.y, np.arange(len(train.y)), np.arange(len(train.y)))
    cohort = Cohort(train.y, train.y_instances, lambda _: train.bags)
    assert split.stop is not None  # a validation subset was asked for
    return Material(
        cohort.take(train.bags, split.train),
        cohort.take(train.bags, split.stop),
        [Measured(parts[1], HELD_OUT, "RSNA"), Measured(parts[2], HELD_OUT, "CQ500")],
    )


def _stored(cohort: Cohort, offsets: Array, index: Array) -> Verdict | None:
    """The stored predictions of the CNN on the chosen bags; slices are called 0 or 1, so their log-odds are signs."""
    if cohort.cnn_prob is None:
        return None
    prob = np.clip(cohort.cnn_prob[index], 1e-12, 1 - 1e-12)
    slices = None if cohort.cnn_instances is None else 2.0 * cohort.cnn_instances[rows_of(offsets, index)] - 1.0
    return Verdict(np.log(prob) - np.log1p(-prob), np.full(len(index), np.nan), instance_log_odds=slices)
