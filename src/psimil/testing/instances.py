"""predict_instances: shape, range, the laws that tie instances to their bag, and that they follow their rows."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import ROUNDING, close, close_bags, demand, probable, ranks
from psimil.testing.subject import Subject, easy_problem, needs, positive


def check_instances_per_bag(subject: Subject) -> None:
    """One array per bag."""
    demand(len(subject.expected_instances) == 12, "not one array per bag")


def check_instances_length(subject: Subject) -> None:
    """One probability per instance of the bag."""
    found = [np.shape(part) for part in subject.expected_instances]
    demand(found == [(len(bag),) for bag in subject.unseen], "not one probability per instance")


def check_instances_range(subject: Subject) -> None:
    """Probabilities of instances are finite and in [0, 1]."""
    probable(np.concatenate(subject.expected_instances), "probabilities of instances")


def check_instances_rank(subject: Subject) -> None:
    """Positive training instances rank above negative ones on an easy problem: AUC of 0.8 at least."""
    truth = np.concatenate(easy_problem().y_instances)
    ranks(truth, np.concatenate(subject.fitted.predict_instances(subject.bags)), 0.8, "training instances")


def check_bag_at_least_its_instances(subject: Subject) -> None:
    """A bag is positive when one of its instances is: its probability is at least the highest of theirs."""
    highest = [part.max() for part in subject.expected_instances]
    demand((subject.expected >= np.array(highest) - ROUNDING).all(), "a bag is less probable than an instance of it")


def check_bag_at_most_sum_of_instances(subject: Subject) -> None:
    """A bag is positive only when one of its instances is: its probability is at most the sum of theirs."""
    total = [part.sum() for part in subject.expected_instances]
    demand((subject.expected <= np.array(total) + ROUNDING).all(), "a bag is more probable than its instances allow")


def check_bag_of_one_instance(subject: Subject) -> None:
    """A bag of one instance is as probable as that instance."""
    bags = [bag[:1] for bag in subject.unseen]
    found = np.concatenate(subject.fitted.predict_instances(bags))
    close(found, positive(subject.fitted, bags), "bags of one instance")


def check_more_instances_never_lower_a_bag(subject: Subject) -> None:
    """A bag with one more instance is at least as probable."""
    larger = [np.concatenate([bag, subject.bags[0][:1]]) for bag in subject.unseen]
    found = positive(subject.fitted, larger)
    demand((found >= subject.expected - ROUNDING).all(), "an instance that was added lowers the bag")


def check_instances_follow_their_rows(subject: Subject) -> None:
    """Instances in another order get the same probabilities in that order."""
    rng = np.random.default_rng(1)
    orders = [rng.permutation(len(bag)) for bag in subject.unseen]
    moved = [bag[order] for bag, order in zip(subject.unseen, orders, strict=True)]
    expected = [part[order] for part, order in zip(subject.expected_instances, orders, strict=True)]
    close_bags(subject.fitted.predict_instances(moved), expected, "instances in another order")


def check_equal_instances(subject: Subject) -> None:
    """Equal instances of a bag have equal probabilities."""
    for part in subject.fitted.predict_instances([np.repeat(bag, 2, axis=0) for bag in subject.unseen]):
        close(part[::2], part[1::2], "of equal instances")


@needs(fit_argument="bag_ids")
def check_instances_of_rows(subject: Subject) -> None:
    """With rows and bag ids, bags come as their ids first appear and instances in the order of rows."""
    ids = np.repeat(np.arange(12)[::-1], [len(bag) for bag in subject.unseen])
    found = subject.fitted.predict_instances(np.concatenate(subject.unseen), bag_ids=ids)
    close_bags(found, subject.expected_instances, "instances of rows")
