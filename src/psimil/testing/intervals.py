"""Credible intervals of bag probabilities."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import ROUNDING, close, demand, probable
from psimil.testing.subject import Subject


def check_interval_range(subject: Subject) -> None:
    """Both ends of an interval are probabilities."""
    found = subject.fitted.predict_dist(subject.unseen)
    probable(found.lower, "lower ends")
    probable(found.upper, "upper ends")


def check_interval_ordered(subject: Subject) -> None:
    """The lower end is not above the upper one."""
    found = subject.fitted.predict_dist(subject.unseen)
    demand((found.lower <= found.upper).all(), "an interval is upside down")


def check_interval_contains_prob(subject: Subject) -> None:
    """On an easy problem the probability of a bag lies in its interval."""
    found = subject.fitted.predict_dist(subject.bags + subject.unseen)
    inside = (found.lower <= found.prob + ROUNDING) & (found.prob <= found.upper + ROUNDING)
    demand(inside.all(), "a probability lies outside its interval")


def check_interval_has_width(subject: Subject) -> None:
    """Intervals are wide exactly where the standard deviation is not zero."""
    found = subject.fitted.predict_dist(subject.unseen)
    width = found.upper - found.lower
    demand((width[found.std > 1e-3] > 0).all(), "an interval has no width although the bag is uncertain")
    demand((width[found.std == 0] <= ROUNDING).all(), "an interval has width although the bag is certain")


def check_interval_order_invariance(subject: Subject) -> None:
    """Intervals do not depend on the order of bags and of instances."""
    straight = subject.fitted.predict_dist(subject.unseen)
    moved = subject.fitted.predict_dist([bag[::-1] for bag in subject.unseen[::-1]])
    for name in ("lower", "upper"):
        close(getattr(moved, name), getattr(straight, name)[::-1], f"{name} of bags in another order", 1e-4)


def check_interval_far_away(subject: Subject) -> None:
    """Far from all training instances intervals and standard deviations stay finite."""
    found = subject.fitted.predict_dist([bag + 1e6 for bag in subject.unseen])
    probable(found.lower, "lower ends far away")
    probable(found.upper, "upper ends far away")
    demand(np.isfinite(found.std).all(), "a standard deviation far away is not finite")
