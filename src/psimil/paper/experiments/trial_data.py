"""The bags of one job: which teach, which stop the training, and which are measured, the heart of each protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from psimil.datasets import LabelledBags, load_rsna_training
from psimil.foundations.arrays import Array
from psimil.foundations.errors import MissingFile
from psimil.paper.experiments.cohorts import Cohort, load_cohort, rows_of
from psimil.paper.experiments.models import entry
from psimil.paper.experiments.scores import ModelOutput

if TYPE_CHECKING:
    from psimil.paper.experiments.plans import Job

CROSS_VALIDATION, TO_RSNA, TO_CQ500 = "cross-validation", "CQ500 to RSNA", "RSNA to CQ500"
TASKS = {TO_RSNA: ("cq500", "rsna"), TO_CQ500: ("rsna", "cq500")}
FOLDS = 5
VALIDATION = 0.1  # share of the training bags that stops the training under the paper's protocol
HELD_OUT, TRAINING, STOPPING = "held-out bags", "training bags", "stopping bags"


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of bags.

    Parameters
    ----------
    train : bags the model learns from.
    stop : bags that decide when training ends, or None.
    test : bags the scores are measured on.
    features : bags that learned features may use.
    measured_on : what the measured bags were to the model, in words.
    """

    train: Array
    stop: Array | None
    test: Array
    features: Array
    measured_on: str


def nested_split(y: Array, split: int, repeat: int = 0, *, stopping: bool = False) -> Split:
    """A stratified fold held out; with ``stopping``, a tenth of the other bags stops the training.

    Examples
    --------
    >>> found = nested_split(np.arange(100) % 2, split=0)
    >>> len(found.train), len(found.test), found.measured_on
    (80, 20, 'held-out bags')
    """
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(np.zeros(len(y)), y)
    train, test = map(np.asarray, list(folds)[split])
    return with_validation(y, train, test) if stopping else Split(train, None, test, train, HELD_OUT)


def published_split(y: Array, split: int, *, stop_on_training: bool) -> Split:
    """What the authors' code does: folds in file order; the bags it measures are those that stop the training.

    Its tuple (train, test, validation) is unpacked as (train, validation, test). On MUSK validation and training bags
    are the same, so training bags are measured; on MNIST the tenth of the training bags that stops the training is.
    The test fold is never looked at, and features are learned on all bags.

    Parameters
    ----------
    stop_on_training : MUSK (True) or MNIST (False).

    Examples
    --------
    >>> y = np.arange(100) % 2
    >>> found = published_split(y, 0, stop_on_training=True)
    >>> found.measured_on, np.array_equal(found.train, found.test)
    ('training bags', True)
    """
    train, _ = list(StratifiedKFold(FOLDS).split(np.zeros(len(y)), y))[split]
    everything = np.arange(len(y))
    if stop_on_training:
        return Split(train, train, train, everything, TRAINING)
    learn, stop = train_test_split(train, train_size=1 - VALIDATION, stratify=y[train], random_state=42)
    return Split(learn, stop, stop, everything, STOPPING)


def with_validation(y: Array, train: Array, test: Array) -> Split:
    """A tenth of the training bags stops the training; the test bags are measured."""
    learn, stop = train_test_split(train, test_size=VALIDATION, stratify=y[train], random_state=0)
    return Split(learn, stop, test, learn, HELD_OUT)


@dataclass(frozen=True, eq=False)
class MeasuredBags:
    """Bags to measure on, what they were to the model, and what a CNN said about them."""

    bags: LabelledBags
    measured_on: str
    name: str | None = None
    stored: ModelOutput | None = None


@dataclass(frozen=True, eq=False)
class TrialData:
    """Everything a job needs."""

    train: LabelledBags
    stop: LabelledBags | None
    measured: list[MeasuredBags]


