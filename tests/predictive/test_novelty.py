"""Novelty: a slow search for the distance, ordinary bags and garbage, and the way back to the prior."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from psimil import Bags
from psimil.datasets import make_bags
from psimil.predictive.novelty import (
    EXCEEDED,
    Novelty,
    nearest_squares,
    reverted,
    upper_limit,
)
from tiny import problem, quick


def first_of(X, M):
    """Halves place the first of their own instances."""
    return lambda chosen: (X[chosen][:M], X)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("M", [1, 3, 12])
def test_the_distance_is_that_of_a_slow_search(seed, M):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, 150 if seed == 0 else 8))])
    X, bag = rng.standard_normal((offsets[-1], 2)), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    half = rng.permutation(len(offsets) - 1) % 2 == 0
    highest = []
    for b in range(len(half)):
        points = X[half[bag] != half[b]][:M]
        highest.append(max(min(np.sum((x - z) ** 2) for z in points) for x in X[bag == b]))
    found = Novelty.learn(offsets, half, first_of(X, M)).square
    assert found == pytest.approx(upper_limit(np.array(highest), EXCEEDED), rel=1e-9)


def test_a_single_half_is_measured_from_its_own_points():
    X, offsets = np.array([[0.0], [3.0], [4.0]]), np.array([0, 2, 3])
    for half in (True, False):
        found = Novelty.learn(offsets, np.full(2, half), first_of(X, 1)).square
        assert found == upper_limit(np.array([9.0, 16.0]), EXCEEDED)


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


@pytest.mark.parametrize("D", [3, pytest.param(12, marks=pytest.mark.slow)])
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

        def placed(chosen, X=X):
            return KMeans(min(chosen.sum() // 2, 60), n_init=1, random_state=0).fit(X[chosen]).cluster_centers_, X

        Z, _ = placed(np.ones(len(X), dtype=bool))
        novelty = Novelty.learn(offsets, np.arange(B) % 2 == 0, placed)
        found = novelty.of_squares(nearest_squares(new, Z))
        shares.append((np.maximum.reduceat(found, starts[:-1]) > 0.5).mean())
        far = rng.standard_normal((100, D))
        far *= 6 * np.sqrt(D) / np.linalg.norm(far, axis=1, keepdims=True)
        away.append((novelty.of_squares(nearest_squares(far, Z)) > 0.5).mean())
    assert np.mean(shares) <= 0.03
    assert np.mean(away) >= 0.95


def rarely_active(rng, n):
    """Bags whose features are 0 but for one instance in fifty, as counts of rare things are."""
    X = rng.standard_normal((n, 4, 30)) * (rng.random((n, 4, 30)) < 0.02)
    X[:, :, 0] = rng.standard_normal((n, 4))
    return Bags.from_list(list(X)), np.arange(n) % 2


@pytest.mark.filterwarnings("ignore::psimil.foundations.errors.DataWarning")
def test_a_bag_does_not_shrink_its_own_distance_by_the_scale():
    """A value that one training bag alone has makes its feature's scale; 9 % of Elephant's new bags were novel."""
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        (bags, y), (new, _) = rarely_active(rng, 40), rarely_active(rng, 400)
        model = quick(posterior="variational", n_inducing=20).fit(bags, y)
        shares.append((model.predict_dist(new).novelty > 0.5).mean())
    assert np.mean(shares) <= 0.03


def test_bags_without_weight_do_not_make_others_ordinary():
    bags, y, _ = problem()
    X = np.concatenate([bags.X, bags.X[: bags.offsets[1]] + 1e3])
    more = Bags(X, np.append(bags.offsets, len(X)))
    weights = np.append(np.ones(len(bags)), 0.0)
    model = quick(posterior="variational").fit(more, np.append(y, 0), sample_weight=weights)
    assert model.predict_dist(more).novelty[-1] > 0.99


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


def test_nearest_squares_in_many_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((57, 4)), rng.standard_normal((9, 4))
    monkeypatch.setattr("psimil.predictive.novelty.chunk_rows", lambda columns: 10)
    wanted = np.square(X[:, None] - Z).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(nearest_squares(X, Z), wanted, rtol=1e-10)


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


@pytest.mark.parametrize("D", [1, 4, 37])
def test_a_point_at_an_inducing_point_is_there_whatever_is_asked_with_it(D):
    """Rounding depends on how many rows a product has; where training bags all lie at inducing points, d0 is tiny."""
    novelty = Novelty(float(np.finfo(float).tiny))
    for seed in range(40):
        Z = 3.0 * np.random.default_rng(seed).standard_normal((7, D))
        X = np.repeat(Z, 5, axis=0)
        assert not novelty.of(X, Z).any() and not any(novelty.of(x[None], Z).any() for x in X)
        assert (novelty.of(X + 0.01, Z) == 1.0).all()
