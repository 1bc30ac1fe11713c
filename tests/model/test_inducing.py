"""Inducing points: how many, how distinct, always the same for a seed; greedy against dense conditional variances."""

import numpy as np
import pytest

from psimil.foundations.errors import DataWarning
from psimil.model.inducing import choose_inducing, greedy_variance
from psimil.model.kernels import RBF, Linear, Matern32

HOW = ["kmeans_by_label", "kmeans", "greedy_variance"]
KERNEL = RBF(2.0, 1.0)


def data(N=300, D=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    positive = rng.random(N) < 0.4
    X[positive] += 4.0
    return X, positive


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("count", [1, 2, 7, 25])
def test_count_and_distinctness(how, count):
    X, positive = data()
    Z = choose_inducing(X, positive, count, how, KERNEL, np.random.default_rng(0))
    assert Z.shape == (count, 3)
    assert Z.dtype == np.float64
    assert len(np.unique(Z, axis=0)) == count
    assert (Z.min(axis=0) >= X.min(axis=0) - 1e-12).all()
    assert (Z.max(axis=0) <= X.max(axis=0) + 1e-12).all()


@pytest.mark.parametrize("how", HOW)
def test_same_seed_same_points(how):
    X, positive = data(2000)
    first, again = (choose_inducing(X, positive, 12, how, KERNEL, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, again)
    single = choose_inducing(X.astype(np.float32), positive, 12, how, KERNEL, np.random.default_rng(5))
    assert single.dtype == np.float64


def test_kmeans_depends_on_the_seed():
    X, positive = data(2000)
    draws = [choose_inducing(X, positive, 12, "kmeans", KERNEL, np.random.default_rng(s)) for s in (0, 1)]
    assert not np.array_equal(*draws)


@pytest.mark.parametrize("how", HOW)
def test_more_points_than_distinct_instances(how):
    X = np.repeat(np.arange(4.0)[:, None], 5, axis=0)
    with pytest.warns(DataWarning, match="10 inducing points asked but only 4 distinct instances; using 4"):
        Z = choose_inducing(X, X[:, 0] > 1, 10, how, KERNEL, np.random.default_rng(0))
    assert np.sort(Z.ravel()).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_as_many_points_as_distinct_instances_takes_them_all_in_silence():
    X = np.repeat(np.arange(4.0)[:, None], 5, axis=0)
    Z = choose_inducing(X, X[:, 0] > 1, 4, "kmeans", KERNEL, np.random.default_rng(0))
    assert np.sort(Z.ravel()).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_kmeans_by_label_gives_each_class_its_half():
    X, positive = data()
    X[positive] += 50.0
    Z = choose_inducing(X, positive, 11, "kmeans_by_label", KERNEL, np.random.default_rng(0))
    assert (Z[:, 0] > 25).sum() == 6
    one_class = choose_inducing(X, np.ones(300, dtype=bool), 11, "kmeans_by_label", KERNEL, np.random.default_rng(0))
    assert len(one_class) == 11


def test_kmeans_centres_are_means_of_their_cells():
    """A fixed point of Lloyd's algorithm: every centre is the mean of the instances nearest to it."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(loc=c, scale=0.1, size=(40, 2)) for c in ((0, 0), (5, 0), (0, 5))])
    Z = choose_inducing(X, np.zeros(120, dtype=bool), 3, "kmeans", KERNEL, np.random.default_rng(0))
    nearest = np.argmin(((X[:, None] - Z[None]) ** 2).sum(-1), axis=1)
    for k in range(3):
        np.testing.assert_allclose(Z[k], X[nearest == k].mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(2.0, 1.0), RBF(0.5, (0.5, 2.0, 1.0)), Matern32(1.0, 0.7)])
def test_greedy_equals_the_dense_conditional_variance(kernel):
    X, _ = data(60)
    Z = greedy_variance(X, 8, kernel)
    K = kernel.gram(X, X)
    chosen: list[int] = []
    for i in range(8):
        if chosen:
            inner = np.linalg.inv(K[np.ix_(chosen, chosen)])
            variance = np.diag(K) - np.einsum("ni,ij,nj->n", K[:, chosen], inner, K[:, chosen])
        else:
            variance = np.diag(K).copy()
        index = int(np.flatnonzero((X == Z[i]).all(axis=1))[0])
        assert variance[index] >= variance.max() - 1e-9
        chosen.append(index)
    assert len(set(chosen)) == 8


def test_greedy_stops_when_nothing_is_left_to_explain():
    X, _ = data(50)
    assert len(greedy_variance(X, 20, Linear(1.0))) == 3  # rank D
    assert len(greedy_variance(np.zeros((10, 2)), 5, KERNEL)) == 1
