"""What checks demand, each said in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

ROUNDING = 1e-5  # difference of probabilities that is put down to the order of sums, in single precision too


def same(found: Any, expected: Any, what: str) -> None:
    """Equal bit by bit."""
    np.testing.assert_array_equal(found, expected, err_msg=what)


def same_bags(found: Any, expected: Any, what: str) -> None:
    """Bag by bag equal bit by bit."""
    for bag, original in zip(found, expected, strict=True):
        same(bag, original, what)


def close(found: Any, expected: Any, what: str, tolerance: float = ROUNDING) -> None:
    """Equal up to rounding, in absolute terms."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=what)


def close_bags(found: Any, expected: Any, what: str) -> None:
    """Bag by bag equal up to rounding."""
    for part, original in zip(found, expected, strict=True):
        close(part, original, what)


def demand(condition: Any, what: str) -> None:
    """True, whatever way Python is started.

    Examples
    --------
    >>> demand(1 > 2, "one is not above two")
    Traceback (most recent call last):
    AssertionError: one is not above two
    """
    if not condition:
        raise AssertionError(what)


def probable(values: Any, what: str) -> None:
    """Finite numbers between 0 and 1."""
    array = np.asarray(values)
    demand(np.isfinite(array).all(), f"{what} are not all finite")
    demand(((array >= 0) & (array <= 1)).all(), f"{what} leave [0, 1]")


def refuses(
    action: Callable[..., Any],
    *arguments: Any,
    what: str,
    errors: tuple[type[Exception], ...] = (ValueError, TypeError),
) -> None:
    """A ValueError or TypeError that says something.

    Examples
    --------
    >>> refuses(int, "seven", what="text")
    """
    try:
        action(*arguments)
    except errors as error:
        demand(str(error).strip(), f"the error about {what} says nothing")
        return
    raise AssertionError(f"{what} was accepted")


def needs_fit(action: Callable[..., Any], *arguments: Any, what: str) -> None:
    """scikit-learn's NotFittedError before a fit."""
    refuses(action, *arguments, what=f"{what} before fit", errors=(NotFittedError,))


def ranks(y: Any, scores: Any, least: float, what: str) -> None:
    """Positives above negatives: an area under the ROC curve of ``least`` or more.

    Examples
    --------
    >>> ranks([0, 1], [0.2, 0.8], 0.9, "two bags")
    """
    area = roc_auc_score(y, scores)
    demand(area >= least, f"AUC of {what} is {area:.3f}")
