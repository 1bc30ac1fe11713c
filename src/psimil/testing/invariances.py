"""What must not change a prediction: order, company, and which feature comes first."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import auc, close, demand
from psimil.testing.subject import Subject, positive


def check_bag_order_invariance(subject: Subject) -> None:
    """Predictions follow their bags, in whatever order these come."""
    order = np.random.default_rng(0).permutation(12)
    for method in subject.methods():
        ask = getattr(subject.fitted, method)
        straight, shuffled = ask(subject.unseen), ask([subject.unseen[k] for k in order])
        close(shuffled, np.asarray(straight)[order], f"{method} of shuffled bags")


def check_instance_order_invariance(subject: Subject) -> None:
    """The order of the instances in a bag does not matter."""
    rng = np.random.default_rng(0)
    close(positive(subject.fitted, [rng.permutation(bag) for bag in subject.unseen]), subject.expected, "shuffled")
    close(positive(subject.fitted, [bag[::-1] for bag in subject.unseen]), subject.expected, "backwards")


def check_methods_subset_invariance(subject: Subject) -> None:
    """A bag is judged alone as it is in company."""
    for method in subject.methods():
        ask = getattr(subject.fitted, method)
        alone = np.concatenate([ask([bag]) for bag in subject.unseen])
        close(alone, ask(subject.unseen), f"{method} one by one")


def check_company_of_extremes(subject: Subject) -> None:
    """A bag far out does not change what is said of the others."""
    found = positive(subject.fitted, [*subject.unseen, np.full((3, 3), 1e4)])
    close(found[:-1], subject.expected, "next to a bag far out")


def check_equal_bags(subject: Subject) -> None:
    """Equal bags in one call get equal probabilities."""
    found = positive(subject.fitted, subject.unseen + subject.unseen)
    close(found[:12], found[12:], "of equal bags")


def check_training_order(subject: Subject) -> None:
    """The order of the training bags does not decide whether the easy problem is learned."""
    order = np.argsort(subject.y, kind="stable")
    made = subject.train([subject.bags[k] for k in order], subject.y[order])
    found = auc(subject.y, positive(made, subject.bags))
    demand(found >= 0.9, f"AUC is {found:.3f} after training bags sorted by label")


def check_feature_permutation(subject: Subject) -> None:
    """Whichever column tells the labels apart, it is found."""
    for shift in (1, 2):
        made = subject.adapted(lambda rows, shift=shift: np.roll(rows, shift, axis=1))  # type: ignore[misc]
        bags = [np.roll(bag, shift, axis=1) for bag in subject.bags]
        found = auc(subject.y, positive(made.fit(bags, subject.y), bags))
        demand(found >= 0.9, f"AUC is {found:.3f} with the telling feature in column {(shift - 1) % 3}")
