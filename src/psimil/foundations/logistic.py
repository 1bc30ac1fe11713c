"""The logistic function and its relatives, exact in both tails."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def softplus(x: Array) -> Array:
    """log(1 + e^x), elementwise.

    Examples
    --------
    >>> softplus(np.array([-800.0, 800.0]))
    array([  0., 800.])
    """
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), elementwise, without overflow: the mean of y_n given f_n = x, Eq. (1).

    Examples
    --------
    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(np.asarray(x) >= 0, 1.0, e) / (1.0 + e))


def log1mexp(x: Array) -> Array:
    """log(1 - e^x) for x <= 0; minus infinity at 0.

    Examples
    --------
    >>> log1mexp(np.array([-1e-20, -1.0])).round(4)
    array([-46.0517,  -0.4587])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > -0.693, np.log(-np.expm1(np.minimum(x, 0.0))), np.log1p(-np.exp(x))))
