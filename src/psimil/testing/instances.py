"""predict_instances: shape, range, and the laws that tie instances to their bag."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError

from psimil.testing.examples import easy_problem
from psimil.testing.expectations import ROUNDING, auc, close, demand, probable, refuses, same
from psimil.testing.subject import Subject, positive


def check_instances_per_bag(subject: Subject) -> None:
    """One array per bag."""
    demand(len(subject.fitted.predict_instances(subject.unseen)) == 12, "not one array per bag")


def check_instances_length(subject: Subject) -> None:
    """One probability per instance of the bag."""
    found = [np.shape(part) for part in subject.fitted.predict_instances(subject.unseen)]
    demand(found == [(len(bag),) for bag in subject.unseen], "not one probability per instance")


def check_instances_range(subject: Subject) -> None:
    """Probabilities of instances are finite and in [0, 1]."""
    probable(np.concatenate(subject.fitted.predict_instances(subject.unseen)), "probabilities of instances")


def check_instances_unfitted(subject: Subject) -> None:
    """predict_instances before a fit is a NotFittedError."""
    try:
        subject.fresh().predict_instances(subject.bags)
    except NotFittedError:
        return
    raise AssertionError("predict_instances works before fit")


def check_instances_n_features(subject: Subject) -> None:
    """predict_instances refuses another number of features, and NaN."""
    refuses(subject.fitted.predict_instances, [np.ones((2, 4))], what="predict_instances with 4 features")
    refuses(subject.fitted.predict_instances, [np.full((2, 3), np.nan)], what="predict_instances with NaN")


def check_instances_repeated(subject: Subject) -> None:
    """predict_instances asked twice says the same, and leaves its bags alone."""
    held = subject.unseen
    first, second = (np.concatenate(subject.fitted.predict_instances(held)) for _ in range(2))
    same(first, second, "predict_instances asked twice")
    same(np.concatenate(held), np.concatenate(subject.unseen), "bags after predict_instances")


def check_instances_rank(subject: Subject) -> None:
    """Positive training instances rank above negative ones on an easy problem: AUC of 0.8 at least."""
    truth = np.concatenate(easy_problem().y_instances)
    found = auc(truth, np.concatenate(subject.fitted.predict_instances(subject.bags)))
    demand(found >= 0.8, f"AUC of training instances is {found:.3f}")


def check_bag_at_least_its_instances(subject: Subject) -> None:
    """A bag is positive when one of its instances is: its probability is at least the highest of theirs."""
    highest = [part.max() for part in subject.fitted.predict_instances(subject.unseen)]
    demand((subject.expected >= np.array(highest) - ROUNDING).all(), "a bag is less probable than an instance of it")


def check_bag_at_most_sum_of_instances(subject: Subject) -> None:
    """A bag is positive only when one of its instances is: its probability is at most the sum of theirs."""
    total = [part.sum() for part in subject.fitted.predict_instances(subject.unseen)]
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
