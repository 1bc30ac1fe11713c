"""Elliptical slice steps with all labels summed out, and sweeps that take them together with those of Gibbs.

Where labels say little, Polya-Gamma variables and drawn labels hold latent values back, and a Gibbs sampler crawls. A
slice step (Murray, Adams and MacKay 2010) looks at the likelihood alone and goes far there. Where labels say much, it
is the slower one. Both are reversible at w, and so is a sweep with one of them on both sides of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.gibbs import sweep
from oracle.latent_model import LatentModel

Array = NDArray[Any]


def slice_step(model: LatentModel, T: Array, w: Array, rng: np.random.Generator) -> Array:
    """A step of every chain: to a point of the ellipse through w and a draw of the prior where p(T | w) is high enough.

    Parameters
    ----------
    T : (B,) or (C, B) bag labels.
    w : (C, J) state of C chains.

    Returns
    -------
    w : (C, J) next state.

    Examples
    --------
    >>> model = LatentModel(np.ones((2, 1)), np.array([0, 2]))
    >>> slice_step(model, np.array([1]), np.zeros((5, 1)), np.random.default_rng(0)).shape
    (5, 1)
    """
    T = np.broadcast_to(T, (len(w), len(model.offsets) - 1))
    height = _log_p(model, T, w) - rng.exponential(size=len(w))
    other, angle = rng.standard_normal(w.shape), rng.uniform(0.0, 2.0 * np.pi, len(w))
    low, high = angle - 2.0 * np.pi, angle.copy()
    found, pending = w.copy(), np.arange(len(w))
    while len(pending):
        turn = angle[pending, None]
        found[pending] = np.cos(turn) * w[pending] + np.sin(turn) * other[pending]
        pending = pending[_log_p(model, T[pending], found[pending]) <= height[pending]]
        behind = angle[pending] < 0
        low[pending] = np.where(behind, angle[pending], low[pending])
        high[pending] = np.where(behind, high[pending], angle[pending])
        angle[pending] = rng.uniform(low[pending], high[pending])
    return found


def mixed_sweep(model: LatentModel, T: Array, w: Array, rng: np.random.Generator) -> Array:
    """A slice step, a sweep of the Gibbs sampler and another slice step: reversible, and quick wherever one of them is.

    Examples
    --------
    >>> model = LatentModel(np.ones((2, 1)), np.array([0, 2]))
    >>> mixed_sweep(model, np.array([1]), np.zeros((5, 1)), np.random.default_rng(0)).shape
    (5, 1)
    """
    for step in (slice_step, sweep, slice_step):
        w = step(model, T, w, rng)
    return w


def _log_p(model: LatentModel, T: Array, w: Array) -> Array:
    return np.asarray(model.log_likelihood(w @ model.W.T, T).sum(axis=-1))
