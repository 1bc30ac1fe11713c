"""Telling features: which features of an instance move its latent log-odds most, by leaving out one at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.trained import TrainedModel

Array = NDArray[Any]

MOST = 5  # features named per instance
LIMIT = 5_000_000  # instances times features above which nothing is worked out
WORK = 5e11  # multiplications above which nothing is worked out, about a quarter of a minute
BLOCK = 4_000_000  # numbers in memory at a time


class Telling(NamedTuple):
    """Per instance (N, k): numbers of the telling features, their values, and what they add to the log-odds."""

    features: Array
    values: Array
    effects: Array


def telling_features(model: TrainedModel, X: Array, most: int = MOST) -> Telling | None:
    """The features of each instance that matter most, the most telling first.

    The effect of a feature is the latent log-odds of the instance minus those of the same instance with that feature
    at its training mean (at 0 where the model does not standardise). Effects do not add up to the log-odds: features
    work together, and each is left out alone.

    Parameters
    ----------
    model : trained on D features.
    X : (N, D) instances in the units of the file.
    most : features to name per instance, at most D.

    Returns
    -------
    telling : features (N, k) int64, values (N, k) and effects (N, k) float64; None when N x D is above 5e6, or when
        it would take more than about 5e11 multiplications.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=10, bag_size=(4, 4), n_features=3, seed=0)
    >>> clf = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> telling_features(clf.model_, bags.X, most=2).features.shape
    (40, 2)
    """
    N, D = X.shape
    if N * D > LIMIT or float(N) * D * D * len(model.gp.Z) > WORK:
        return None
    with single_threaded_blas():
        effects = _effects(model, np.asarray(X, dtype=np.float64))
    order = np.argsort(-np.abs(effects), axis=1, kind="stable")[:, :most].astype(np.int64)
    values = np.take_along_axis(np.asarray(X, dtype=np.float64), order, axis=1)
    return Telling(order, values, np.take_along_axis(effects, order, axis=1))


def _effects(model: TrainedModel, X: Array) -> Array:
    """(N, D) change of the latent mean when each feature alone is taken away."""
    N, D = X.shape
    location = model.scaling.location
    effects = np.empty((N, D))
    rows = max(1, min(N, BLOCK // D))
    columns = max(1, BLOCK // (rows * D))
    for start in range(0, N, rows):
        block = X[start : start + rows]
        whole = model.latent(block)[0]
        for first in range(0, D, columns):
            left_out = np.arange(first, min(first + columns, D))
            copies = np.repeat(block[None], len(left_out), axis=0)
            copies[np.arange(len(left_out)), :, left_out] = location[left_out, None]
            without = model.latent(copies.reshape(-1, D))[0].reshape(len(left_out), -1)
            effects[start : start + rows, left_out] = (whole - without).T
    return effects
