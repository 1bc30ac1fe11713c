"""MNIST: digits from IDX files in the user's directory, and bags of them; features are learned on training bags."""

import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.datasets.content import read_content
from psimil.datasets.labelled import LabelledBags
from psimil.datasets.published import locate
from psimil.datasets.recipes import mnist_bags
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags

PARTS = ("train", "t10k")
UNSIGNED_BYTE = 0x08
MAX_BYTES = 1 << 30


class MnistSplit(NamedTuple):
    """Training and test bags whose features were learned on the training instances only."""

    train: LabelledBags
    test: LabelledBags


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Array stored in an IDX file of unsigned bytes, plain or gzipped.

    Parameters
    ----------
    path : file to read; gzip is recognised by its content, not by its name.

    Returns
    -------
    array : uint8, of the shape given in the header: (n,) for labels, (n, 28, 28) for MNIST images.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When the file is not IDX, is cut short or has bytes left over.

    Examples
    --------
    >>> path = Path("labels")
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 9]))
    >>> read_idx(path)
    array([7, 2, 9], dtype=uint8)
    """
    path = as_path(path)
    content = read_content(path, MAX_BYTES)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTE or content[3] == 0:
        raise InputError(f"{path.name}: not an IDX file of unsigned bytes (magic {content[:4].hex() or 'missing'}).")
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise InputError(f"{path.name}: header has {len(content)} of {header} bytes; the file is cut short.")
    shape = struct.unpack(f">{content[3]}I", content[4:header])
    expected = math.prod(shape)
    if len(content) - header != expected:
        raise InputError(f"{path.name}: {len(content) - header} of {expected} data bytes; the file is damaged.")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def load_mnist(directory: str | Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All 70 000 digits, the training file first.

    Parameters
    ----------
    directory : folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte``
        and ``t10k-labels-idx1-ubyte``, plain or with the ending ``.gz``, or the folder above its ``mnist``.

    Returns
    -------
    images : (70000, 784) float32 in [0, 1].
    labels : (70000,) digits.

    Examples
    --------
    >>> load_mnist("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: train-images-idx3-ubyte (or .gz) was not found in no-such-folder ...
    """
    images, labels = [], []
    for part in PARTS:
        images.append(_read(directory, f"{part}-images-idx3-ubyte", n_axes=3))
        labels.append(_read(directory, f"{part}-labels-idx1-ubyte", n_axes=1))
        if len(images[-1]) != len(labels[-1]):
            raise InputError(f"MNIST {part}: {len(images[-1])} images but {len(labels[-1])} labels.")
    pixels = np.concatenate([image.reshape(len(image), -1) for image in images]).astype(np.float32)
    pixels /= np.float32(255)
    return pixels, np.concatenate(labels).astype(np.int64)


def mnist_features(
    images: NDArray[np.floating], index: NDArray[np.integer], train: ArrayLike, *, n_components: int | None = 30
) -> NDArray[np.float64]:
    """Features of all instances, learned on the instances of the training bags only.

    Parameters
    ----------
    images : (n, P) pixels.
    index : (B, bag_size) rows of ``images``, as in :class:`MnistBags`.
    train : the training bags, as a mask (B,) or as their numbers.
    n_components : principal components to keep; None for raw pixels.

    Returns
    -------
    features : (B * bag_size, D), bag after bag.

    Examples
    --------
    >>> images = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [9.0, 1.0]])
    >>> mnist_features(images, np.array([[0, 2], [1, 3]]), [0], n_components=None).tolist()
    [[0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [9.0, 1.0]]
    >>> features = mnist_features(images, np.array([[0, 2], [1, 3]]), [0], n_components=1)
    >>> np.abs(features).ravel().round(6).tolist()  # centred on the first bag
    [1.0, 1.0, 0.0, 8.0]
    """
    chosen = _training_bags(train, len(index))
    if n_components is None:
        return np.asarray(images[index.ravel()], dtype=np.float64)
    from sklearn.decomposition import PCA

    pixels = images[index[chosen].ravel()].astype(np.float64)
    if not 1 <= n_components <= min(pixels.shape):
        raise InputError(
            f"n_components must be between 1 and {min(pixels.shape)}, the smaller of training instances and pixels, "
            f"got {n_components}."
        )
    pca = PCA(n_components, svd_solver="covariance_eigh").fit(pixels)
    return np.asarray(pca.transform(images[index.ravel()].astype(np.float64)))


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
    features = mnist_features(images, drawn.index, np.arange(n_train), n_components=n_components)
    size = drawn.index.shape[1]
    both = [
        LabelledBags(Bags(X, np.arange(0, len(X) + 1, size)), drawn.y[part], drawn.y_instances[part].ravel())
        for X, part in (
            (features[: n_train * size], slice(None, n_train)),
            (features[n_train * size :], slice(n_train, None)),
        )
    ]
    return MnistSplit(*both)


def _training_bags(train: ArrayLike, n_bags: int) -> NDArray[np.int64]:
    """Numbers of the training bags, at least one."""
    chosen = np.asarray(train)
    if chosen.dtype == bool and chosen.shape == (n_bags,):
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
        raise InputError(f"train must be a mask of {n_bags} bags or their numbers, with at least one training bag.")
    if chosen.min() < 0 or chosen.max() >= n_bags:
        raise InputError(f"train holds bag {chosen.max() if chosen.min() >= 0 else chosen.min()} of {n_bags} bags.")
    return chosen.astype(np.int64)


def _read(directory: str | Path, name: str, n_axes: int) -> NDArray[np.uint8]:
    """One of the four files, gzipped or plain."""
    path = locate(directory, name)
    array = read_idx(path)
    if array.ndim != n_axes:
        raise InputError(f"{path.name}: {array.ndim} axes in the header, expected {n_axes}.")
    return array
