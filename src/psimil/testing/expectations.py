"""What checks demand, each said in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROUNDING = 1e-5  # difference of probabilities that is put down to the order of sums, in single precision too


def same(found: Any, expected: Any, what: str) -> None:
    """Equal bit by bit."""
    np.testing.assert_array_equal(found, expected, err_msg=what)


def close(found: Any, expected: Any, what: str, tolerance: float = ROUNDING) -> None:
    """Equal up to rounding, in absolute terms."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=what)


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


def refuses(action: Callable[..., Any], *arguments: Any, what: str) -> None:
    """A ValueError or TypeError that says something.

    Examples
    --------
    >>> refuses(int, "seven", what="text")
    """
    try:
        action(*arguments)
    except (ValueError, TypeError) as error:
        demand(str(error).strip(), f"the error about {what} says nothing")
        return
    raise AssertionError(f"{what} was accepted")


def auc(y: Any, scores: Any) -> float:
    """Share of pairs of a positive and a negative in the right order, ties half.

    Examples
    --------
    >>> auc([0, 1], [0.2, 0.8])
    1.0
    """
    y, scores = np.asarray(y), np.asarray(scores)
    difference = scores[y == 1][:, None] - scores[y == 0][None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))
