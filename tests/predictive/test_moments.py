"""Moments of instance and bag probabilities against adaptive quadrature, Monte Carlo and log-space integrals."""

import numpy as np
import pytest
from scipy.integrate import quad

from problems import normal_grid, offsets_of
from psimil.predictive.aggregates import AGGREGATES, Largest, NoisyOr
from psimil.predictive.moments import InstanceMoments, instance_moments, sampled_moments
from psimil.predictive.prediction import Prediction

MEANS = [-9.0, -3.0, -0.5, 0.0, 1.0, 4.0, 12.0]
VARIANCES = [0.0, 1e-6, 0.3, 1.0, 4.0, 5.9, 6.1, 25.0, 400.0]


def sigma(f):
    return 1 / (1 + np.exp(-np.clip(f, -700, 700)))


def integral(g, mean, variance):
    if variance == 0:
        return g(mean)
    s = np.sqrt(variance)
    points = [x for x in (-mean / s, 0.0) if abs(x) < 12]
    return quad(
        lambda x: g(mean + s * x) * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
        -12,
        12,
        points=points,
        limit=400,
        epsabs=1e-13,
    )[0]


def log_mean_sigma(mean, variance):
    """log E sigma(f) by a sum in log space over 45 standard deviations."""
    x = np.linspace(-45, 45, 200_001)
    log_w = -0.5 * x**2
    log_w -= np.logaddexp.reduce(log_w)
    return np.logaddexp.reduce(log_w - np.logaddexp(0, -(mean + np.sqrt(variance) * x)))


def predict(mean, variance, sizes, level=0.9, aggregate="noisy_or"):
    mean, variance, offsets = np.asarray(mean, float), np.asarray(variance, float), offsets_of(sizes)
    instances = instance_moments(mean, variance)
    bags = AGGREGATES[aggregate].moments(instances, offsets)
    return Prediction(np.arange(len(sizes)), offsets, None, mean, variance, instances, bags, aggregate, level=level)


@pytest.mark.parametrize("variance", VARIANCES)
def test_instances_equal_adaptive_quadrature(variance):
    moments = instance_moments(np.array(MEANS), np.full(len(MEANS), variance))
    assert moments.prob.shape == moments.std.shape == (len(MEANS),)
    p = np.array([integral(sigma, m, variance) for m in MEANS])
    q = np.array([integral(lambda f: sigma(-f), m, variance) for m in MEANS])
    second = np.array(
        [integral(lambda f, c=c: (sigma(f) - c) ** 2, m, variance) for m, c in zip(MEANS, p, strict=True)]
    )
    np.testing.assert_allclose(moments.prob, p, atol=3e-6)
    np.testing.assert_allclose(np.exp(moments.log_q), q, atol=3e-6)
    np.testing.assert_allclose(moments.variance, second, atol=1e-5)
    np.testing.assert_allclose(moments.log_odds, np.log(p) - np.log(q), atol=1e-2 if variance > 100 else 2e-5)
    assert ((moments.variance >= 0) & (moments.variance <= 0.25 + 1e-12)).all()


def test_log_odds_in_the_tails_of_ordinary_latents():
    for mean in (-30.0, -300.0, -1e4):
        moments = instance_moments(np.array([mean, -mean]), np.array([1.0, 1.0]))
        expected = log_mean_sigma(mean, 1.0)
        np.testing.assert_allclose(moments.log_odds, [expected, -expected], rtol=1e-9)


@pytest.mark.parametrize(
    ("mean", "variance"), [(-200.0, 100.0), (-600.0, 1e4), (-900.0, 1e4), (-2000.0, 1e4), (-1e4, 1e6), (-3000.0, 1e4)]
)
def test_tails_of_wide_latents(mean, variance):
    """Runaway fits have latents like these; a mean of -20 standard deviations is no certain positive."""
    moments = instance_moments(np.array([mean, -mean]), np.array([variance, variance]))
    expected = log_mean_sigma(mean, variance)
    np.testing.assert_allclose(moments.log_odds, [expected, -expected], rtol=0.02)
    np.testing.assert_allclose(moments.prob, [np.exp(expected), 1.0], atol=1e-9)


