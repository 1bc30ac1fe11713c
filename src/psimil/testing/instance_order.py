"""Instances keep their own probabilities when bags and rows move."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import close
from psimil.testing.subject import Subject, needs


def check_instances_follow_their_rows(subject: Subject) -> None:
    """Instances in another order get the same probabilities in that order."""
    rng = np.random.default_rng(1)
    orders = [rng.permutation(len(bag)) for bag in subject.unseen]
    moved = [bag[order] for bag, order in zip(subject.unseen, orders, strict=True)]
    found, expected = (subject.fitted.predict_instances(bags) for bags in (moved, subject.unseen))
    for part, straight, order in zip(found, expected, orders, strict=True):
        close(part, straight[order], "instances in another order")


def check_instances_follow_their_bags(subject: Subject) -> None:
    """Bags in another order give the same arrays in that order."""
    found = subject.fitted.predict_instances(subject.unseen[::-1])
    expected = subject.fitted.predict_instances(subject.unseen)
    for part, straight in zip(found, expected[::-1], strict=True):
        close(part, straight, "instances of bags in another order")


def check_instances_subset_invariance(subject: Subject) -> None:
    """The instances of a bag are judged alone as they are in company."""
    expected = subject.fitted.predict_instances(subject.unseen)
    for bag, together in zip(subject.unseen, expected, strict=True):
        (alone,) = subject.fitted.predict_instances([bag])
        close(alone, together, "instances of a bag alone")


def check_equal_instances(subject: Subject) -> None:
    """Equal instances of a bag have equal probabilities."""
    for part in subject.fitted.predict_instances([np.repeat(bag, 2, axis=0) for bag in subject.unseen]):
        close(part[::2], part[1::2], "of equal instances")


@needs(fit_argument="bag_ids")
def check_instances_of_rows(subject: Subject) -> None:
    """With rows and bag ids, bags come as their ids first appear and instances in the order of rows."""
    ids = np.repeat(np.arange(12)[::-1], [len(bag) for bag in subject.unseen])
    found = subject.fitted.predict_instances(np.concatenate(subject.unseen), bag_ids=ids)
    expected = subject.fitted.predict_instances(subject.unseen)
    for part, straight in zip(found, expected, strict=True):
        close(part, straight, "instances of rows")
