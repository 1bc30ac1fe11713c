"""Bags that are legal but awkward: the fit may refuse them in words, and must not answer with NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.testing.expectations import demand, probable
from psimil.testing.subject import Subject, positive

Array = NDArray[Any]


def check_one_bag(subject: Subject) -> None:
    """A training set of one bag, and a prediction for one bag."""
    for label in (0, 1):
        _survives(subject, subject.bags[:1], np.array([label]), "of one bag")
    probable(positive(subject.fitted, subject.unseen[:1]), "probabilities for one bag")


def check_two_bags(subject: Subject) -> None:
    """One bag of each label."""
    _survives(subject, subject.bags[:2], np.array([0, 1]), "of two bags")


def check_one_instance_bags(subject: Subject) -> None:
    """Every bag has one instance."""
    _survives(subject, [bag[:1] for bag in subject.bags], subject.y, "of bags with one instance")
    probable(positive(subject.fitted, [bag[:1] for bag in subject.unseen]), "probabilities for one instance")


def check_one_class(subject: Subject) -> None:
    """All training bags have the same label."""
    for label in (0, 1):
        _survives(subject, subject.bags, np.full(16, label), f"with label {label} only")


def check_one_bag_of_a_class(subject: Subject) -> None:
    """A label that only one bag has."""
    for label in (0, 1):
        _survives(subject, subject.bags, np.where(np.arange(16) == 4, label, 1 - label), f"with one bag of {label}")


def check_duplicate_instances(subject: Subject) -> None:
    """Every instance many times over."""
    _survives(subject, [np.repeat(bag[:1], 6, axis=0) for bag in subject.bags], subject.y, "of duplicates")


def check_duplicate_bags(subject: Subject) -> None:
    """All bags are the same bag, with contradicting labels."""
    _survives(subject, [subject.bags[0]] * 16, subject.y, "of equal bags")


def check_constant_features(subject: Subject) -> None:
    """One feature, or every feature, is the same everywhere."""
    for columns in (slice(1, 2), slice(None)):
        bags = subject.bags
        for bag in bags:
            bag[:, columns] = 7.0
        _survives(subject, bags, subject.y, "with constant features")


def check_single_feature(subject: Subject) -> None:
    """One feature only."""
    _survives(subject, subject.bags, subject.y, "with one feature", lambda rows: rows[:, -1:])


def check_more_features_than_instances(subject: Subject) -> None:
    """More features than there are instances."""
    _survives(subject, subject.bags, subject.y, "with 60 features", lambda rows: np.tile(rows, 20))


def check_units_of_features(subject: Subject) -> None:
    """Very small and very large units, also next to each other."""
    for scale in (1e-8, 1e8, np.array([1e-6, 1.0, 1e6])):
        _survives(subject, subject.bags, subject.y, f"in units of {scale}", lambda rows, scale=scale: rows * scale)


def check_distant_bags(subject: Subject) -> None:
    """Predictions far from all training instances."""
    for shift in (1e3, -1e6, 1e12):
        probable(positive(subject.fitted, [bag + shift for bag in subject.unseen]), f"probabilities {shift} away")


def check_large_bag(subject: Subject) -> None:
    """A prediction for a bag of a thousand instances, and one of its training."""
    large = np.resize(np.concatenate(subject.bags), (1000, 3)) + np.linspace(0, 0.1, 1000)[:, None]
    probable(positive(subject.fitted, [large, *subject.unseen]), "probabilities next to a large bag")
    _survives(subject, [large, *subject.bags[1:]], subject.y, "with a bag of a thousand")


def _survives(subject: Subject, bags: Any, y: Array, what: str, change: Any = lambda rows: rows) -> None:
    """Probabilities in range for bags whose features were changed, or a ValueError in words from fit."""
    made = subject.adapted(change)
    try:
        made.fit([change(bag) for bag in bags], y)
    except ValueError as error:
        demand(str(error).strip(), f"a training set {what} is refused without a word")
        return
    asked = [change(bag) for bag in subject.unseen]
    probable(made.predict_proba(asked), f"probabilities after a training set {what}")
    demand(np.isin(made.predict(asked), (0, 1)).all(), f"labels after a training set {what} are not 0 and 1")
