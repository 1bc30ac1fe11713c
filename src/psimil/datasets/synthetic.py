"""Synthetic bags with known instance labels, for examples and tests."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.model.bags import Bags


def make_bags(
    n_bags: int = 100,
    bag_size: int | tuple[int, int] = (3, 12),
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
    bag_size : smallest and largest bag, both included, or one number for all bags.
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
    at_least(1, whole=True, n_bags=n_bags, n_features=n_features)
    at_least(0, whole=True, seed=seed)
    low, high = _sizes(bag_size)
    at_least(0, witness_rate=witness_rate)
    if witness_rate > 1:
        raise InputError(f"witness_rate must be between 0 and 1, got {witness_rate}.")
    if not isinstance(separation, Real) or not np.isfinite(separation):
        raise InputError(f"separation must be a finite number, got {separation!r}.")
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


def _sizes(bag_size: Any) -> tuple[int, int]:
    """Smallest and largest bag."""
    both = tuple(bag_size) if isinstance(bag_size, (tuple, list)) else (bag_size, bag_size)
    whole = all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in both)
    if len(both) != 2 or not whole or not 1 <= both[0] <= both[1]:
        raise InputError(
            f"bag_size must be one number >= 1, or (smallest, largest) with 1 <= smallest <= largest, got {bag_size!r}."
        )
    return both[0], both[1]
