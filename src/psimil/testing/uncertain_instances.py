"""Standard deviations and credible intervals of instance probabilities."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import ROUNDING, close, demand, probable
from psimil.testing.subject import Subject


def check_instance_dist_shapes(subject: Subject) -> None:
    """instance_prob, instance_std, instance_lower and instance_upper have one number per instance."""
    found = subject.fitted.predict_dist(subject.unseen)
    count = sum(len(bag) for bag in subject.unseen)
    for name in ("instance_prob", "instance_std", "instance_lower", "instance_upper"):
        demand(np.shape(getattr(found, name)) == (count,), f"{name} is not one number per instance")


def check_instance_dist_agrees(subject: Subject) -> None:
    """instance_prob is what predict_instances says, bag after bag."""
    expected = np.concatenate(subject.fitted.predict_instances(subject.unseen))
    close(subject.fitted.predict_dist(subject.unseen).instance_prob, expected, "instance_prob of predict_dist")


def check_instance_std_possible(subject: Subject) -> None:
    """Standard deviations of instances are finite, not negative, and at most sqrt(p (1 - p))."""
    found = subject.fitted.predict_dist(subject.unseen)
    std, prob = found.instance_std, found.instance_prob
    demand(np.isfinite(std).all() and (std >= 0).all(), "an instance_std is negative or not finite")
    demand((std**2 <= prob * (1 - prob) + ROUNDING).all(), "an instance_std is too large")


def check_instance_interval(subject: Subject) -> None:
    """Intervals of instances are ordered, in [0, 1], and contain the probability."""
    found = subject.fitted.predict_dist(subject.unseen)
    lower, upper = found.instance_lower, found.instance_upper
    probable(lower, "lower ends of instances")
    probable(upper, "upper ends of instances")
    demand((lower <= upper).all(), "an interval of an instance is upside down")
    inside = (lower <= found.instance_prob + ROUNDING) & (found.instance_prob <= upper + ROUNDING)
    demand(inside.all(), "the probability of an instance lies outside its interval")


def check_bag_of_one_instance_std(subject: Subject) -> None:
    """A bag of one instance is as uncertain as that instance."""
    found = subject.fitted.predict_dist([bag[:1] for bag in subject.unseen])
    close(found.std, found.instance_std, "std of bags of one instance", 1e-4)


def check_instance_std_follows_rows(subject: Subject) -> None:
    """Standard deviations follow their instances, in whatever order these come."""
    found = subject.fitted.predict_dist([bag[::-1] for bag in subject.unseen[::-1]]).instance_std
    expected = subject.fitted.predict_dist(subject.unseen).instance_std
    close(found, expected[::-1], "instance_std backwards")
