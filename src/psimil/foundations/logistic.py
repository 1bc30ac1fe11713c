"""The logistic function and its relatives, exact in both tails, and expectations under one-dimensional Gaussians."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from psimil.foundations.arrays import Array

WIDE = 6.0  # above this variance 32 Gauss-Hermite nodes miss the bend of the logistic function


def softplus(x: Array) -> Array:
    """log(1 + e^x), elementwise.

    Examples
    --------
    >>> softplus(np.array([-800.0, 800.0]))
    array([  0., 800.])
    """
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def log1p(x: Array) -> Array:
    """log(1 + x) for x >= 0, to the last digits of its precision however small x is.

    NumPy's own takes four times as long in single precision as a logarithm (and Kahan's correction of it) does.

    Examples
    --------
    >>> log1p(np.array([1e-20, 1.0], dtype=np.float32))
    array([1.000000e-20, 6.931472e-01], dtype=float32)
    """
    if x.dtype != np.float32:
        return np.asarray(np.log1p(x))
    u = x + np.float32(1.0)
    found = np.log(u)
    u -= np.float32(1.0)
    u += np.float32(1e-38)
    found *= np.divide(x, u, out=u)
    with np.errstate(over="ignore"):
        np.multiply(x, np.float32(-0.5) * x, out=u)
    u += x  # x - x^2 / 2 <= log(1 + x), and all there is where 1 + x is 1
    return np.asarray(np.maximum(found, u, out=found))


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


def antithetic_draws(size: int, count: int, seed: int) -> Array:
    """(M, S) standard normal draws, the second half the first with its sign changed.

    Examples
    --------
    >>> antithetic_draws(3, 4, seed=0).sum(axis=1)
    array([0., 0., 0.])
    """
    half = np.random.default_rng(seed).standard_normal((size, max(count // 2, 1)))
    return np.hstack([half, -half])