@pytest.mark.parametrize("variance", [0.0, 1.0, 5.0, 50.0])
def test_log_odds_rise_with_the_mean_and_stay_finite(variance):
    mean = np.concatenate([-np.logspace(4, -2, 300), np.logspace(-2, 4, 300)])
    moments = instance_moments(mean, np.full(600, variance))
    assert np.isfinite(moments.log_odds).all()
    assert (np.diff(moments.log_odds) >= 0).all()
    bags = NoisyOr().moments(moments, np.arange(0, 601, 3))
    assert np.isfinite(bags.log_odds).all()
    assert np.isfinite(bags.std).all()


def test_noisy_or_equals_monte_carlo():
    """I12: mean and variance of 1 - prod(1 - s_n) under independent f_n, within six standard errors."""
    rng = np.random.default_rng(0)
    sizes, samples = (1, 2, 5, 20), 100_000
    mean, variance = rng.normal(-2, 1.5, size=28), rng.uniform(0.05, 3.0, size=28)
    bags = NoisyOr().moments(instance_moments(mean, variance), offsets_of(sizes))
    assert bags.prob.shape == bags.std.shape == (4,)
    f = mean[:, None] + np.sqrt(variance)[:, None] * rng.standard_normal((28, samples))
    for b, (start, stop) in enumerate(zip(offsets_of(sizes)[:-1], offsets_of(sizes)[1:], strict=True)):
        p = 1 - np.prod(1 - sigma(f[start:stop]), axis=0)
        assert bags.prob[b] == pytest.approx(p.mean(), abs=6 * p.std() / np.sqrt(samples))
        fourth = np.mean((p - p.mean()) ** 4)
        error = np.sqrt((fourth - p.var() ** 2) / samples)
        assert bags.std[b] ** 2 == pytest.approx(p.var(), abs=6 * error)
        assert bags.log_odds[b] == pytest.approx(np.log(bags.prob[b]) - np.log1p(-bags.prob[b]), rel=1e-9)


def test_a_thousand_tiny_probabilities_add_up():
    """N5."""
    log_p = np.full(1000, np.log(1e-18))
    values = {"log_p": log_p, "log_q": np.zeros(1000), "variance": np.full(1000, 1e-36)}
    fields = {f: values.get(f, np.full(1000, 1e-18)) for f in InstanceMoments.__dataclass_fields__}
    bag = NoisyOr().moments(InstanceMoments(**fields), np.array([0, 1000]))
    assert bag.prob[0] == pytest.approx(1e-15, rel=1e-12)
    assert bag.log_odds[0] == pytest.approx(np.log(1e-15), rel=1e-12)
    mean = np.full(1000, np.log(1e-18))
    assert predict(mean, np.zeros(1000), [1000]).prob[0] == pytest.approx(1e-15, rel=1e-9)


