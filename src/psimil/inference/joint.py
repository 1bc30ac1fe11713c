"""Bag uncertainty with the correlation between instances kept: v is drawn once for a whole bag."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.aggregates import AGGREGATES
from psimil.inference.moments import Calibration
from psimil.inference.posterior import Posterior
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


def joint_std(
    gp: SparseGP,
    posterior: Posterior,
    X: Array,
    offsets: Array,
    *,
    aggregate: str,
    calibration: Calibration,
    rng: np.random.Generator,
    samples: int = 500,
) -> Array:
    """(B,) standard deviation of the bag probability under the joint q(f) of each bag, by sampling v.

    Parameters
    ----------
    X : (N, D) instances in model coordinates, bag after bag.
    offsets : (B + 1,).
    """
    deviations = posterior.U @ rng.standard_normal((len(posterior.m), samples))
    std = np.empty(len(offsets) - 1)
    for b, (start, stop) in enumerate(pairwise(offsets)):
        part = X[start:stop].astype(np.float64)
        V = gp.features(part)
        k = gp.residual_variance(part, V)
        noise = V @ deviations + np.sqrt(k)[:, None] * rng.standard_normal((len(part), samples))
        f = (calibration.scale * (V @ posterior.m) + calibration.shift)[:, None] + calibration.spread * noise
        std[b] = AGGREGATES[aggregate].of_draws(f).std()
    return std
