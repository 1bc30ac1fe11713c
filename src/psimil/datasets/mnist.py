"""MNIST bags: ten digits to a bag, positive when it holds a 2 or a 9. The images are read from the user's directory."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA

from psimil.datasets.idx import read_idx
from psimil.foundations.errors import InputError, MissingFile
from psimil.model.bags import Bags

PARTS = ("train", "t10k")


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


class LabelledBags(NamedTuple):
    """Bags with all their labels: B bags, y (B,), y_instances (N,)."""

    bags: Bags
    y: NDArray[np.int64]
    y_instances: NDArray[np.int64]


class MnistSplit(NamedTuple):
    """Training and test bags whose features were learned on the training instances only."""

    train: LabelledBags
    test: LabelledBags


def load_mnist(directory: str | Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All 70 000 digits, the training file first.

    Parameters
    ----------
    directory : folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte``
        and ``t10k-labels-idx1-ubyte``, plain or with the ending ``.gz``.

    Returns
    -------
    images : (70000, 784) float32 in [0, 1].
    labels : (70000,) digits.

    Examples
    --------
    >>> load_mnist("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: train-images-idx3-ubyte.gz was not found in no-such-folder. ...
    """
    images, labels = [], []
    for part in PARTS:
        images.append(_read(Path(directory), f"{part}-images-idx3-ubyte", n_axes=3))
        labels.append(_read(Path(directory), f"{part}-labels-idx1-ubyte", n_axes=1))
        if len(images[-1]) != len(labels[-1]):
            raise InputError(f"MNIST {part}: {len(images[-1])} images but {len(labels[-1])} labels.")
    pixels = np.concatenate([image.reshape(len(image), -1) for image in images]).astype(np.float32)
    pixels /= np.float32(255)
    return pixels, np.concatenate(labels).astype(np.int64)


def mnist_bags(
    images: Sized,
    labels: ArrayLike,
    *,
    positive: Sequence[int] = (2, 9),
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


def mnist_split(
    directory: str | Path, *, seed: int = 0, n_train: int = 5600, n_components: int | None = 30
) -> MnistSplit:
    """The MNIST bags of the paper, 7000 in all, split into training and test bags.

    Parameters
    ----------
    directory : folder of the IDX files, see :func:`load_mnist`.
    seed : draws the bags; they come in random order, so the first ``n_train`` are a random split.
    n_train : number of training bags, 1 to 6999.
    n_components : principal components, fitted on the training instances only; None for raw pixels.

    Returns
    -------
    split : train and test, each with bags, y (B,) and y_instances (N,), features float64.

    Examples
    --------
    >>> split = mnist_split("data/mnist")  # doctest: +SKIP
    >>> split.train.bags.X.shape, split.test.bags.X.shape  # doctest: +SKIP
    ((56000, 30), (14000, 30))
    """
    images, labels = load_mnist(directory)
    drawn = mnist_bags(images, labels, seed=seed)
    if not 1 <= n_train < len(drawn.y):
        raise InputError(f"n_train must be between 1 and {len(drawn.y) - 1}, got {n_train}.")
    parts = (slice(None, n_train), slice(n_train, None))
    train, test = (images[drawn.index[part].ravel()].astype(np.float64) for part in parts)  # (N, 784)
    if n_components is not None:
        pca = PCA(n_components, svd_solver="covariance_eigh").fit(train)
        train, test = pca.transform(train), pca.transform(test)
    size = drawn.index.shape[1]
    both = [
        LabelledBags(Bags(X, np.arange(0, len(X) + 1, size)), drawn.y[part], drawn.y_instances[part].ravel())
        for X, part in zip((train, test), parts, strict=True)
    ]
    return MnistSplit(*both)


def _deal(pool: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(count,) members of the pool by shuffled passes through it, so that uses differ by at most one."""
    if count and not len(pool):
        raise InputError("no image of the kind needed: both positive and negative digits must be present.")
    passes = -(-count // len(pool)) if count else 0
    decks = [rng.permutation(pool) for _ in range(passes)]
    return np.concatenate([*decks, pool[:0]])[:count]


def _read(directory: Path, name: str, n_axes: int) -> NDArray[np.uint8]:
    """One of the four files, gzipped or plain."""
    for path in (directory / f"{name}.gz", directory / name):
        if path.is_file():
            array = read_idx(path)
            if array.ndim != n_axes:
                raise InputError(f"{path.name}: {array.ndim} axes in the header, expected {n_axes}.")
            return array
    raise MissingFile(
        f"{name}.gz was not found in {directory}. Name the folder of the four MNIST IDX files, plain or gzipped."
    )
