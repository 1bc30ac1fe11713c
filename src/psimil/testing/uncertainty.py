"""predict_dist: standard deviations of bag probabilities, and that it agrees with the other methods."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError

from psimil.testing.expectations import ROUNDING, close, demand, refuses, same
from psimil.testing.subject import Subject


def check_dist_shapes(subject: Subject) -> None:
    """prob, std, lower and upper have one number per bag."""
    found = subject.fitted.predict_dist(subject.unseen)
    for name in ("prob", "std", "lower", "upper"):
        demand(np.shape(getattr(found, name)) == (12,), f"{name} is not one number per bag")


def check_dist_agrees_with_proba(subject: Subject) -> None:
    """prob is what predict_proba says."""
    close(subject.fitted.predict_dist(subject.unseen).prob, subject.expected, "prob of predict_dist")


def check_dist_unfitted(subject: Subject) -> None:
    """predict_dist before a fit is a NotFittedError."""
    try:
        subject.fresh().predict_dist(subject.bags)
    except NotFittedError:
        return
    raise AssertionError("predict_dist works before fit")


def check_dist_n_features(subject: Subject) -> None:
    """predict_dist refuses another number of features, and NaN."""
    refuses(subject.fitted.predict_dist, [np.ones((2, 4))], what="predict_dist with 4 features")
    refuses(subject.fitted.predict_dist, [np.full((2, 3), np.nan)], what="predict_dist with NaN")


def check_std_not_negative(subject: Subject) -> None:
    """Standard deviations are finite and not negative."""
    found = subject.fitted.predict_dist(subject.unseen).std
    demand(np.isfinite(found).all() and (found >= 0).all(), "a standard deviation is negative or not finite")


def check_std_possible(subject: Subject) -> None:
    """A number in [0, 1] with mean p has a variance of at most p (1 - p)."""
    found = subject.fitted.predict_dist(subject.unseen)
    demand((found.std**2 <= found.prob * (1 - found.prob) + ROUNDING).all(), "a standard deviation is too large")


def check_std_somewhere(subject: Subject) -> None:
    """Sixteen bags do not make anybody certain everywhere."""
    demand((subject.fitted.predict_dist(subject.unseen).std > 0).any(), "every standard deviation is zero")


def check_dist_repeated(subject: Subject) -> None:
    """predict_dist asked twice says the same, and leaves its bags alone."""
    held = subject.unseen
    first, second = (subject.fitted.predict_dist(held) for _ in range(2))
    for name in ("prob", "std", "lower", "upper"):
        same(getattr(first, name), getattr(second, name), f"{name} asked twice")
    same(np.concatenate(held), np.concatenate(subject.unseen), "bags after predict_dist")


def check_std_follows_bags(subject: Subject) -> None:
    """Standard deviations follow their bags, in whatever order these come."""
    found, expected = (subject.fitted.predict_dist(bags).std for bags in (subject.unseen[::-1], subject.unseen))
    close(found, expected[::-1], "std of bags in another order")


def check_std_subset_invariance(subject: Subject) -> None:
    """A bag is as uncertain alone as it is in company."""
    alone = [subject.fitted.predict_dist([bag]).std[0] for bag in subject.unseen]
    close(alone, subject.fitted.predict_dist(subject.unseen).std, "std one by one")
