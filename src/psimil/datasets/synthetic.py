"""Synthetic bags with known instance labels, for examples and tests."""

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.bags import Bags


def make_bags(
    n_bags: int = 100,
    bag_size: tuple[int, int] = (3, 12),
    n_features: int = 5,
    witness_rate: float = 0.3,
    separation: float = 2.0,
    seed: int = 0,
) -> tuple[Bags, NDArray[np.int64], NDArray[np.int64]]:
    """Gaussian instances; in the positive half of the bags some are shifted along one direction.

    A negative instance is N(0, I); a positive one is N(separation e, I) with e = (1, ..., 1) / sqrt(D). In a
    positive bag each instance is positive with probability ``witness_rate``, and at least one is.

    Parameters
    ----------
    n_bags : number of bags; half of them, rounded down, are positive.
    bag_size : smallest and largest bag, both included.
    n_features : D.
    witness_rate : in [0, 1].
    separation : distance between the means of the two kinds of instances.
    seed : same seed, same bags.

    Returns
    -------
    bags : Bags in random order of labels, X (N, D).
    y : (n_bags,) bag labels.
    y_instances : (N,) instance labels.

    Examples
    --------
    >>> bags, y, y_instances = make_bags(n_bags=10, n_features=2)
    >>> len(bags), int(y.sum()), bags.X.shape == (len(y_instances), 2)
    (10, 5, True)
    """
    low, high = bag_size
    if n_bags < 1 or n_features < 1:
        raise InputError(f"n_bags and n_features must be >= 1, got {n_bags} and {n_features}.")
    if not 1 <= low <= high:
        raise InputError(f"bag_size must be (smallest, largest) with 1 <= smallest <= largest, got {bag_size}.")
    if not 0 <= witness_rate <= 1:
        raise InputError(f"witness_rate must be between 0 and 1, got {witness_rate}.")
    rng = np.random.default_rng(seed)
    y = rng.permutation((np.arange(n_bags) < n_bags // 2).astype(np.int64))
    sizes = rng.integers(low, high + 1, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    witness = rng.random(offsets[-1]) < witness_rate
    witness[offsets[:-1] + rng.integers(sizes)] = True
    y_instances = (witness & np.repeat(y == 1, sizes)).astype(np.int64)
    X = rng.standard_normal((offsets[-1], n_features))
    X += separation / np.sqrt(n_features) * y_instances[:, None]
    return Bags(X, offsets), y, y_instances
