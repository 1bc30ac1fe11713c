"""The same again: equal calls give equal results, and leave input, random states of others and terminal alone."""

from __future__ import annotations

import io
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from psimil.foundations.arrays import Array
from psimil.testing.expectations import demand, probable, same, same_bags
from psimil.testing.subject import Subject, answers, needs, positive


def check_fit_idempotent(subject: Subject) -> None:
    """Fitting the same object twice to the same bags changes nothing."""
    made = subject.train()
    same(positive(made.fit(subject.bags, subject.y), subject.unseen), subject.expected, "after the second fit")


def check_fit_determinism(subject: Subject) -> None:
    """Two estimators with the same parameters learn the same, bit by bit."""
    same(subject.proba(), subject.expected, "probabilities of two fits")


def check_repeated_predict(subject: Subject) -> None:
    """The same question gets the same answer."""
    for method in subject.methods():
        first, second = (answers(subject.fitted, method, subject.unseen) for _ in range(2))
        same_bags(first, second, f"{method} asked twice")


def check_predict_has_no_memory(subject: Subject) -> None:
    """What was asked before does not matter."""
    made = subject.train()
    made.predict_proba([1e3 * bag for bag in subject.bags])
    same(positive(made, subject.unseen), subject.expected, "after a prediction for other bags")


def check_predict_in_threads(subject: Subject) -> None:
    """Predictions may run side by side."""
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: positive(subject.fitted, subject.unseen), range(4)))
    for found in answers:
        same(found, subject.expected, "from a thread")


@needs(parameter="random_state")
def check_random_state_instance(subject: Subject) -> None:
    """A RandomState is accepted as a seed; equal ones give equal results."""
    first, second = (subject.proba(random_state=np.random.RandomState(3)) for _ in range(2))
    same(first, second, "with two equal RandomState objects")


@needs(parameter="random_state")
def check_random_state_none(subject: Subject) -> None:
    """Without a seed the fit works as well."""
    probable(subject.proba(random_state=None), "probabilities without a seed")


def check_fit_leaves_bags(subject: Subject) -> None:
    """Fit does not write into the bags."""
    held = subject.bags
    subject.train(held)
    same_bags(held, subject.bags, "a training bag after fit")


def check_fit_leaves_labels(subject: Subject) -> None:
    """Fit does not write into the labels."""
    held = subject.y
    subject.train(y=held)
    same(held, subject.y, "labels after fit")


def check_predict_leaves_bags(subject: Subject) -> None:
    """Predictions do not write into the bags."""
    held = subject.unseen
    for method in subject.methods():
        getattr(subject.fitted, method)(held)
    same_bags(held, subject.unseen, "a bag after predictions")


def check_dict_unchanged(subject: Subject) -> None:
    """Predictions neither add nor replace attributes."""
    before = dict(vars(subject.fitted))
    for method in subject.methods():
        getattr(subject.fitted, method)(subject.unseen)
    after = vars(subject.fitted)
    changed = sorted(name for name in {*before, *after} if before.get(name, after) is not after.get(name, before))
    demand(not changed, f"predictions change {changed}")


def check_readonly_memmap_input(subject: Subject) -> None:
    """Read-only arrays in a file do as well as arrays in memory."""
    sizes = [len(bag) for bag in subject.bags]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bags.dat"
        path.write_bytes(np.concatenate(subject.bags).tobytes())
        rows = np.memmap(path, dtype=np.float64, mode="r", shape=(sum(sizes), 3))
        bags = np.split(rows, np.cumsum(sizes)[:-1])
        labels = subject.y
        labels.flags.writeable = False
        found = subject.proba(bags, labels)
        del bags, rows
    same(found, subject.expected, "with read-only bags")


def check_fit_copies_what_it_keeps(subject: Subject) -> None:
    """Changing the training arrays after fit does not change the model."""
    bags, y = subject.bags, subject.y
    made = subject.train(bags, y)
    for bag in bags:
        bag[:] = 1e6
    y[:] = 0
    same(positive(made, subject.unseen), subject.expected, "after the training bags were overwritten")


def check_results_are_the_callers(subject: Subject) -> None:
    """Changing a result does not change the model."""
    made = subject.train()
    for method in subject.methods():
        found = getattr(made, method)(subject.unseen)
        for array in found if isinstance(found, list) else [found]:
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array[:] = 0
    same(positive(made, subject.unseen), subject.expected, "after results were overwritten")


def check_global_random_state(subject: Subject) -> None:
    """Neither numpy's global random state nor Python's is used."""
    kept = np.random.get_state(), random.getstate()
    try:
        np.random.seed(7)
        random.seed(7)
        numpys, pythons = _numpy_state(), random.getstate()
        subject.train().predict_proba(subject.unseen)
        same(_numpy_state(), numpys, "numpy's global random state")
        demand(random.getstate() == pythons, "Python's global random state changed")
    finally:
        np.random.set_state(kept[0])
        random.setstate(kept[1])


def check_silence(subject: Subject) -> None:
    """Nothing is printed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        subject.train().predict_proba(subject.unseen)
    demand(not out.getvalue() and not err.getvalue(), "fit or predict prints")


def _numpy_state() -> Array:
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return np.append(np.asarray(keys, dtype=np.int64), int(position))