def test_a_bag_of_one_has_the_probability_of_its_instance():
    mean = np.linspace(-600, 40, 641)
    moments = instance_moments(mean, np.ones(641))
    bags = NoisyOr().moments(moments, np.arange(642))
    np.testing.assert_allclose(bags.prob, moments.prob, rtol=1e-9)
    np.testing.assert_allclose(bags.std, moments.std, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(bags.log_odds, moments.log_odds, rtol=1e-9)


def test_bag_is_at_least_its_largest_instance_and_grows_with_every_instance():
    """I13, down to probabilities that rounding of 1 - p would destroy."""
    rng = np.random.default_rng(1)
    for scale in (1.0, 10.0, 30.0):
        mean, variance = scale * rng.normal(size=30), rng.uniform(0, 4, size=30)
        moments = instance_moments(mean, variance)
        order = np.concatenate([np.arange(n) for n in range(1, 31)])
        take = {f: getattr(moments, f)[order] for f in InstanceMoments.__dataclass_fields__}
        bags = NoisyOr().moments(InstanceMoments(**take), offsets_of(range(1, 31)))
        assert (np.diff(bags.log_odds) >= 0).all()
        top = np.maximum.accumulate(moments.prob)
        assert (bags.prob >= top * (1 - 1e-9)).all()
        assert ((bags.prob >= 0) & (bags.prob <= 1)).all()
        assert (bags.std <= 0.5).all()


def test_sampling_agrees_with_quadrature_within_its_error():
    mean, variance, samples = np.array(MEANS), np.full(len(MEANS), 2.0), 20_000
    exact = instance_moments(mean, variance)
    sampled = sampled_moments(mean, variance, np.random.default_rng(0), samples)
    assert (np.abs(sampled.prob - exact.prob) <= 6 * exact.std / np.sqrt(samples) + 1e-12).all()
    np.testing.assert_allclose(sampled.std, exact.std, rtol=0.15)
    again = sampled_moments(mean, variance, np.random.default_rng(0), samples)
    assert np.array_equal(again.prob, sampled.prob)


def test_largest_takes_the_most_probable_instance():
    mean, variance = np.array([0.5, 0.6, -1.0, -0.5]), np.array([0.0, 30.0, 0.0, 0.0])
    moments = instance_moments(mean, variance)
    assert moments.prob[0] > moments.prob[1]  # the larger mean is more uncertain
    bags = Largest().moments(moments, np.array([0, 2, 4]))
    np.testing.assert_array_equal(bags.prob, moments.prob[[0, 3]])
    np.testing.assert_array_equal(bags.log_odds, moments.log_odds[[0, 3]])
    np.testing.assert_array_equal(bags.std, moments.std[[0, 3]])
    found = predict(mean, variance, [2, 2], aggregate="max")
    np.testing.assert_array_equal(found.prob, moments.prob[[0, 3]])
    np.testing.assert_allclose(found.lower, found.instance_lower[[0, 3]])
    np.testing.assert_allclose(found.upper, found.instance_upper[[0, 3]])


def test_instance_interval_is_the_quantile():
    found = predict(MEANS, np.full(7, 2.0), [7], level=0.9)
    z = 1.6448536269514722
    np.testing.assert_allclose(found.instance_lower, sigma(np.array(MEANS) - z * np.sqrt(2)), rtol=1e-10)
    np.testing.assert_allclose(found.instance_upper, sigma(np.array(MEANS) + z * np.sqrt(2)), rtol=1e-10)


@pytest.mark.parametrize("variance", [0.0, 0.01, 1.0, 5.0, 25.0, 100.0])
def test_interval_of_a_bag_of_one_is_that_of_its_instance(variance):
    mean = np.array([-8.0, -5.0, -2.0, 0.0, 1.0, 3.0, 6.0])
    found = predict(mean, np.full(7, variance), [1] * 7)
    np.testing.assert_allclose(found.lower, found.instance_lower, atol=2e-3)
    np.testing.assert_allclose(found.upper, found.instance_upper, atol=2e-3)


@pytest.mark.parametrize("variance", [0.0, 1.0, 5.0, 100.0])
def test_interval_of_extreme_latents(variance):
    mean = np.array([-1e4, -600.0, -400.0, 400.0, 600.0, 1e4])
    found = predict(mean, np.full(6, variance), [1, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(found.lower, [0, 0, 0, 1, 1, 1], atol=1e-100)
    np.testing.assert_allclose(found.upper, [0, 0, 0, 1, 1, 1], atol=1e-100)


BAGS = {
    "thirty unlikely": (np.full(30, -5.0), np.full(30, 2.25)),
    "one": (np.array([1.0]), np.array([1.0])),
    "one of two": (np.array([2.0, -3.0]), np.array([4.0, 4.0])),
    "mixed": (np.linspace(-6, 1, 12), np.full(12, 1.0)),
    "certain": (np.array([6.0, 5.0, 4.0]), np.full(3, 1.0)),
}


@pytest.mark.parametrize("key", BAGS)
def test_coverage_of_the_bag_interval(key):
    """Nominal 90 %: between 85 and 95 % by Monte Carlo, which itself errs by 0.3 %."""
    mean, variance = BAGS[key]
    found = predict(mean, variance, [len(mean)], level=0.9)
    rng = np.random.default_rng(3)
    f = mean[:, None] + np.sqrt(variance)[:, None] * rng.standard_normal((len(mean), 100_000))
    log_survival = -np.logaddexp(0, f).sum(axis=0)
    p = -np.expm1(log_survival)
    assert 0.85 <= np.mean((p >= found.lower[0]) & (p <= found.upper[0])) <= 0.95
    assert 0 <= found.lower[0] <= found.prob[0] <= found.upper[0] <= 1


def test_refer_where_the_interval_crosses_the_threshold():
    found = predict([-6.0, 0.1, 6.0], [0.01, 1.0, 0.01], [1, 1, 1])
    assert found.refer.tolist() == [False, True, False]
    assert found.label.tolist() == [0, 1, 1]
    wider = predict([-6.0, 0.1, 6.0], [0.01, 1.0, 0.01], [1, 1, 1], level=0.99)
    assert wider.lower[1] < found.lower[1] < found.upper[1] < wider.upper[1]


def test_grid_oracle_is_exact():
    x, w = normal_grid()
    assert w @ x**4 == pytest.approx(3.0, abs=1e-12)