def gather(job: Job, directory: str | None, *, stopping: bool) -> TrialData:
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
    test = MeasuredBags(
        cohort.take(bags, split.test), split.measured_on, stored=_stored(cohort, bags.offsets, split.test)
    )
    return TrialData(cohort.take(bags, split.train), stop, [test])


def split_of(job: Job, y: Array, stopping: bool = False) -> Split:
    """Which bags of a cross-validated cohort do what."""
    if job.protocol == "nested":
        return nested_split(y, job.split, job.repeat, stopping=stopping)
    if job.protocol == "paper":  # its text: a validation subset of the other bags stops the training
        return nested_split(y, job.split, stopping=True)
    return published_split(y, job.split, stop_on_training=job.experiment.startswith("musk"))


def _across(job: Job, directory: str | None, stopping: bool) -> TrialData:
    """Train on one hospital's scans, measure on the other's."""
    source, target = (load_cohort(name, directory, job.cnn) for name in TASKS[job.task])
    everything, all_test = np.arange(len(source.y)), np.arange(len(target.y))
    split = with_validation(source.y, everything, everything) if stopping else None
    bags, asked = source.features(everything), target.features(everything)
    train = everything if split is None else split.train
    stop = None if split is None or split.stop is None else source.take(bags, split.stop)
    test = MeasuredBags(target.take(asked, all_test), HELD_OUT, stored=_stored(target, asked.offsets, all_test))
    return TrialData(source.take(bags, train), stop, [test])


def _supplied(job: Job, directory: str | None) -> TrialData:
    """The paper's own protocol on the RSNA training files that a user supplies."""
    if directory is None:
        raise MissingFile("the RSNA training features are not public. Name the folder of your files with --data.")
    train, test, cq500 = load_rsna_training(directory, job.n_features or 8, job.split + 1)
    parts = [LabelledBags(s.bags, s.y, s.y_instances) for s in (train, test, cq500)]
    split = with_validation(train.y, np.arange(len(train.y)), np.arange(len(train.y)))
    cohort = Cohort(train.y, train.y_instances, lambda _: train.bags)
    assert split.stop is not None  # a validation subset was asked for
    return TrialData(
        cohort.take(train.bags, split.train),
        cohort.take(train.bags, split.stop),
        [MeasuredBags(parts[1], HELD_OUT, "RSNA"), MeasuredBags(parts[2], HELD_OUT, "CQ500")],
    )


def _stored(cohort: Cohort, offsets: Array, index: Array) -> ModelOutput | None:
    """The stored predictions of the CNN on the chosen bags; slices are called 0 or 1, so their log-odds are signs."""
    if cohort.cnn_prob is None:
        return None
    prob = np.clip(cohort.cnn_prob[index], 1e-12, 1 - 1e-12)
    slices = None if cohort.cnn_instances is None else 2.0 * cohort.cnn_instances[rows_of(offsets, index)] - 1.0
    return ModelOutput(np.log(prob) - np.log1p(-prob), np.full(len(index), np.nan), instance_log_odds=slices)


def split_rows(jobs: Sequence[Job], y: Array) -> list[dict[str, Any]]:
    """One row per bag and part of every split that the jobs use.

    Parameters
    ----------
    y : (B,) bag labels.
    """
    rows, seen = list[dict[str, Any]](), set()
    for job in jobs:
        stopping = entry(job.model).needs_stopping
        name = (job.protocol, job.task, job.repeat, job.split, stopping and job.protocol == "nested")
        if job.task != CROSS_VALIDATION or name in seen or (job.experiment == "ich" and job.protocol != "nested"):
            continue
        seen.add(name)
        split = split_of(job, y, stopping)
        parts = {"train": split.train, "stop": split.stop, "measured": split.test}
        first = {"protocol": job.protocol, "repeat": job.repeat, "split": job.split, "stopping": name[-1]}
        for part, index in parts.items():
            rows += [{**first, "part": part, "bag": int(bag)} for bag in (() if index is None else index)]
    return rows
