"""The forms in which bag labels may come."""

from __future__ import annotations

import numpy as np
import pandas as pd

from psimil.testing.expectations import same
from psimil.testing.subject import Subject


def check_integer_labels(subject: Subject) -> None:
    """Integers of any width."""
    for kind in (np.int8, np.uint8, np.int64):
        same(subject.proba(y=subject.y.astype(kind)), subject.expected, f"with labels of type {kind.__name__}")


def check_bool_labels(subject: Subject) -> None:
    """True and False."""
    same(subject.proba(y=subject.y.astype(bool)), subject.expected, "with boolean labels")


def check_float_labels(subject: Subject) -> None:
    """0.0 and 1.0."""
    same(subject.proba(y=subject.y.astype(np.float32)), subject.expected, "with labels stored as floats")


def check_list_labels(subject: Subject) -> None:
    """A plain list."""
    same(subject.proba(y=subject.y.tolist()), subject.expected, "with a list of labels")


def check_pandas_labels(subject: Subject) -> None:
    """A pandas series, whose index does not matter."""
    series = pd.Series(subject.y, index=np.arange(len(subject.y))[::-1] + 40)
    same(subject.proba(y=series), subject.expected, "with a series of labels")


def check_supervised_y_2d(subject: Subject) -> None:
    """A column of labels is one label per bag."""
    same(subject.proba(y=subject.y[:, None]), subject.expected, "with a column of labels")
