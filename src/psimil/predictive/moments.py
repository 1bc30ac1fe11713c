"""Moments of instance probabilities under Gaussian latents, in log space, and credible intervals."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from psimil.compute.numpy_backend import ordered_map
from psimil.foundations.errors import NumericalFailure
from psimil.foundations.logistic import WIDE, gauss_hermite, sigmoid, softplus, trapezoid

Array = NDArray[Any]

_ROWS = 2048
TINY_MEAN = 1e-280  # of s or 1 - s, below which it is taken from the tail of a Gaussian
NARROW = 0.5  # up to this variance 16 Gauss-Hermite nodes give ten digits
LARGEST_LATENT = 1e149  # of a mean or a standard deviation; moments square them


@dataclass(frozen=True)
class Calibration:
    """N(mean, variance) -> N(scale mean + shift, spread^2 variance).

    Examples
    --------
    >>> Calibration(2.0, 1.0, 2.0).apply(np.array([1.0]), np.array([3.0]))
    (array([3.]), array([12.]))
    """

    scale: float = 1.0
    shift: float = 0.0
    spread: float = 1.0

    def apply(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Moments (N,) of the calibrated latent."""
        return self.scale * mean + self.shift, self.spread**2 * variance

    @property
    def parameters(self) -> Array:
        """(3,) log scale, shift, log spread."""
        return np.array([np.log(self.scale), self.shift, np.log(self.spread)])


IDENTITY = Calibration()


@dataclass(frozen=True)
class InstanceMoments:
    """Per instance (N,): logs of E s and E(1 - s), and the variance of s = sigma(f)."""

    log_p: Array
    log_q: Array
    variance: Array

    @property
    def prob(self) -> Array:
        """P(y = 1), Eq. (31)."""
        return np.exp(self.log_p)

    @property
    def std(self) -> Array:
        """Standard deviation of sigma(f), Eq. (33)."""
        return np.sqrt(self.variance)

    @property
    def log_odds(self) -> Array:
        """log p / (1 - p)."""
        return self.log_p - self.log_q


def instance_moments(mean: Array, variance: Array) -> InstanceMoments:
    """Eqs. (31) to (33) by quadrature instead of sampling: Gauss-Hermite, or the trapezoid rule for wide latents.

    Parameters
    ----------
    mean, variance : (N,) of the latent f.

    Examples
    --------
    >>> instance_moments(np.array([0.0]), np.array([1.0])).prob.round(6)
    array([0.5])
    """
    columns = [np.empty(len(mean)) for _ in fields(InstanceMoments)]
    rules = (gauss_hermite(16), gauss_hermite(32), trapezoid())
    which = np.searchsorted((NARROW, WIDE), variance)
    for (x, w), rows in ((rule, np.flatnonzero(which == i)) for i, rule in enumerate(rules)):

        def part(start: int, rows: Array = rows, x: Array = x, w: Array = w) -> None:
            chosen = rows[start : start + _ROWS]
            mu, s2 = mean[chosen], variance[chosen]
            found = _moments(mu, s2, mu[:, None] + np.sqrt(s2)[:, None] * x, w)
            for column, values in zip(columns, found, strict=True):
                column[chosen] = values

        for _ in ordered_map(part, range(0, len(rows), _ROWS)):
            pass
    return InstanceMoments(*columns)


def sampled_moments(mean: Array, variance: Array, rng: np.random.Generator, samples: int) -> InstanceMoments:
    """Eqs. (32) and (33) as in the paper: averages over ``samples`` draws of f for each instance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sampled_moments(np.zeros(1), np.ones(1), rng, 10_000).prob.round(2)
    array([0.5])
    """
    parts = []
    for start in range(0, len(mean), _ROWS):
        mu, s2 = mean[start : start + _ROWS], variance[start : start + _ROWS]
        f = mu[:, None] + np.sqrt(s2)[:, None] * rng.standard_normal((len(mu), samples))
        parts.append(_moments(mu, s2, f, np.full(samples, 1.0 / samples)))
    return InstanceMoments(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _moments(mu: Array, s2: Array, f: Array, w: Array) -> tuple[Array, Array, Array]:
    e = np.exp(-np.abs(f))
    total = 1.0 / (1.0 + e)  # of |f|: the larger of s and 1 - s
    e *= total  # the smaller
    upper = f >= 0
    s = np.where(upper, total, e)
    mean_s, mean_q = s @ w, np.where(upper, e, total) @ w
    s -= mean_s[:, None]
    np.square(s, out=s)
    with np.errstate(divide="ignore"):  # the logarithm of the larger one from the smaller, so that no digit is lost
        log_p = np.where(mean_s < 0.5, np.log(mean_s), np.log1p(-np.minimum(mean_q, 0.5)))
        log_q = np.where(mean_q < 0.5, np.log(mean_q), np.log1p(-np.minimum(mean_s, 0.5)))
    for log_mean, small, sign in ((log_p, mean_s, 1.0), (log_q, mean_q, -1.0)):
        far = (small <= TINY_MEAN) | ((s2 > WIDE) & (sign * mu < -6.0 * np.sqrt(s2)))
        if far.any():
            log_mean[far] = _log_tail(sign * mu[far], s2[far])
    return log_p, log_q, s @ w


def _log_tail(mu: Array, s2: Array) -> Array:
    """log E min(e^f, 1), which is log E sigma(f) to within a factor of two, for means beyond the reach of the nodes."""
    s = np.sqrt(np.maximum(s2, 1e-100))
    z = mu / s + s
    # log E e^f 1(f < 0) = mu + s2 / 2 + log Phi(-z); for z > 0 the two would cancel, and erfcx has done so already
    scaled = np.log(0.5 * erfcx(np.maximum(z, 0.0) / np.sqrt(2.0))) - 0.5 * (mu / s) ** 2
    below = np.where(z > 0, scaled, mu + 0.5 * s2 + log_ndtr(-np.minimum(z, 0.0)))
    return np.asarray(np.logaddexp(below, log_ndtr(mu / s)))


def probabilities(
    latent: tuple[Array, Array], expectation: str = "quadrature", *, rng: np.random.Generator, samples: int = 1000
) -> InstanceMoments:
    """Instance moments of latents whose mean and variance, each (N,), are given: by quadrature, or by sampling."""
    check_latent(latent)
    return sampled_moments(*latent, rng, samples) if expectation == "sample" else instance_moments(*latent)


def check_latent(latent: tuple[Array, Array]) -> None:
    """Refuse latent means and variances (N,) that overflow.

    Raises
    ------
    NumericalFailure
        When latent values are so large that their squares do.
    """
    mean, variance = (np.asarray(part, dtype=np.float64) for part in latent)  # the limit is beyond single precision
    if not ((np.abs(mean) < LARGEST_LATENT) & (np.sqrt(variance) < LARGEST_LATENT)).all():
        raise NumericalFailure("latent values overflow: the model or the features are out of any range.")


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
