"""Scale and shift of the latent log-odds, and the spread of their uncertainty, fitted by out-of-bag bag likelihood.

The mean and the standard deviation get their own factors: densities other than the hyperbolic secant compress the mean
far more than the spread, and one factor for both would drown instance rankings in inflated variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from psimil.compute.numpy_backend import ordered_map
from psimil.foundations.logistic import gauss_hermite, log1mexp
from psimil.model.bag_ranges import rows_of_bags
from psimil.predictive.aggregates import AGGREGATES, Dependence
from psimil.predictive.moments import IDENTITY, Calibration

Array = NDArray[Any]

PRIOR = np.array([2.0, 5.0, 0.25])  # sd of log scale, shift, log spread; stops runaways on separated bags

PIECE = 4096  # instances at a time: their quadrature stays in a core's cache


@dataclass(frozen=True)
class LatentBags:
    """Latent moments (N,), bag offsets (B + 1,), labels (B,), weights (B,) and dependence of bags to calibrate on."""

    mean: Array
    variance: Array
    offsets: Array
    T: Array
    weights: Array
    aggregate: str = "noisy_or"
    dependence: Dependence | None = None

    @property
    def enough(self) -> bool:
        """Whether there are two bags of each label, by weight, one for either half."""
        return min(self.weight_of(0), self.weight_of(1)) >= 2

    def weight_of(self, label: int) -> float:
        """Weight of the bags with this label."""
        return float(self.weights[self.T == label].sum())

    def half(self, odd: bool) -> LatentBags:
        """Every other bag of each class, counted by latent mean, so that the order of bags does not matter.

        A bag of weight 2 counts twice: one of them is in either half.
        """
        share, top = np.empty(len(self.T)), np.maximum.reduceat(self.mean, self.offsets[:-1])
        for label in (0, 1):
            members = np.flatnonzero(self.T == label)
            members = members[np.argsort(top[members], kind="stable")]
            ends = np.concatenate([[0.0], np.cumsum(self.weights[members])])
            in_odd = ends // 2 + np.maximum(ends % 2 - 1.0, 0.0)
            share[members] = np.diff(in_odd if odd else ends - in_odd)
        return replace(self, weights=share).weighing()

    def weighing(self) -> LatentBags:
        """Those bags that have a weight."""
        chosen = np.flatnonzero(self.weights > 0)
        if len(chosen) == len(self.T):
            return self
        rows, offsets = rows_of_bags(self.offsets, chosen)
        dependence = None if self.dependence is None else self.dependence.taken(chosen)
        of_bags = (offsets, self.T[chosen], self.weights[chosen], self.aggregate, dependence)
        return LatentBags(self.mean[rows], self.variance[rows], *of_bags)


def bag_log_likelihoods(bags: LatentBags, parameters: Array) -> tuple[Array, Array]:
    """log P(T_b) of each bag (B,) and its derivatives (3, B) by log scale, shift and log spread.

    Parameters
    ----------
    parameters : (3,) log scale, shift, log spread.
    """
    s, q, changes = _sigmoid_moments(bags, parameters)
    log_survival, slopes = AGGREGATES[bags.aggregate].log_negative(s, q, changes, bags.offsets)
    if bags.dependence is not None and bags.aggregate == "noisy_or":
        log_survival = log_survival + np.maximum(bags.dependence.log_ratio, 0.0)
    log_survival = np.minimum(log_survival, -1e-300)
    log_p = np.maximum(log1mexp(log_survival), -600.0)
    value = np.where(bags.T == 1, log_p, log_survival)
    factor = np.where(bags.T == 1, -np.exp(np.minimum(log_survival - log_p, 600.0)), 1.0)
    return value, slopes * factor


def _sigmoid_moments(bags: LatentBags, parameters: Array) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """E s(f) and E (1 - s(f)) of each instance (N,), and the derivatives of E s by the three parameters, each (N,)."""
    x, w = gauss_hermite(20)
    centre = np.exp(parameters[0]) * bags.mean
    sd = np.exp(parameters[2]) * np.sqrt(bags.variance)
    found = np.empty((4, len(centre)))  # E s, E (1 - s), dE s by shift, dE s by log spread

    def fill(start: int) -> None:
        rows = slice(start, start + PIECE)
        noise = sd[rows, None] * x
        f = (centre[rows] + parameters[1])[:, None] + noise
        e = np.exp(-np.abs(f))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        slope = smaller * larger  # s (1 - s)
        positive = f >= 0
        for row, values in enumerate(
            (np.where(positive, larger, smaller), np.where(positive, smaller, larger), slope, slope * noise)
        ):
            np.matmul(values, w, out=found[row, rows])

    for _ in ordered_map(fill, range(0, len(centre), PIECE)):
        pass
    s, q, by_shift, by_spread = found
    return s, np.maximum(q, 1e-290), (centre * by_shift, by_shift, by_spread)


def fit_calibration(bags: LatentBags) -> Calibration:
    """Maximum of the bag likelihood under weak priors.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(0.0, 3.0, 2000)
    >>> T = (rng.random(2000) < 1 / (1 + np.exp(-f))).astype(int)
    >>> bags = LatentBags(f / 3 - 1, np.zeros(2000), np.arange(2001), T, np.ones(2000))
    >>> found = fit_calibration(bags)
    >>> round(found.scale), round(found.shift)
    (3, 3)
    """
    total = float(bags.weights.sum())

    def objective(parameters: Array) -> tuple[float, Array]:
        values, slopes = bag_log_likelihoods(bags, parameters)
        penalty = 0.5 * float(np.square(parameters / PRIOR).sum())
        gradient = parameters / np.square(PRIOR) - slopes @ bags.weights
        return (penalty - float(bags.weights @ values)) / total, gradient / total

    bounds = [(-6.0, 6.0), (-50.0, 50.0), (-6.0, 6.0)]
    x = minimize(objective, np.zeros(3), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(np.exp(x[0])), float(x[1]), float(np.exp(x[2])))


def calibration_helps(bags: LatentBags) -> bool:
    """Whether a calibration fitted on half of the bags raises the likelihood of the other half, both ways together."""
    if not bags.enough:
        return False
    halves = bags.half(True), bags.half(False)
    learned = fit_calibration(halves[1]), fit_calibration(halves[0])  # each on the other half
    calibrated, raw = (
        np.concatenate([h.weights * bag_log_likelihoods(h, c.parameters)[0] for h, c in zip(halves, how, strict=True)])
        for how in (learned, (IDENTITY, IDENTITY))
    )
    return bool(calibrated.sum() > raw.sum())
