"""Bags of small handwritten digits, made of the images that scikit-learn carries: nothing to download."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.datasets.mnist_recipes import mnist_bags
from psimil.foundations.numbers import at_least
from psimil.model.bags import Bags


class DigitBags(NamedTuple):
    """Bags of digits with the pictures: B bags, y (B,), y_instances (N,), images (N, 8, 8) in [0, 1]."""

    bags: Bags
    y: NDArray[np.int64]
    y_instances: NDArray[np.int64]
    images: NDArray[np.float64]


def digits_bags(n_bags: int = 400, bag_size: int = 10, seed: int = 0) -> DigitBags:
    """Bags of 8 x 8 digits, positive when they hold a 2 or a 9, as in :func:`mnist_bags`.

    Half of the bags are positive, with 1 to 4 positive instances each (fewer in smaller bags). There are 1797
    images; with more instances than that, images are used again.

    Parameters
    ----------
    n_bags : even.
    bag_size : instances per bag.
    seed : same seed, same bags.

    Returns
    -------
    digits : bags with the 64 pixels as features, y (n_bags,), y_instances (N,), images (N, 8, 8).

    Examples
    --------
    >>> bags, y, y_instances, images = digits_bags(n_bags=20)
    >>> bags.X.shape, int(y.sum()), images.shape
    ((200, 64), 10, (200, 8, 8))
    """
    from sklearn.datasets import load_digits

    at_least(1, whole=True, bag_size=bag_size)
    stored = load_digits()
    drawn = mnist_bags(
        stored.images, stored.target, n_bags=n_bags, bag_size=bag_size, max_positive=min(4, bag_size), seed=seed
    )
    images = stored.images[drawn.index.ravel()] / 16.0
    X = images.reshape(len(images), -1)
    return DigitBags(Bags(X, np.arange(0, len(X) + 1, bag_size)), drawn.y, drawn.y_instances.ravel(), images)
