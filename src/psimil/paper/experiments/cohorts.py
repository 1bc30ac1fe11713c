"""The bags of an experiment, with features that may have to be learned on the training bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from psimil.datasets import (
    LabelledBags,
    authors_mnist_bags,
    load_cq500,
    load_mnist,
    load_musk1,
    load_musk2,
    load_rsna,
    mnist_features,
)
from psimil.foundations.arrays import Array
from psimil.foundations.errors import MissingFile
from psimil.model.bags import Bags

QUICK_BAGS = 700  # MNIST bags of a quick run
COMPONENTS = {"mnist-pca": 30, "mnist-raw": None}


@dataclass(frozen=True, eq=False)
class Cohort:
    """B labelled bags of N instances.

    Parameters
    ----------
    y : (B,) bag labels.
    y_instances : (N,) instance labels, -1 where unknown.
    features : training bags (indices) -> all bags, with features learned on those bags only.
    cnn_prob : (B,) the stored bag probabilities of a CNN, or None.
    cnn_instances : (N,) the CNN's stored slice predictions, or None.
    """

    y: Array
    y_instances: Array
    features: Callable[[Array], Bags]
    cnn_prob: Array | None = None
    cnn_instances: Array | None = None

    def take(self, bags: Bags, index: Array) -> LabelledBags:
        """The chosen bags with their labels."""
        return LabelledBags(bags[index], self.y[index], self.y_instances[rows_of(bags.offsets, index)])


def rows_of(offsets: Array, index: Array) -> Array:
    """Rows of the instances of the chosen bags, bag after bag.

    Examples
    --------
    >>> rows_of(np.array([0, 2, 5, 6]), np.array([2, 0]))
    array([5, 0, 1])
    """
    sizes = np.diff(offsets)[index]
    ends = np.cumsum(sizes)
    return np.repeat(offsets[:-1][index] - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)


@lru_cache(maxsize=2)
def load_cohort(name: str, directory: str | None, cnn: int | None = None, quick: bool = False) -> Cohort:
    """The cohort of that name: "musk1", "musk2", "mnist-pca", "mnist-raw", "rsna" or "cq500".

    Parameters
    ----------
    directory : where files that are not embedded lie.
    cnn : which CNN made the features, for "rsna" and "cq500".
    quick : fewer MNIST bags.

    Examples
    --------
    >>> load_cohort("musk1", None).y.sum()
    np.int64(47)
    """
    if name in ("musk1", "musk2"):
        bags, y = load_musk1() if name == "musk1" else load_musk2()
        return Cohort(y, np.full(len(bags.X), -1), lambda train: bags)
    if directory is None:
        raise MissingFile(f"{name} is not embedded. Name the folder of its files with --data.")
    if name in COMPONENTS:
        return _mnist(directory, COMPONENTS[name], quick)
    scans = (load_rsna if name == "rsna" else load_cq500)(directory, 0 if cnn is None else cnn)
    return Cohort(scans.y, scans.y_instances, lambda train: scans.bags, scans.cnn_prob, scans.cnn_instances)


def _mnist(directory: str, n_components: int | None, quick: bool) -> Cohort:
    images, digits = load_mnist(Path(directory))
    drawn = authors_mnist_bags(digits)
    n_bags, bag_size = (QUICK_BAGS if quick else len(drawn.y)), drawn.index.shape[1]
    index = drawn.index[:n_bags]
    last: dict[bytes, Bags] = {}

    def features(train: Array) -> Bags:
        key = train.tobytes()
        if key not in last:  # jobs come split by split: keep the features of one
            last.clear()
            X = mnist_features(images, index, train, n_components=n_components)
            last[key] = Bags(X, np.arange(0, len(X) + 1, bag_size))
        return last[key]

    return Cohort(drawn.y[:n_bags], drawn.y_instances[:n_bags].ravel(), features)
