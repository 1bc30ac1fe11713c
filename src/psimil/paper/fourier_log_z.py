"""The paper's estimate of log Z by random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psimil.foundations.arrays import Array
from psimil.inference.shards import Shard
from psimil.model.bag_ranges import BagRange
from psimil.model.densities import log_ratio, log_ratio_slope
from psimil.model.kernels import Kernel

SMALLEST_SAMPLE_SIZE = 50.0  # an estimate resting on fewer effective samples steers no step


@dataclass(frozen=True)
class FourierEstimate:
    """The paper's Monte Carlo log Z with its gradient (P,) and effective sample size."""

    value: float
    gradient: Array
    effective_sample_size: float


def random_fourier(
    kernel: Kernel, shard: Shard, *, bias: float, seed: int, samples: int = 1000, frequencies: int = 200
) -> FourierEstimate:
    """Estimate log Z from ``samples`` functions drawn with random Fourier features (common random numbers by seed).

    The weights of the samples concentrate quickly: with 1000 instances about one sample of 1000 counts.
    """
    rng = np.random.default_rng(seed)
    D, v = shard.X.shape[1], float(np.exp(kernel.log_parameters[0]))
    omega = kernel.spectral_sample(rng, frequencies, D)
    phase = rng.uniform(0.0, 2.0 * np.pi, frequencies)
    draws = np.sqrt(2.0 * v / frequencies) * rng.standard_normal((frequencies, samples))
    level = bias * rng.standard_normal(samples)

    def log_weights(bags: BagRange) -> Array:
        rows = bags.rows
        f = np.cos(shard.X[rows] @ omega + phase) @ draws + level
        return shard.instance_weights[rows] @ log_ratio(shard.density, f)

    total = np.zeros(samples)
    for part in shard.backend.map(log_weights, shard.ranges):
        total += part
    top = total.max()
    weights = np.exp(total - top)
    value = float(top + np.log(weights.mean()))
    weights /= weights.sum()

    def gradient(bags: BagRange) -> Array:
        """sum_s w_s sum_n r'(f_ns) df_ns / d log parameter: f scales with sqrt(v), frequencies with 1 / lengthscale."""
        rows = bags.rows
        X = shard.X[rows]
        angle = X @ omega + phase
        f = np.cos(angle) @ draws
        slope = shard.instance_weights[rows, None] * log_ratio_slope(shard.density, f + level) * weights
        by_variance = 0.5 * np.vdot(slope, f)
        inner = np.sin(angle) * (slope @ draws.T)  # (n, frequencies)
        by_scale = np.vecdot(X.T @ inner, omega)
        if len(kernel.log_parameters) == 2:
            by_scale = by_scale.sum(keepdims=True)
        return np.concatenate([[by_variance], by_scale])

    slopes = np.zeros(len(kernel.log_parameters))
    for part in shard.backend.map(gradient, shard.ranges):
        slopes += part
    return FourierEstimate(value, slopes, float(1.0 / np.square(weights).sum()))
