"""predict and decision_function, and that they agree with the probabilities."""

from __future__ import annotations

import numpy as np

from psimil.testing.expectations import ROUNDING, demand, same
from psimil.testing.subject import Subject, needs, positive


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
