"""log Z, the normaliser of psi-VGPMIL: Z = E_{N(f)} prod_n 2 cosh(f_n / 2) psi(f_n).

It is exactly -N log pi for the hyperbolic secant and depends on the kernel for every other density. Without it the
Gamma model drives the kernel variance to infinity or to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import gauss_hermite
from psimil.inference.shards import Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import Density, is_logistic, log_ratio, log_ratio_slope

Array = NDArray[Any]


def jensen(density: Density, variance: Array) -> tuple[Array, Array]:
    """E r(f) for f ~ N(0, variance) and its derivative by the variance, each (n,): log Z >= their sum by Jensen.

    Examples
    --------
    >>> from psimil.model.densities import HyperbolicSecant
    >>> value, slope = jensen(HyperbolicSecant(), np.array([2.0]))
    >>> value.round(4), slope
    (array([-1.1447]), array([0.]))
    """
    if is_logistic(density):
        return np.full(len(variance), -np.log(np.pi)), np.zeros(len(variance))
    x, w = gauss_hermite()
    half = x > 0  # r is even, so half of the nodes do; an even order has none at zero
    scale = np.sqrt(np.maximum(variance, 1e-12))[:, None]
    f = scale * x[half]
    value = 2.0 * log_ratio(density, f) @ w[half]
    slope = 2.0 * (log_ratio_slope(density, f) / (2.0 * scale)) @ (w[half] * x[half])
    return value, slope


def prior_log_z(shard: Shard, gp: SparseGP) -> float:
    """Jensen's log Z of the shard's instances, summed."""
    if shard.keep and shard.kept.get("log_z_of") is gp:
        return float(shard.kept["log_z"])
    total = 0.0
    for bags in shard.ranges:
        V, _ = shard.rows_of_V(gp, bags)
        value, _ = jensen(shard.density, gp.prior_variance(shard.X[bags.rows], V))
        total += float(shard.instance_weights[bags.rows] @ value)
    if shard.keep:
        shard.kept.update(log_z_of=gp, log_z=total)
    return total
