"""predict_dist: standard deviations and credible intervals of bags and instances, in agreement with other methods."""

from __future__ import annotations

import numpy as np

from psimil.foundations.arrays import Array
from psimil.testing.expectations import ROUNDING, close, demand, probable, same
from psimil.testing.subject import Subject, needs

NUMBERS = ("prob", "std", "lower", "upper")


def check_dist_shapes(subject: Subject) -> None:
    """prob, std, lower and upper have one number per bag."""
    for name in NUMBERS:
        demand(np.shape(getattr(subject.expected_dist, name)) == (12,), f"{name} is not one number per bag")


def check_dist_agrees_with_proba(subject: Subject) -> None:
    """prob is what predict_proba says."""
    close(subject.expected_dist.prob, subject.expected, "prob of predict_dist")


def check_std_not_negative(subject: Subject) -> None:
    """Standard deviations are finite and not negative."""
    _not_negative(subject.expected_dist.std)


def check_std_possible(subject: Subject) -> None:
    """A number in [0, 1] with mean p has a variance of at most p (1 - p)."""
    _possible(subject.expected_dist.std, subject.expected_dist.prob)


def check_std_somewhere(subject: Subject) -> None:
    """Sixteen bags do not make anybody certain everywhere."""
    demand((subject.expected_dist.std > 0).any(), "every standard deviation is zero")


def check_dist_repeated(subject: Subject) -> None:
    """predict_dist asked twice says the same."""
    first, second = (subject.fitted.predict_dist(subject.unseen) for _ in range(2))
    for name in NUMBERS:
        same(getattr(first, name), getattr(second, name), f"{name} asked twice")


def check_interval_range(subject: Subject) -> None:
    """Both ends of an interval are probabilities."""
    probable([subject.expected_dist.lower, subject.expected_dist.upper], "ends of intervals")


def check_interval_ordered(subject: Subject) -> None:
    """The lower end is not above the upper one."""
    demand((subject.expected_dist.lower <= subject.expected_dist.upper).all(), "an interval is upside down")


def check_interval_contains_prob(subject: Subject) -> None:
    """On an easy problem the probability of a bag lies in its interval."""
    found = subject.fitted.predict_dist(subject.bags + subject.unseen)
    _contains(found.lower, found.prob, found.upper)


def check_interval_has_width(subject: Subject) -> None:
    """Intervals are wide exactly where the standard deviation is not zero."""
    found = subject.expected_dist
    width = found.upper - found.lower
    demand((width[found.std > 1e-3] > 0).all(), "an interval has no width although the bag is uncertain")
    demand((width[found.std == 0] <= ROUNDING).all(), "an interval has width although the bag is certain")


def check_interval_order_invariance(subject: Subject) -> None:
    """Intervals do not depend on the order of bags and of instances."""
    moved = subject.fitted.predict_dist([bag[::-1] for bag in subject.unseen[::-1]])
    close(moved.lower, subject.expected_dist.lower[::-1], "lower of bags in another order", 1e-4)
    close(moved.upper, subject.expected_dist.upper[::-1], "upper of bags in another order", 1e-4)


def check_interval_far_away(subject: Subject) -> None:
    """Far from all training instances intervals and standard deviations stay finite."""
    found = subject.fitted.predict_dist([bag + 1e6 for bag in subject.unseen])
    probable([found.lower, found.upper], "ends of intervals far away")
    demand(np.isfinite(found.std).all(), "a standard deviation far away is not finite")


@needs(instances=True)
def check_instance_dist_shapes(subject: Subject) -> None:
    """instance_prob, instance_std, instance_lower and instance_upper have one number per instance."""
    found = subject.expected_dist
    count = sum(len(bag) for bag in subject.unseen)
    for name in NUMBERS:
        demand(np.shape(getattr(found, f"instance_{name}")) == (count,), f"{name} is not one number per instance")


@needs(instances=True)
def check_instance_dist_agrees(subject: Subject) -> None:
    """instance_prob is what predict_instances says, bag after bag."""
    expected = np.concatenate(subject.expected_instances)
    close(subject.expected_dist.instance_prob, expected, "instance_prob of predict_dist")


@needs(instances=True)
def check_instance_std_possible(subject: Subject) -> None:
    """Standard deviations of instances are finite, not negative, and at most sqrt(p (1 - p))."""
    _not_negative(subject.expected_dist.instance_std)
    _possible(subject.expected_dist.instance_std, subject.expected_dist.instance_prob)


@needs(instances=True)
def check_instance_interval(subject: Subject) -> None:
    """Intervals of instances are ordered, in [0, 1], and contain the probability."""
    found = subject.expected_dist
    probable([found.instance_lower, found.instance_upper], "ends of intervals of instances")
    demand((found.instance_lower <= found.instance_upper).all(), "an interval of an instance is upside down")
    _contains(found.instance_lower, found.instance_prob, found.instance_upper)


@needs(instances=True)
def check_bag_of_one_instance_std(subject: Subject) -> None:
    """A bag of one instance is as uncertain as that instance."""
    found = subject.fitted.predict_dist([bag[:1] for bag in subject.unseen])
    close(found.std, found.instance_std, "std of bags of one instance", 1e-4)


@needs(instances=True)
def check_instance_std_follows_rows(subject: Subject) -> None:
    """Standard deviations follow their instances, in whatever order these come."""
    found = subject.fitted.predict_dist([bag[::-1] for bag in subject.unseen[::-1]]).instance_std
    close(found, subject.expected_dist.instance_std[::-1], "instance_std backwards")


def _not_negative(std: Array) -> None:
    demand(np.isfinite(std).all() and (std >= 0).all(), "a standard deviation is negative or not finite")


def _possible(std: Array, prob: Array) -> None:
    demand((std**2 <= prob * (1 - prob) + ROUNDING).all(), "a standard deviation is too large")


def _contains(lower: Array, prob: Array, upper: Array) -> None:
    inside = (lower <= prob + ROUNDING) & (prob <= upper + ROUNDING)
    demand(inside.all(), "a probability lies outside its interval")
