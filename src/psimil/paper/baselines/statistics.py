"""A bag as one vector: mean, standard deviation, minimum and maximum of each feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.estimators.inputs import read_bags

Array = NDArray[Any]


def bag_statistics(bags: Any) -> Array:
    """Mean, standard deviation, minimum and maximum of each feature within each bag.

    Parameters
    ----------
    bags : Bags or a sequence of (n_i, D) arrays.

    Returns
    -------
    statistics : (B, 4 D); D means, then D standard deviations (over n_i), D minima and D maxima.

    Examples
    --------
    >>> bag_statistics([[[1.0], [3.0]], [[5.0]]])
    array([[2., 1., 1., 3.],
           [5., 0., 5., 5.]])
    """
    found = read_bags(bags)
    X, starts, sizes = np.asarray(found.X, dtype=np.float64), found.offsets[:-1], found.sizes
    mean = np.add.reduceat(X, starts, axis=0) / sizes[:, None]
    deviation = X - np.repeat(mean, sizes, axis=0)
    std = np.sqrt(np.add.reduceat(deviation**2, starts, axis=0) / sizes[:, None])
    low, high = (extreme.reduceat(X, starts, axis=0) for extreme in (np.minimum, np.maximum))
    return np.hstack([mean, std, low, high])
