"""Credible intervals of probabilities under Gaussian latents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import WIDE, gauss_hermite, sigmoid, softplus, trapezoid

Array = NDArray[Any]


def instance_interval(mean: Array, variance: Array, z: float) -> tuple[Array, Array]:
    """Ends (N,) of the interval of sigma(f) at +-z standard deviations of f: exact quantiles, as sigma is monotone.

    Examples
    --------
    >>> instance_interval(np.zeros(1), np.zeros(1), 1.96)
    (array([0.5]), array([0.5]))
    """
    spread = z * np.sqrt(variance)
    return sigmoid(mean - spread), sigmoid(mean + spread)


def noisy_or_interval(mean: Array, variance: Array, offsets: Array, z: float) -> tuple[Array, Array]:
    """Ends (B,) of the interval of 1 - prod(1 - sigma(f_n)) for independent f_n.

    The total risk X = -sum log(1 - sigma(f_n)) is matched with that of a single Gaussian log-odds; the bag's
    probability is 1 - exp(-X), so a bag of one instance gets that instance's interval exactly.

    Examples
    --------
    >>> low, high = noisy_or_interval(np.zeros(1), np.ones(1), np.array([0, 1]), 2.0)
    >>> low.round(4), high.round(4)
    (array([0.1192]), array([0.8808]))
    """
    totals = [np.add.reduceat(values, offsets[:-1]) for values in risk_moments(mean, variance)]
    centre, width = match_softplus(*totals)
    return sigmoid(centre - z * width), sigmoid(centre + z * width)


def risk_moments(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance (N,) of -log(1 - sigma(f)) = softplus(f).

    Examples
    --------
    >>> risk_moments(np.zeros(1), np.zeros(1))[0].round(4)
    array([0.6931])
    """
    first, second = np.empty(len(mean)), np.empty(len(mean))
    wide = variance > WIDE
    for (x, w), rows in ((gauss_hermite(), ~wide), (trapezoid(), wide)):
        plus = softplus(mean[rows, None] + np.sqrt(variance[rows])[:, None] * x)
        first[rows] = plus @ w
        plus -= first[rows, None]
        second[rows] = np.square(plus) @ w
    return first, second


def match_softplus(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean a and standard deviation t (B,) of a Gaussian whose softplus has the given mean and variance (Newton).

    Examples
    --------
    >>> risk = risk_moments(np.array([1.0]), np.array([4.0]))
    >>> [x.round(4) for x in match_softplus(*risk)]
    [array([1.]), array([2.])]
    """
    x, w = gauss_hermite()
    mean, variance = np.maximum(mean, 1e-150), np.minimum(variance, 1e250)
    # the lognormal and the normal limit share these starting values
    t = np.log1p(variance / np.square(mean))
    a = np.where(mean < 1, np.log(mean) - 0.5 * t, mean)
    t = np.where(mean < 1, np.sqrt(t), np.sqrt(variance))
    target = np.stack([np.log(mean), 0.5 * np.log(np.maximum(variance, 1e-300))])
    fixed = variance <= 1e-16 * np.square(mean)
    best_a, best_t, best = a.copy(), t.copy(), np.full(len(a), np.inf)
    for _ in range(12):
        f = a[:, None] + t[:, None] * x
        plus, s = softplus(f), sigmoid(f)
        first = np.maximum(plus @ w, 1e-300)
        plus -= first[:, None]
        second = np.maximum(np.square(plus) @ w, 1e-300)
        error = np.stack([np.log(first), 0.5 * np.log(second)]) - target
        size = np.abs(error).sum(axis=0)
        better = size < best
        best_a, best_t, best = np.where(better, a, best_a), np.where(better, t, best_t), np.where(better, size, best)
        by_a = np.stack([s @ w / first, (plus * s) @ w / second])
        by_t = np.stack([(s * x) @ w / first, (plus * s * x) @ w / second]) * t
        det = by_a[0] * by_t[1] - by_a[1] * by_t[0]
        det = np.where(np.abs(det) < 1e-12, 1e-12, det)
        step_a = np.clip((by_t[1] * error[0] - by_t[0] * error[1]) / det, -2.0, 2.0)
        step_t = np.clip((by_a[0] * error[1] - by_a[1] * error[0]) / det, -1.0, 1.0)
        a, t = a - step_a, t * np.exp(-step_t)
    certain = np.log(np.expm1(np.minimum(mean, 700.0)))
    return np.where(fixed, certain, best_a), np.where(fixed, 0.0, best_t)
