"""Moments of instance probabilities under Gaussian latents, in log space, by quadrature or by sampling."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from psimil.compute.numpy_backend import ordered_map
from psimil.foundations.errors import NumericalFailure
from psimil.foundations.logistic import WIDE, gauss_hermite, trapezoid

Array = NDArray[Any]

_ROWS = 2048
_TINY = 1e-280
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
        far = (small <= _TINY) | ((s2 > WIDE) & (sign * mu < -6.0 * np.sqrt(s2)))
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
    """Instance moments of latents whose mean and variance, each (N,), are given: by quadrature, or by sampling.

    Raises
    ------
    NumericalFailure
        When latent values are so large that their squares overflow.
    """
    if not ((np.abs(latent[0]) < LARGEST_LATENT) & (np.sqrt(latent[1]) < LARGEST_LATENT)).all():
        raise NumericalFailure("latent values overflow: the model or the features are out of any range.")
    return sampled_moments(*latent, rng, samples) if expectation == "sample" else instance_moments(*latent)
