"""Exact draws from the Polya-Gamma law PG(1, c), many at a time.

Devroye's rejection sampler in the form of Polson, Scott and Windle (2013): PG(1, c) is a quarter of J*(1, c / 2), whose
density is an alternating series. Left of a point the first term is an inverse Gaussian, right of it an exponential.
Whether a proposal is kept is decided by partial sums of the series, without any truncation error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from psimil.foundations.errors import InputError
from psimil.foundations.logistic import sigmoid
from psimil.foundations.numbers import generator

Array = NDArray[Any]

BEND = 0.64  # where the two forms of the series meet; any point is right, this one rejects least


def draw_polya_gamma(c: Array, rng: np.random.Generator) -> Array:
    """One draw of PG(1, c), Eq. (10), for each c.

    Parameters
    ----------
    c : array of any shape; the law depends on |c| only.
    rng : source of randomness.

    Returns
    -------
    omega : positive, in the shape of c; its mean is tanh(c / 2) / (2 c).

    Examples
    --------
    >>> omega = draw_polya_gamma(np.zeros(20_000), np.random.default_rng(0))
    >>> bool(abs(omega.mean() - 0.25) < 0.005), bool(abs(omega.var() - 1 / 24) < 0.003)
    (True, True)
    """
    generator(rng)
    tilt = 0.5 * np.abs(np.asarray(c, dtype=np.float64))
    if not np.isfinite(tilt).all():
        raise InputError("Polya-Gamma draws (c): not every value is finite. Check the latent values.")
    z = tilt.ravel()
    rate = np.pi**2 / 8 + 0.5 * z**2
    share = sigmoid(_log_right_mass(rate) - _log_left_mass(z))
    drawn, pending = np.empty(len(z)), np.arange(len(z))
    while len(pending):
        x = _propose(z[pending], rate[pending], share[pending], rng)
        kept = _accept(x, rng.random(len(x)))
        drawn[pending[kept]] = 0.25 * x[kept]
        pending = pending[~kept]
    return drawn.reshape(tilt.shape)


def _log_right_mass(rate: Array) -> Array:
    """Log of the integral of the exponential piece beyond the bend."""
    return np.asarray(np.log(np.pi / (2 * rate)) - rate * BEND)


def _log_left_mass(z: Array) -> Array:
    """Log of the integral of the inverse Gaussian piece up to the bend: 2 e^-z P(IG(1 / z, 1) <= bend)."""
    root = 1 / np.sqrt(BEND)
    below = log_ndtr(root * (BEND * z - 1)) - z
    return np.asarray(np.log(2.0) + np.logaddexp(below, z + log_ndtr(-root * (BEND * z + 1))))


def _propose(z: Array, rate: Array, share: Array, rng: np.random.Generator) -> Array:
    right = rng.random(len(z)) < share
    x = np.empty(len(z))
    x[right] = BEND + rng.exponential(size=int(right.sum())) / rate[right]
    x[~right] = _truncated_inverse_gaussian(z[~right], rng)
    return x


def _truncated_inverse_gaussian(z: Array, rng: np.random.Generator) -> Array:
    """IG(1 / z, 1) given that it is at most the bend."""
    drawn, pending = np.empty(len(z)), np.arange(len(z))
    while len(pending):
        tilt = z[pending]
        far = tilt * BEND < 1  # the mean 1 / z lies beyond the bend
        x = np.empty(len(tilt))
        kept = np.empty(len(tilt), dtype=bool)
        x[far], kept[far] = _left_tail(tilt[far], rng)
        x[~far] = _inverse_gaussian(tilt[~far], rng)
        kept[~far] = x[~far] <= BEND
        drawn[pending[kept]] = x[kept]
        pending = pending[~kept]
    return drawn


def _left_tail(z: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Proposals from the law of 1 / chi-square below the bend, and which of them are inverse Gaussian."""
    one, two = rng.exponential(size=(2, len(z)))
    x = BEND / (1 + BEND * one) ** 2
    kept = (one**2 <= 2 * two / BEND) & (rng.random(len(z)) < np.exp(-0.5 * z**2 * x))
    return x, kept


def _inverse_gaussian(z: Array, rng: np.random.Generator) -> Array:
    """IG(1 / z, 1) by the two roots of Michael, Schucany and Haas (1976)."""
    mean = 1 / z
    chi = mean * rng.standard_normal(len(z)) ** 2
    # the smaller root of x^2 - mean (2 + chi) x + mean^2, without the difference of large numbers
    small = mean / (1 + 0.5 * chi + np.sqrt(chi + 0.25 * chi**2))
    return np.where(rng.random(len(z)) * (mean + small) <= mean, small, mean**2 / small)


def _accept(x: Array, level: Array) -> Array:
    """Whether level lies below the alternating series 1 - r_1 + r_2 - ..., r_k = (2 k + 1) e^(-k (k + 1) g)."""
    g = np.where(x > BEND, 0.5 * np.pi**2 * x, 2 / x)
    total, kept, open_ = np.ones(len(x)), np.zeros(len(x), dtype=bool), np.ones(len(x), dtype=bool)
    k = 0
    while open_.any():
        k += 1
        term = (2 * k + 1) * np.exp(-k * (k + 1) * g)
        total = total - term if k % 2 else total + term
        decided = open_ & (level <= total if k % 2 else level > total)
        kept |= decided & bool(k % 2)
        open_ &= ~decided
    return kept
