"""The same again: equal seeds, equal calls, equal results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from psimil.testing.expectations import probable, same
from psimil.testing.subject import Subject, needs, positive


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
        first, second = (getattr(subject.fitted, method)(subject.unseen) for _ in range(2))
        same(first, second, f"{method} asked twice")


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
