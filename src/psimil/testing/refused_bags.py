"""Bags that fit and predict refuse with a ValueError or TypeError, rather than with nonsense."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from psimil.testing.expectations import refuses
from psimil.testing.subject import Subject


def check_estimators_nan_inf(subject: Subject) -> None:
    """A feature that is NaN or infinite."""
    for value in (np.nan, np.inf, -np.inf):
        wrong = subject.bags[0]
        wrong[-1, 1] = value
        _refused(subject, wrong, f"a feature that is {value}")


def check_estimators_empty_data_messages(subject: Subject) -> None:
    """No bags at all."""
    refuses(subject.fresh().fit, [], [], what="a training set without bags")
    for method in subject.methods():
        refuses(getattr(subject.fitted, method), [], what=f"{method} without bags")


def check_empty_bag(subject: Subject) -> None:
    """A bag without instances."""
    _refused(subject, np.empty((0, 3)), "a bag without instances")


def check_no_features(subject: Subject) -> None:
    """Instances without features."""
    refuses(subject.fresh().fit, [bag[:, :0] for bag in subject.bags], subject.y, what="instances without features")


def check_different_n_features(subject: Subject) -> None:
    """One bag with another number of features than the others."""
    for width in (2, 4):
        _refused(subject, np.ones((2, width)), f"a bag with {width} features among bags with 3")


def check_n_features_in_after_fitting(subject: Subject) -> None:
    """Predictions for bags with another number of features than the training bags."""
    for method in subject.methods():
        for width in (2, 4):
            refuses(getattr(subject.fitted, method), [np.ones((2, width))], what=f"{method} with {width} features")


def check_bags_of_wrong_dimension(subject: Subject) -> None:
    """A bag that is no table."""
    _refused(subject, np.ones(3), "a bag of shape (3,)")
    _refused(subject, np.ones((2, 2, 3)), "a bag of shape (2, 2, 3)")


def check_ragged_bag(subject: Subject) -> None:
    """A bag whose instances have different numbers of features."""
    _refused(subject, [[1.0, 2.0, 3.0], [1.0, 2.0]], "a ragged bag")


def check_complex_data(subject: Subject) -> None:
    """Complex features."""
    _refused(subject, np.ones((2, 3)) * 1j, "a bag of complex numbers")


def check_text_data(subject: Subject) -> None:
    """Features in words."""
    _refused(subject, np.array([["a", "b", "c"]]), "a bag of words")


def check_sparse_data(subject: Subject) -> None:
    """A sparse matrix in place of an array."""
    _refused(subject, csr_array(np.eye(3)), "a sparse bag")


def check_not_a_sequence(subject: Subject) -> None:
    """Something that holds no bags."""
    for wrong in (3, None, "bags"):
        refuses(subject.fresh().fit, wrong, [0, 1], what=f"{wrong!r} in place of bags")
        refuses(subject.fitted.predict_proba, wrong, what=f"{wrong!r} in place of bags")


def _refused(subject: Subject, wrong: Any, what: str) -> None:
    """By fit and by predict, wherever in the sequence the bag stands."""
    bags: list[Any] = list(subject.bags)
    refuses(subject.fresh().fit, [*bags[:-1], wrong], subject.y, what=f"fit with {what}")
    refuses(subject.fresh().fit, [wrong, *bags[1:]], subject.y, what=f"fit with {what} first")
    for method in subject.methods():
        refuses(getattr(subject.fitted, method), [bags[0], wrong], what=f"{method} with {what}")
