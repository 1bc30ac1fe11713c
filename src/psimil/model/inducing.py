"""Inducing points, and how many: by k-means per bag label (the paper), k-means, or greedy conditional variance."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from psimil.foundations.errors import DataWarning
from psimil.model.kernels import Kernel

Array = NDArray[Any]

SAMPLE_PER_POINT = 100  # k-means looks at this many instances per centre, at most
BUDGET = 6e10  # N M^2 of a fit


def choose_inducing(X: Array, positive: Array, count: int, how: str, kernel: Kernel, rng: np.random.Generator) -> Array:
    """(M, D) inducing points, at most ``count`` and never more than distinct instances.

    Parameters
    ----------
    X : (N, D) instances in model coordinates.
    positive : (N,) whether the instance lies in a positive bag.
    how : "kmeans_by_label", "kmeans" or "greedy_variance".

    Examples
    --------
    >>> X = np.repeat(np.arange(4.0), 3)[:, None]
    >>> from psimil.model.kernels import RBF
    >>> Z = choose_inducing(X, X[:, 0] > 1, 4, "kmeans", RBF(1.0, 1.0), np.random.default_rng(0))
    >>> np.sort(Z.ravel())
    array([0., 1., 2., 3.])
    """
    if len(X) <= 10 * count:
        distinct = np.unique(X, axis=0)
        if len(distinct) < count:
            warnings.warn(
                f"{count} inducing points asked but only {len(distinct)} distinct instances; using {len(distinct)}.",
                DataWarning,
                stacklevel=2,
            )
        if len(distinct) <= count:
            return np.asarray(distinct, dtype=np.float64)
    X = np.asarray(X, dtype=np.float64)
    if how == "greedy_variance":
        return greedy_variance(X, count, kernel)
    if how == "kmeans" or positive.all() or not positive.any():
        return _kmeans(X, count, rng)
    halves = [(X[positive], count - count // 2), (X[~positive], count // 2)]
    points = [_kmeans(part, k, rng) for part, k in halves if k > 0]
    return np.unique(np.concatenate(points), axis=0)


def inducing_for(instances: int, features: int) -> int:
    """How many inducing points so many instances with so many features deserve and can afford.

    One for every eight instances up to 200, then one for every twenty, but 20 at least and 1000 at most; few features
    need fewer; and N M^2 stays within a budget that keeps a fit to about a minute on two cores.

    Examples
    --------
    >>> inducing_for(476, 166), inducing_for(56_000, 30), inducing_for(21_190, 8), inducing_for(10**7, 50)
    (59, 992, 288, 100)
    """
    deserved = max(min(max(instances // 8, 20), 200), instances // 20)
    wanted = min(deserved, 32 * (features + 1), 1000)
    affordable = max(int(np.sqrt(BUDGET / instances)), 100)
    return max(1, min(wanted, affordable, instances))


_libraries = cache(ThreadpoolController)  # BLAS and OpenMP; looking for them takes as long as a small k-means


def _kmeans(X: Array, count: int, rng: np.random.Generator) -> Array:
    """Lloyd's algorithm on a sample, single-threaded so that equal seeds give equal bits."""
    limit = SAMPLE_PER_POINT * count
    if len(X) > limit:
        X = X[np.sort(rng.choice(len(X), limit, replace=False))]
    if len(X) <= count:
        return np.unique(X, axis=0)
    with _libraries().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seed = int(rng.integers(2**31))
        start, _ = kmeans_plusplus(X, count, random_state=seed)
        centres = KMeans(count, init=start, n_init=1, max_iter=30, random_state=seed).fit(X).cluster_centers_
    return np.unique(centres, axis=0)


def greedy_variance(X: Array, count: int, kernel: Kernel) -> Array:
    """Instances chosen one by one where the variance given those already chosen is largest (pivoted Cholesky).

    Examples
    --------
    >>> from psimil.model.kernels import RBF
    >>> greedy_variance(np.array([[0.0], [0.1], [5.0]]), 2, RBF(1.0, 1.0)).ravel()
    array([0., 5.])
    """
    variance = np.asarray(kernel.diagonal(X), dtype=np.float64).copy()
    smallest = 1e-10 * variance.max()
    rows = np.zeros((count, len(X)))
    chosen: list[int] = []
    for i in range(count):
        pivot = int(np.argmax(variance))
        if variance[pivot] <= smallest:
            break
        chosen.append(pivot)
        k = kernel.gram(X[pivot : pivot + 1], X)[0] - rows[:i, pivot] @ rows[:i]
        rows[i] = k / np.sqrt(variance[pivot])
        variance -= np.square(rows[i])
        variance[pivot] = 0.0
    return X[chosen]
