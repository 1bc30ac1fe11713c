"""predict_proba, predict and decision_function: shape, range, agreement, and what must not change them."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import ROUNDING, close, close_bags, demand, probable, ranks, same
from psimil.testing.subject import Subject, answers, easy_problem, needs, positive


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
    ranks(subject.y, positive(subject.fitted, subject.bags), 0.9, "the training bags")


def check_classifiers_generalise(subject: Subject) -> None:
    """Bags that were not seen are ranked better than by chance: AUC of 0.75 at least."""
    example = easy_problem(seed=2, n_bags=40)
    ranks(example.y, positive(subject.fitted, [bag.copy() for bag in example.bags]), 0.75, "unseen bags")


def check_labels_matter(subject: Subject) -> None:
    """The opposite labels give other probabilities."""
    other = subject.proba(y=1 - subject.y)
    demand(np.abs(other - subject.expected).max() > 1e-3, "the labels do not matter")


def check_predict_labels(subject: Subject) -> None:
    """predict gives one of the classes per bag."""
    found = np.asarray(subject.fitted.predict(subject.unseen))
    demand(found.shape == (12,), f"predict has shape {found.shape}, expected (12,)")
    demand(np.isin(found, subject.fitted.classes_).all(), "predict gives labels that are not in classes_")


def check_predict_agrees_with_proba(subject: Subject) -> None:
    """Labels are the probabilities cut at one threshold: ``threshold_`` where the estimator has one."""
    bags = subject.bags + subject.unseen
    prob, label = positive(subject.fitted, bags), np.asarray(subject.fitted.predict(bags))
    threshold = getattr(subject.fitted, "threshold_", None)
    if threshold is not None:
        same(label, prob >= threshold, "labels against probabilities and threshold_")
    highest, lowest = prob[label == 0].max(initial=0.0), prob[label == 1].min(initial=1.0)
    demand(highest <= lowest, f"label 0 at probability {highest:.4f} but label 1 at {lowest:.4f}")


@needs("decision_function")
def check_decision_shape(subject: Subject) -> None:
    """decision_function gives one finite number per bag."""
    found = np.asarray(subject.fitted.decision_function(subject.unseen))
    demand(found.shape == (12,), f"decision_function has shape {found.shape}, expected (12,)")
    demand(np.isfinite(found).all(), "decision_function is not finite")


@needs("decision_function")
def check_decision_proba_consistency(subject: Subject) -> None:
    """decision_function ranks bags as the probabilities do."""
    score = np.asarray(subject.fitted.decision_function(subject.unseen))
    ranked = subject.expected[np.argsort(score, kind="stable")]
    demand(np.diff(ranked).min() >= -ROUNDING, "the order of scores is not that of probabilities")


@needs("decision_function")
def check_decision_sign(subject: Subject) -> None:
    """decision_function is above 0 only where predict says 1, and below 0 only where it says 0."""
    bags = subject.bags + subject.unseen
    score, label = (np.asarray(getattr(subject.fitted, name)(bags)) for name in ("decision_function", "predict"))
    demand((label[score > 0] == 1).all() and (label[score < 0] == 0).all(), "signs and labels disagree")


def check_bag_order_invariance(subject: Subject) -> None:
    """Predictions follow their bags, in whatever order these come."""
    order = np.random.default_rng(0).permutation(12)
    for method in subject.methods():
        straight = answers(subject.fitted, method, subject.unseen)
        shuffled = answers(subject.fitted, method, [subject.unseen[k] for k in order])
        close_bags(shuffled, [straight[k] for k in order], f"{method} of shuffled bags")


def check_instance_order_invariance(subject: Subject) -> None:
    """The order of the instances in a bag does not matter."""
    rng = np.random.default_rng(0)
    close(positive(subject.fitted, [rng.permutation(bag) for bag in subject.unseen]), subject.expected, "shuffled")
    close(positive(subject.fitted, [bag[::-1] for bag in subject.unseen]), subject.expected, "backwards")


def check_methods_subset_invariance(subject: Subject) -> None:
    """A bag is judged alone as it is in company."""
    for method in subject.methods():
        alone = [answers(subject.fitted, method, [bag])[0] for bag in subject.unseen]
        close_bags(alone, answers(subject.fitted, method, subject.unseen), f"{method} one by one")


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
    ranks(subject.y, positive(made, subject.bags), 0.9, "training bags sorted by label")


def check_feature_permutation(subject: Subject) -> None:
    """Whichever column tells the labels apart, it is found."""
    for shift in (1, 2):
        made = subject.adapted(lambda rows, shift=shift: np.roll(rows, shift, axis=1))  # type: ignore[misc]
        bags = [np.roll(bag, shift, axis=1) for bag in subject.bags]
        what = f"bags with all they say in column {(shift - 1) % 3}"
        ranks(subject.y, positive(made.fit(bags, subject.y), bags), 0.9, what)
