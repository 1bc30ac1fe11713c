"""Novelty: a slow search for the distance, ordinary bags and garbage, and the way back to the prior."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from psimil import Bags
from psimil.datasets import make_bags
from psimil.predictive.novelty import (
    EXCEEDED,
    Novelty,
    nearest_points,
    reverted,
    squares_without_own_bag,
    upper_limit,
)
from tiny import problem, quick


def slowly(Z, X, offsets):
    """The largest squared distance of each bag, instance by instance, as if the bag had not placed points."""
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    squares = np.array([[np.sum((x - z) ** 2) for z in Z] for x in X])
    nearest, highest = squares.argmin(axis=1), []
    for b in range(len(offsets) - 1):
        found = []
        for i in np.flatnonzero(bag == b):
            seen = []
            for m in range(len(Z)):
                n, k = int((nearest == m).sum()), int(((nearest == m) & (bag == b)).sum())
                if m == nearest[i] and k < n:
                    seen.append(squares[i, m] * (n / (n - k)) ** 2)
                elif m != nearest[i] and not 0 < k == n:
                    seen.append(squares[i, m])
            found.append(min(seen, default=squares[i].min()))
        highest.append(max(found))
    return np.array(highest)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("M", [1, 3, 12])
def test_the_distance_is_that_of_a_slow_search(seed, M):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, 150 if seed == 0 else 8))])
    X = rng.standard_normal((offsets[-1], 2))
    Z = X[rng.choice(len(X), M, replace=False)]
    found = np.maximum.reduceat(squares_without_own_bag(Z, X, offsets), offsets[:-1])
    np.testing.assert_allclose(found, slowly(Z, X, offsets), rtol=1e-9, atol=1e-12)
    assert Novelty.learn(Z, X, offsets).square == upper_limit(found, EXCEEDED)


@pytest.mark.parametrize("B", [1, 2, 3, 7, 20, 60, 98, 99, 100, 150])
def test_the_limit_is_exceeded_as_often_as_it_says(B):
    """Up to 98 values it is exact for exponential ones; then an order statistic is, for every density."""
    rng = np.random.default_rng(B)
    limits = np.array([upper_limit(rng.exponential(3.0, B), 0.01) for _ in range(4000)])
    share = np.exp(-limits / 3.0)
    expected = 0.01 if B < 99 else (B + 1 - np.ceil((B + 1) * 0.99)) / (B + 1)
    assert share.mean() == pytest.approx(expected, abs=5 * share.std() / np.sqrt(4000))


def test_the_limit_of_many_values_is_an_order_statistic():
    assert upper_limit(np.arange(1000.0)[::-1], 0.01) == 990.0  # the 991st of 1000
    assert upper_limit(np.zeros(5), 0.01) == 0.0


@pytest.mark.parametrize("D", [3, 12])
@pytest.mark.parametrize("B", [6, 24, 60, 150])
def test_about_one_ordinary_new_bag_in_a_hundred_is_novel(B, D):
    """Mean over training sets; before, 14 % of new bags were novel at 6 training bags and 6 % at 24."""
    shares, away = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)

        def drawn(n, rng=rng):
            sizes = rng.integers(2, 9, n)
            return rng.standard_normal((sizes.sum(), D)), np.concatenate([[0], np.cumsum(sizes)])

        (X, offsets), (new, starts) = drawn(B), drawn(400)
        Z = KMeans(min(len(X) // 2, 60), n_init=1, random_state=0).fit(X).cluster_centers_
        novelty = Novelty.learn(Z, X, offsets)
        found = novelty.of_squares(nearest_points(new, Z)[1])
        shares.append((np.maximum.reduceat(found, starts[:-1]) > 0.5).mean())
        far = rng.standard_normal((100, D))
        far *= 6 * np.sqrt(D) / np.linalg.norm(far, axis=1, keepdims=True)
        away.append((novelty.of_squares(nearest_points(far, Z)[1]) > 0.5).mean())
    assert np.mean(shares) <= 0.03
    assert np.mean(away) >= 0.95


def test_the_order_of_bags_and_instances_does_not_matter():
    rng = np.random.default_rng(3)
    some = [rng.standard_normal((n, 3)) for n in rng.integers(1, 7, 30)]
    Z = np.concatenate(some)[::9]

    def learned(bags):
        return Novelty.learn(Z, np.concatenate(bags), np.cumsum([0, *map(len, bags)])).square

    shuffled = [some[b][rng.permutation(len(some[b]))] for b in rng.permutation(30)]
    assert learned(shuffled) == pytest.approx(learned(some), rel=1e-12)


def test_permuted_bags_have_permuted_predictions():
    bags, y, _ = problem()
    model, order = quick(posterior="variational").fit(bags, y), np.random.default_rng(0).permutation(len(bags))
    found, permuted = model.predict_dist(bags), model.predict_dist(bags[order])
    np.testing.assert_allclose(permuted.novelty, found.novelty[order], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(permuted.prob, found.prob[order], rtol=1e-12)


def test_ordinary_bags_are_familiar_and_noise_is_not():
    how = {"bag_size": (2, 6), "n_features": 3, "separation": 3.0}
    bags, y, _ = make_bags(n_bags=120, seed=1, **how)
    model = quick(posterior="variational").fit(bags, y)
    assert (model.predict_dist(bags).novelty > 0.5).mean() <= 0.03
    new = model.predict_dist(make_bags(n_bags=300, seed=2, **how)[0])
    assert (new.novelty > 0.5).mean() <= 0.06  # five standard deviations of a count of 300 above 0.01 are 0.04
    assert (new.instance_novelty > 0.5).mean() <= 0.02
    away = np.random.default_rng(0).standard_normal((50, 3))
    away *= 10 * np.sqrt(3) / np.linalg.norm(away, axis=1, keepdims=True)
    noise = Bags(bags.X.mean(axis=0) + bags.X.std(axis=0) * away, np.arange(51))
    found = model.predict_dist(noise)
    assert (found.novelty > 0.5).all()
    assert found.refer.all()


def test_novelty_is_a_half_at_the_distance_and_rises_from_zero_to_one():
    novelty = Novelty(4.0)
    d = np.linspace(0, 40, 200)
    found = novelty.of_squares(d**2)
    np.testing.assert_allclose(found, 1 - 0.5 ** (d**2 / 4), rtol=1e-12, atol=1e-15)
    assert (np.diff(found) >= 0).all()
    assert Novelty(np.finfo(float).tiny).of_squares(np.array([0.0, 1e300])).tolist() == [0.0, 1.0]


def test_far_away_there_is_the_prior_and_nearby_nothing_changes():
    prior = 4.25
    novelty, latent = np.array([0.0, 0.5, 1.0, 0.8]), (np.array([3.0, -2.0, 1.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4]))
    mean, variance = reverted(latent, (-0.7, np.full(4, prior)), novelty)
    assert (mean[:2] == latent[0][:2]).all()
    assert (variance[:2] == latent[1][:2]).all()
    assert (mean[2], variance[2]) == (-0.7, prior)
    assert mean[3] == pytest.approx(0.4 * 4.0 + 0.6 * -0.7)
    assert variance[3] == pytest.approx(0.4 * 0.4 + 0.6 * prior)


def test_a_model_goes_back_to_its_prior():
    bags, y, _ = problem()
    model = quick(posterior="variational").fit(bags, y).model_
    far = Bags(bags.X[:3] + 1e4, [0, 1, 3])
    found = model.predict(far)
    np.testing.assert_allclose(found.latent_mean, model.prior_mean, atol=1e-12)
    x = model.scaling.apply(far.X, "float64")
    np.testing.assert_allclose(found.latent_variance, model.gp.kernel.diagonal(x) + model.gp.bias**2, rtol=1e-12)
    near = model.predict(bags)
    usual = near.instance_novelty <= 0.5
    assert usual.mean() > 0.9
    assert (near.latent_mean[usual] == model.latent(bags.X)[0][usual]).all()


def test_nearest_points_in_many_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((57, 4)), rng.standard_normal((9, 4))
    monkeypatch.setattr("psimil.predictive.novelty.chunk_rows", lambda columns: 10)
    index, square = nearest_points(X, Z)
    wanted = np.square(X[:, None] - Z).sum(axis=2)
    assert (index == wanted.argmin(axis=1)).all()
    np.testing.assert_allclose(square, wanted.min(axis=1), rtol=1e-10)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_of_bags_with_an_unknown_instance_are_possible(level):
    """Of a number between 0 and 1 with mean p and mass t below a: p <= t a + 1 - t; and p >= t a with t above a."""
    bags, y, _ = problem()
    model = quick(posterior="variational", n_inducing=10).fit(bags, y)
    X = bags.X.copy()
    X[bags.offsets[:-1]] += 6.0
    found = model.predict_dist(Bags(X, bags.offsets), level=level)
    tail = 0.5 * (1.0 - level)
    assert found.novel.any()
    assert (found.prob <= tail * found.lower + 1.0 - tail + 1e-12).all()
    assert (found.prob >= tail * found.upper - 1e-12).all()
    assert ((found.lower <= found.prob) & (found.prob <= found.upper)).all()
