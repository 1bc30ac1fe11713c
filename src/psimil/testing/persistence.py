"""Copies and files of a fitted estimator."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

from sklearn.exceptions import NotFittedError

from psimil.testing.expectations import demand, same
from psimil.testing.subject import Subject, needs, positive


def check_deep_copy(subject: Subject) -> None:
    """A deep copy, made by the protocol that pickle uses, predicts the same and shares nothing with its original."""
    held = copy.deepcopy(subject.fitted)
    same(positive(held, subject.unseen), subject.expected, "from a deep copy")
    held.fit(subject.bags, 1 - subject.y)
    same(positive(subject.fitted, subject.unseen), subject.expected, "after the copy was fitted to other labels")


def check_deep_copy_of_unfitted(subject: Subject) -> None:
    """An estimator that is copied before it is fitted learns the same."""
    made = copy.deepcopy(subject.fresh()).fit(subject.bags, subject.y)
    same(positive(made, subject.unseen), subject.expected, "from a copy made before the fit")


@needs("save", "load")
def check_save_load(subject: Subject) -> None:
    """A model that was saved and loaded predicts the same, bit by bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        subject.fitted.save(path)
        loaded = type(subject.estimator).load(path)
    for method in subject.methods():
        found, expected = (getattr(model, method)(subject.unseen) for model in (loaded, subject.fitted))
        same(found, expected, f"{method} of the loaded model")


@needs("save", "load")
def check_save_unfitted(subject: Subject) -> None:
    """Saving before a fit is a NotFittedError and leaves no file."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            subject.fresh().save(Path(folder) / "model")
        except NotFittedError:
            demand(not list(Path(folder).iterdir()), "a file was written before fit")
            return
    raise AssertionError("save works before fit")
