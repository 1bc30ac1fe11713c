"""How instances of a bag hang together: quadrature for equal instances, ratio one for independent ones, bags of one."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtri
from scipy.stats import norm

from problems import make, random_posterior
from psimil import Bags
from psimil.foundations.linalg import stretch
from psimil.model.scaling import Scaling
from psimil.predictive.aggregates import AGGREGATES, dependence_of, joined
from psimil.predictive.moments import instance_moments
from psimil.predictive.trained import TrainedModel
from tiny import fitted, problem

STRATIFIED = ndtri((np.arange(4000) + 0.5) / 4000)  # as good as exact for functions of one variable


def expected(function, mean, sd):
    """E g(f) for f ~ N(mean, sd^2)."""
    return quad(lambda z: function(mean + sd * z) * norm.pdf(z), -12, 12, epsabs=1e-13, limit=400)[0]


def small(seed=0, sizes=(1, 3, 2, 1, 9), **choices):
    """A model with a random posterior that keeps dependence, and bags for it."""
    shard, gp = make(seed, sizes)
    bags = Bags(np.asarray(shard.X), shard.labels.offsets)
    return TrainedModel(Scaling.identity(2), gp, random_posterior(gp.size, seed), joint=True, **choices), bags


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize(("mean", "sd"), [(-2.0, 1.0), (0.0, 0.3), (1.0, 2.0)])
def test_equal_instances_agree_with_quadrature(mean, sd, copies):
    f = np.repeat((mean + sd * STRATIFIED)[:, None], copies, axis=1)
    offsets, variance = np.array([0, copies]), np.full(copies, sd**2)
    found = dependence_of(f, variance, offsets)

    q, survival, square = (expected(lambda f, k=k: expit(-f) ** k, mean, sd) for k in (1, copies, 2 * copies))
    q2 = expected(lambda f: expit(-f) ** 2, mean, sd)
    std = np.sqrt(square - survival**2)
    assert found.log_ratio[0] == pytest.approx(np.log(survival) - copies * np.log(q), abs=1e-3)
    assert found.std_ratio[0] == pytest.approx(std / np.sqrt(q2**copies - q ** (2 * copies)), rel=2e-3)

    def log_odds(f):
        return np.log(np.expm1(copies * np.logaddexp(0, f)))

    centre = expected(log_odds, mean, sd)
    width = np.sqrt(expected(lambda f: (log_odds(f) - centre) ** 2, mean, sd))
    assert [found.centre[0], found.width[0]] == pytest.approx([centre, width], rel=2e-3, abs=1e-3)

    bag = AGGREGATES["noisy_or"].moments(instance_moments(np.full(copies, mean), variance), offsets, found)
    assert [bag.prob[0], bag.std[0]] == pytest.approx([1 - survival, std], rel=2e-3)


def test_independent_instances_have_ratio_one_within_the_error_of_the_draws():
    S, sizes = 40_000, (2, 4)
    mean, sd = np.array([-1.0, 0.5, -2.0, 0.0, -1.0, 1.0]), np.array([1.0, 0.5, 2.0, 1.0, 0.3, 1.0])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    f = mean + sd * np.random.default_rng(0).standard_normal((S, 6))
    found = dependence_of(f, sd**2, offsets)
    parts = joined([dependence_of(some, sd**2, offsets) for some in np.split(f, 100)])
    assert len(parts.width) == 200
    for value, of_parts in zip((found.log_ratio, found.std_ratio - 1), (parts.log_ratio, parts.std_ratio), strict=True):
        error = of_parts.reshape(100, 2).std(axis=0) / 10  # that of all draws is a tenth of that of each hundredth
        assert (np.abs(value) < 5 * error).all()
        assert (error < 0.02).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_bag_of_one_is_its_instance(seed):
    model, bags = small(seed)
    found, first = model.predict(bags), bags.offsets[:-1]
    one = np.flatnonzero(bags.sizes == 1)
    assert len(one) == 2
    assert (found.prob[one] == found.instance_prob[first[one]]).all()
    for name in ("std", "lower", "upper", "log_odds"):
        of_bag, of_instance = getattr(found, name)[one], getattr(found, f"instance_{name}")[first[one]]
        np.testing.assert_allclose(of_bag, of_instance, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("seed", range(8))
def test_a_bag_lies_between_its_most_probable_instance_and_independent_ones(seed):
    model, bags = small(seed, (1, 2, 30, 5, 300))
    found = model.predict(bags)
    most = np.maximum.reduceat(found.instance_prob, bags.offsets[:-1])
    apart = 1 - np.exp(np.add.reduceat(np.log1p(-found.instance_prob), bags.offsets[:-1]))
    assert (found.prob >= most - 1e-12).all()
    assert (found.prob <= apart + 1e-12).all()
    assert (found.prob[-1] < apart[-1]) or apart[-1] == 1  # instances of one function do hang together


def test_copies_of_an_instance_in_a_model_agree_with_quadrature():
    model, _ = small()
    bags = Bags(np.repeat([[0.3, -0.2]], 6, axis=0), [0, 6])
    mean, variance = (float(values[0]) for values in model.latent(bags.X))
    survival = expected(lambda f: expit(-f) ** 6, mean, np.sqrt(variance))
    S = 20_000
    draws = expit(-(mean + np.sqrt(variance) * np.random.default_rng(1).standard_normal(S))) ** 6
    error = 5 * draws.std() / np.sqrt(S)
    found = model.latent_bags(bags.X, bags.offsets, draws=S).dependence
    q = expected(lambda f: expit(-f), mean, np.sqrt(variance))
    assert np.exp(found.log_ratio[0] + 6 * np.log(q)) == pytest.approx(survival, abs=error)
    assert model.predict(bags).prob[0] == pytest.approx(1 - survival, abs=error * np.sqrt(S / 128))


def test_the_joint_standard_deviation_is_the_one_that_is_told():
    bags, _, _ = problem()
    found = fitted().predict_dist(bags, joint=True)
    assert (found.joint_std == found.std).all()
    centre, width = found.log_odds_moments
    z = ndtri(0.975)
    np.testing.assert_allclose(found.lower, np.minimum(expit(centre - z * width), found.prob), rtol=1e-12)
    np.testing.assert_allclose(found.upper, np.maximum(expit(centre + z * width), found.prob), rtol=1e-12)


@pytest.mark.parametrize("level", [-800.0, -40.0, 40.0, 800.0])
def test_extreme_latent_values_give_numbers(level):
    f = level + STRATIFIED[::100, None] * np.array([1.0, 3.0, 0.0])
    found = dependence_of(f, np.array([1.0, 9.0, 0.0]), np.array([0, 1, 3]))
    stds = {"log_std", "log_std_apart"}  # minus infinity where rounding leaves no spread
    assert all(np.isfinite(getattr(found, name)).all() for name in set(found._fields) - stds)
    assert not any(np.isnan(getattr(found, name)).any() for name in stds)
    assert found.log_ratio[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("copies", [1, 35, 1000, 20_000])
def test_bags_of_any_size_of_like_instances(copies):
    """All instances equal: P = 1 - (1 - sigma(f))^n for one Gaussian f, by a sum over its quantiles."""
    f = -4.0 + 3.0 * STRATIFIED
    exact = -np.expm1(-copies * np.logaddexp(0.0, f))
    offsets = np.array([0, copies])
    found = dependence_of(np.repeat(f[::16, None], copies, axis=1), np.full(copies, 9.0), offsets)
    instances = instance_moments(np.full(copies, -4.0), np.full(copies, 9.0))
    bag = AGGREGATES["noisy_or"].moments(instances, offsets, found)
    assert bag.prob[0] == pytest.approx(exact.mean(), abs=0.02)
    assert bag.std[0] == pytest.approx(exact.std(), abs=0.03)


def test_stretch_and_taken():
    rng = np.random.default_rng(0)
    own, wanted = rng.random((2, 5))
    np.testing.assert_allclose(own * stretch(own, wanted) ** 2, wanted, rtol=1e-14)
    assert stretch(np.zeros(1), np.ones(1)) == 1
    found = dependence_of(rng.standard_normal((50, 5)), np.ones(5), np.array([0, 2, 3, 5]))
    some = found.taken(np.array([2, 0]))
    assert all((a[[2, 0]] == b).all() for a, b in zip(found, some, strict=True))
