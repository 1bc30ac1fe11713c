"""predict_proba: shape, range, sums, and whether anything was learned."""

from __future__ import annotations

import numpy as np

from psimil.testing.examples import easy_problem
from psimil.testing.expectations import auc, close, demand, probable
from psimil.testing.subject import Subject, positive


def check_proba_shape(subject: Subject) -> None:
    """One row per bag, one column per label."""
    found = np.asarray(subject.fitted.predict_proba(subject.unseen))
    demand(found.shape == (12, 2), f"predict_proba has shape {found.shape}, expected (12, 2)")
    demand(found.dtype.kind == "f", f"predict_proba has type {found.dtype}")


def check_proba_range(subject: Subject) -> None:
    """Probabilities are finite and in [0, 1]."""
    probable(subject.fitted.predict_proba(subject.unseen), "probabilities")


def check_proba_sums_to_one(subject: Subject) -> None:
    """The probabilities of the two labels add up to 1."""
    close(np.sum(subject.fitted.predict_proba(subject.unseen), axis=1), 1.0, "sums of rows", 1e-12)


def check_proba_differs_between_bags(subject: Subject) -> None:
    """Bags that differ get probabilities that differ."""
    demand(np.ptp(subject.expected) > 1e-6, "all bags have the same probability")


def check_classifiers_train(subject: Subject) -> None:
    """Positive training bags rank above negative ones on an easy problem: AUC of 0.9 at least."""
    found = auc(subject.y, positive(subject.fitted, subject.bags))
    demand(found >= 0.9, f"AUC of the training bags is {found:.3f}")


def check_classifiers_generalise(subject: Subject) -> None:
    """Bags that were not seen are ranked better than by chance: AUC of 0.75 at least."""
    example = easy_problem(seed=2, n_bags=40)
    found = auc(example.y, positive(subject.fitted, [bag.copy() for bag in example.bags]))
    demand(found >= 0.75, f"AUC of unseen bags is {found:.3f}")


def check_labels_matter(subject: Subject) -> None:
    """The opposite labels give other probabilities."""
    other = subject.proba(y=1 - subject.y)
    demand(np.abs(other - subject.expected).max() > 1e-3, "the labels do not matter")
