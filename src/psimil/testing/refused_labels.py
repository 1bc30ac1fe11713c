"""Labels that fit refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from psimil.testing.expectations import refuses
from psimil.testing.subject import Subject


def check_requires_y_none(subject: Subject) -> None:
    """No labels."""
    refuses(subject.fresh().fit, subject.bags, None, what="a fit without labels")


def check_label_count_mismatch(subject: Subject) -> None:
    """More or fewer labels than bags."""
    refuses(subject.fresh().fit, subject.bags, subject.y[:-1], what="one label too few")
    refuses(subject.fresh().fit, subject.bags, np.append(subject.y, 1), what="one label too many")


def check_wrong_labels(subject: Subject) -> None:
    """A label that is a number other than 0 and 1."""
    for value in (2, -1, 0.5):
        _refused(subject, value)


def check_missing_labels(subject: Subject) -> None:
    """A label that is missing."""
    for value in (np.nan, None):
        _refused(subject, value)


def check_text_labels(subject: Subject) -> None:
    """A label in words."""
    _refused(subject, "yes")


def check_labels_of_wrong_dimension(subject: Subject) -> None:
    """A table of labels, or a single one."""
    refuses(subject.fresh().fit, subject.bags, np.column_stack([subject.y, subject.y]), what="two labels per bag")
    refuses(subject.fresh().fit, subject.bags, 1, what="one label for all bags")


def _refused(subject: Subject, value: Any) -> None:
    labels = subject.y.astype(object)
    labels[5] = value
    refuses(subject.fresh().fit, subject.bags, labels, what=f"the label {value}")
