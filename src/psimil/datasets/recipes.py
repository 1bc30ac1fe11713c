"""Recipes for bags: synthetic ones, and bags of digits that are positive when they hold a 2 or a 9.

The digits are those of MNIST, or the small images of scikit-learn.
"""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.model.bags import Bags

POSITIVE = (2, 9)


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


@dataclass(frozen=True, eq=False)
class MnistBags:
    """Which image sits where.

    Parameters
    ----------
    index : (B, bag_size) rows of the image array.
    y : (B,) bag labels.
    y_instances : (B, bag_size) instance labels.
    """

    index: NDArray[np.int64]
    y: NDArray[np.int64]
    y_instances: NDArray[np.int64]


def mnist_bags(
    images: Sized,
    labels: ArrayLike,
    *,
    positive: Sequence[int] = POSITIVE,
    n_bags: int = 7000,
    bag_size: int = 10,
    max_positive: int = 4,
    seed: int = 0,
) -> MnistBags:
    """Bags of digits, half of them positive with 1 to ``max_positive`` positive instances each.

    Instances are dealt from shuffled decks, one of the positive digits and one of the others, shuffled again
    when it runs out: no image is used twice before every image of its deck is used once.

    Parameters
    ----------
    images : (N, ...) images; only their number matters.
    labels : (N,) digits.
    positive : digits that make an instance positive.
    n_bags, bag_size, max_positive : size of the problem; ``n_bags`` is even.
    seed : same seed, same bags.

    Returns
    -------
    bags : index (n_bags, bag_size), y (n_bags,), y_instances (n_bags, bag_size), bags in random order.

    Examples
    --------
    >>> digits = np.arange(200) % 10
    >>> drawn = mnist_bags(np.zeros((200, 784)), digits, n_bags=6)
    >>> drawn.index.shape, int(drawn.y.sum()), bool((drawn.y_instances.sum(axis=1) <= 4).all())
    ((6, 10), 3, True)
    """
    digits = np.asarray(labels)
    if len(images) != len(digits):
        raise InputError(f"{len(images)} images but {len(digits)} labels.")
    at_least(0, whole=True, seed=seed, n_bags=n_bags, bag_size=bag_size, max_positive=max_positive)
    if n_bags < 2 or n_bags % 2:
        raise InputError(f"n_bags must be even and >= 2, got {n_bags}.")
    if not 1 <= max_positive <= bag_size:
        raise InputError(f"max_positive must be between 1 and bag_size = {bag_size}, got {max_positive}.")
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1], n_bags // 2))
    counts = np.where(y == 1, rng.integers(1, max_positive + 1, size=n_bags), 0)
    y_instances = rng.permuted((np.arange(bag_size) < counts[:, None]).astype(np.int64), axis=1)
    is_positive = np.isin(digits, list(positive))
    index = np.empty((n_bags, bag_size), dtype=np.int64)
    for value in (0, 1):
        pool = np.flatnonzero(is_positive == bool(value))
        index[y_instances == value] = _deal(pool, int((y_instances == value).sum()), rng)
    return MnistBags(index, y, y_instances)


def authors_mnist_bags(labels: ArrayLike) -> MnistBags:
    """The 7000 bags of ten that the paper's published code draws, image by image.

    Positive and other digits are two shuffled decks, dealt from the back and begun again when they run out: first
    3500 positive bags with 1 to 4 positives, then 3500 negative ones. Instances are sorted by digit within a bag,
    equal digits in the order in which they were dealt, and the bags are shuffled at the end. The random numbers are
    those of numpy's legacy generator with seed 0.

    Parameters
    ----------
    labels : (n,) digits in the order of :func:`load_mnist`.

    Returns
    -------
    bags : index (7000, 10), y (7000,), y_instances (7000, 10).

    Examples
    --------
    >>> drawn = authors_mnist_bags(np.arange(70000) % 10)
    >>> drawn.index.shape, int(drawn.y.sum())
    ((7000, 10), 3500)
    """
    digits = np.asarray(labels)
    n_bags, bag_size = 7000, 10
    is_positive = np.isin(digits, POSITIVE)
    positives, negatives = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    if digits.ndim != 1 or not len(positives) or not len(negatives):
        raise InputError("labels must be (n,) digits, with 2s or 9s and other digits among them.")
    rng = np.random.RandomState(0)
    rng.shuffle(positives)
    rng.shuffle(negatives)
    counts = np.zeros(n_bags, dtype=np.int64)
    counts[: n_bags // 2] = rng.randint(1, bag_size // 2, size=n_bags // 2)
    from_positives = np.arange(bag_size) < counts[:, None]
    index = np.empty((n_bags, bag_size), dtype=np.int64)
    for place, deck in ((from_positives, positives), (~from_positives, negatives)):
        index[place] = np.resize(deck[::-1], int(place.sum()))  # repeats the deck as often as needed
    by_digit = np.argsort(digits[index], axis=1, kind="stable")
    index = np.take_along_axis(index, by_digit, axis=1)
    order = np.arange(n_bags)
    rng.shuffle(order)
    index = index[order]
    y_instances = is_positive[index].astype(np.int64)
    return MnistBags(index, y_instances.max(axis=1), y_instances)


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


def _deal(pool: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(count,) members of the pool by shuffled passes through it, so that uses differ by at most one."""
    if count and not len(pool):
        raise InputError("no image of the kind needed: both positive and negative digits must be present.")
    passes = -(-count // len(pool)) if count else 0
    decks = [rng.permutation(pool) for _ in range(passes)]
    return np.concatenate([*decks, pool[:0]])[:count]


def _sizes(bag_size: Any) -> tuple[int, int]:
    """Smallest and largest bag."""
    both = tuple(bag_size) if isinstance(bag_size, (tuple, list)) else (bag_size, bag_size)
    whole = all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in both)
    if len(both) != 2 or not whole or not 1 <= both[0] <= both[1]:
        raise InputError(
            f"bag_size must be one number >= 1, or (smallest, largest) with 1 <= smallest <= largest, got {bag_size!r}."
        )
    return both[0], both[1]
