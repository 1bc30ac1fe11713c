"""Gauss-Hermite expectations under one-dimensional Gaussians."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

Array = NDArray[Any]

WIDE = 6.0  # above this variance 32 Gauss-Hermite nodes miss the bend of the logistic function


@cache
def gauss_hermite(order: int = 32) -> tuple[Array, Array]:
    """Nodes and weights (order,) with sum w g(x) = E g(x), x ~ N(0, 1).

    Examples
    --------
    >>> x, w = gauss_hermite(5)
    >>> round(float(w @ x**4), 12)
    3.0
    """
    nodes, weights = hermegauss(order)
    return nodes, weights / weights.sum()


@cache
def trapezoid(order: int = 256, reach: float = 8.5) -> tuple[Array, Array]:
    """Equally spaced nodes and weights for E g(x), x ~ N(0, 1): for functions that bend on a scale far below 1.

    Examples
    --------
    >>> x, w = trapezoid()
    >>> round(float(w @ x**4), 10)
    3.0
    """
    nodes = np.linspace(-reach, reach, order)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def expectation(function: Callable[[Array], Array], mean: Array, variance: Array, order: int = 32) -> Array:
    """E g(f) for f ~ N(mean, variance), elementwise.

    Parameters
    ----------
    function : g, elementwise.
    mean, variance : (n,) arrays.

    Examples
    --------
    >>> expectation(np.square, np.array([1.0]), np.array([2.0])).round(10)
    array([3.])
    """
    x, w = gauss_hermite(order)
    f = np.asarray(mean)[..., None] + np.sqrt(variance)[..., None] * x
    return np.asarray(function(f) @ w)
