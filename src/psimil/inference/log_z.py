"""log Z, the normaliser of psi-VGPMIL: Z = E_{N(f)} prod_n 2 cosh(f_n / 2) psi(f_n).

It is exactly -N log pi for the hyperbolic secant and depends on the kernel for every other density. Without it the
Gamma model drives the kernel variance to infinity or to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import softplus
from psimil.foundations.quadrature import gauss_hermite
from psimil.foundations.threads import ordered_map
from psimil.inference.problem import Problem
from psimil.model.densities import Density, HyperbolicSecant
from psimil.model.kernels import Kernel

Array = NDArray[Any]

SMALLEST_SAMPLE_SIZE = 50.0  # an estimate resting on fewer effective samples steers no step


def log_ratio(density: Density, f: Array) -> Array:
    """r(f) = log(2 cosh(f / 2) psi(f)), elementwise; constant for the hyperbolic secant.

    2 cosh(f / 2) is the sum over labels of Eq. (19), and Z the mean of exp sum r(f_n), Eq. (20); -log pi is Eq. (17).

    Examples
    --------
    >>> log_ratio(HyperbolicSecant(), np.array([0.0, 9.0])).round(4)
    array([-1.1447, -1.1447])
    """
    return softplus(np.asarray(-np.abs(f))) + 0.5 * np.abs(f) + density.log_prob(f)


def log_ratio_slope(density: Density, f: Array) -> Array:
    """r'(f) = tanh(f / 2) / 2 - f theta(f).

    Examples
    --------
    >>> log_ratio_slope(HyperbolicSecant(), np.array([3.0])).round(12) + 0.0
    array([0.])
    """
    return np.asarray(0.5 * np.tanh(0.5 * f) - f * density.theta(np.abs(f)))


def has_exact_log_z(density: Density) -> bool:
    """Whether log Z is a constant that no kernel changes.

    Examples
    --------
    >>> has_exact_log_z(HyperbolicSecant())
    True
    """
    return isinstance(density, HyperbolicSecant)


def jensen(density: Density, variance: Array) -> tuple[Array, Array]:
    """E r(f) for f ~ N(0, variance) and its derivative by the variance, each (n,): log Z >= their sum by Jensen.

    Examples
    --------
    >>> value, slope = jensen(HyperbolicSecant(), np.array([2.0]))
    >>> value.round(4), slope
    (array([-1.1447]), array([0.]))
    """
    if has_exact_log_z(density):
        return np.full(len(variance), -np.log(np.pi)), np.zeros(len(variance))
    x, w = gauss_hermite()
    half = x > 0  # r is even, so half of the nodes do; an even order has none at zero
    scale = np.sqrt(np.maximum(variance, 1e-12))[:, None]
    f = scale * x[half]
    value = 2.0 * log_ratio(density, f) @ w[half]
    slope = 2.0 * (log_ratio_slope(density, f) / (2.0 * scale)) @ (w[half] * x[half])
    return value, slope


@dataclass(frozen=True)
class FourierEstimate:
    """The paper's Monte Carlo log Z with its gradient (P,) and effective sample size."""

    value: float
    gradient: Array
    effective_sample_size: float


def random_fourier(
    kernel: Kernel, problem: Problem, *, bias: float, seed: int, samples: int = 1000, frequencies: int = 200
) -> FourierEstimate:
    """Estimate log Z from ``samples`` functions drawn with random Fourier features (common random numbers by seed).

    The weights of the samples concentrate quickly: with 1000 instances about one sample of 1000 counts.
    """
    rng = np.random.default_rng(seed)
    D, v = problem.X.shape[1], float(np.exp(kernel.log_parameters[0]))
    omega = kernel.spectral_sample(rng, frequencies, D)
    phase = rng.uniform(0.0, 2.0 * np.pi, frequencies)
    draws = np.sqrt(2.0 * v / frequencies) * rng.standard_normal((frequencies, samples))
    level = bias * rng.standard_normal(samples)

    def log_weights(chunk: Any) -> Array:
        rows = slice(chunk.start, chunk.stop)
        f = np.cos(problem.X[rows] @ omega + phase) @ draws + level
        return problem.instance_weights[rows] @ log_ratio(problem.density, f)

    total = np.zeros(samples)
    for part in ordered_map(log_weights, problem.chunks):
        total += part
    top = total.max()
    weights = np.exp(total - top)
    value = float(top + np.log(weights.mean()))
    weights /= weights.sum()

    def gradient(chunk: Any) -> Array:
        """sum_s w_s sum_n r'(f_ns) df_ns / d log parameter: f scales with sqrt(v), frequencies with 1 / lengthscale."""
        rows = slice(chunk.start, chunk.stop)
        X = problem.X[rows]
        angle = X @ omega + phase
        f = np.cos(angle) @ draws
        slope = problem.instance_weights[rows, None] * log_ratio_slope(problem.density, f + level) * weights
        by_variance = 0.5 * np.vdot(slope, f)
        inner = np.sin(angle) * (slope @ draws.T)  # (n, frequencies)
        by_scale = np.vecdot(X.T @ inner, omega)
        if len(kernel.log_parameters) == 2:
            by_scale = by_scale.sum(keepdims=True)
        return np.concatenate([[by_variance], by_scale])

    slopes = np.zeros(len(kernel.log_parameters))
    for part in ordered_map(gradient, problem.chunks):
        slopes += part
    return FourierEstimate(value, slopes, float(1.0 / np.square(weights).sum()))
