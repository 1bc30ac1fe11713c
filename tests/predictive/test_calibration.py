"""Calibration of latent log-odds: likelihood by brute force, gradient by differences, recovery of known distortions."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from problems import central_difference, normal_grid, offsets_of
from psimil.predictive.calibration import PRIOR, LatentBags, bag_log_likelihoods, calibration_helps, fit_calibration
from psimil.predictive.moments import IDENTITY, Calibration


def sigma(f):
    return 1 / (1 + np.exp(-f))


def bags_of(seed=0, count=25, aggregate="noisy_or", spread=1.0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=count)
    N = sizes.sum()
    return LatentBags(
        spread * rng.normal(-1, 1, size=N), rng.uniform(0, 2, size=N), offsets_of(sizes),
        rng.integers(0, 2, size=count), rng.choice([0.5, 1.0, 2.0], size=count), aggregate,
    )  # fmt: skip


def log_likelihood(bags, parameters):
    """Its sum over bags with their weights, and the gradient (3,)."""
    values, slopes = bag_log_likelihoods(bags, parameters)
    return float(bags.weights @ values), slopes @ bags.weights


def brute_force(bags, parameters):
    x, w = normal_grid()
    f = (
        np.exp(parameters[0]) * bags.mean[:, None]
        + parameters[1]
        + np.exp(parameters[2]) * np.sqrt(bags.variance)[:, None] * x
    )
    p = sigma(f) @ w
    total = 0.0
    for b, (start, stop) in enumerate(pairwise(bags.offsets)):
        prob = p[start:stop].max() if bags.aggregate == "max" else 1 - np.prod(1 - p[start:stop])
        total += bags.weights[b] * np.log(prob if bags.T[b] else 1 - prob)
    return total


PARAMETERS = [np.zeros(3), np.array([0.4, -0.7, 0.2]), np.array([-1.0, 1.5, -0.8])]


@pytest.mark.parametrize("aggregate", ["noisy_or", "max"])
@pytest.mark.parametrize("parameters", PARAMETERS, ids=["identity", "wide", "narrow"])
def test_likelihood_and_gradient(aggregate, parameters):
    bags = bags_of(aggregate=aggregate)
    value, gradient = log_likelihood(bags, parameters)
    assert gradient.shape == (3,)
    assert value == pytest.approx(brute_force(bags, parameters), rel=1e-6)
    expected = central_difference(lambda p: brute_force(bags, p), parameters)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)  # twenty nodes against two thousand
    own = central_difference(lambda p: log_likelihood(bags, p)[0], parameters)
    np.testing.assert_allclose(gradient, own, rtol=1e-6, atol=1e-7)


def test_likelihood_of_extreme_latents_is_finite():
    bags = LatentBags(np.array([-1e4, 1e4, -1e4, 1e4]), np.ones(4), np.arange(5), np.array([0, 0, 1, 1]), np.ones(4))
    value, gradient = log_likelihood(bags, np.zeros(3))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    found = fit_calibration(bags)
    assert np.isfinite([found.scale, found.shift, found.spread]).all()


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (4.0, -2.0), (0.3, 1.0)])
def test_recovers_a_known_distortion(scale, shift):
    """Labels drawn from noisy-or of scale f + shift: the fit comes back within its sampling error (2000 bags)."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 4, size=2000)
    offsets = offsets_of(sizes)
    f = rng.normal(-0.5, 2.0, size=offsets[-1]) / scale - shift / scale
    survival = np.add.reduceat(-np.logaddexp(0, scale * f + shift), offsets[:-1])
    T = (rng.random(2000) < -np.expm1(survival)).astype(int)
    bags = LatentBags(f, np.zeros(len(f)), offsets, T, np.ones(2000))
    found = fit_calibration(bags)
    assert found.scale == pytest.approx(scale, rel=0.12)
    assert found.shift == pytest.approx(shift, abs=0.35)
    assert found.spread == pytest.approx(1.0)  # no variance, so only the prior speaks


def test_fit_is_the_penalised_maximum():
    bags = bags_of(3, count=200)
    found = fit_calibration(bags)

    def objective(p):
        return brute_force(bags, p) - 0.5 * np.sum((p / PRIOR) ** 2)

    top = objective(found.parameters)
    rng = np.random.default_rng(0)
    for size in 10.0 ** rng.uniform(-2, 0, size=25):
        assert objective(found.parameters + size * rng.normal(size=3)) <= top + 1e-3
    assert found.scale > 0


def test_weight_two_is_the_bag_twice():
    bags = bags_of(4, count=30)
    weights = np.ones(30)
    weights[3] = 2.0
    rows = np.arange(bags.offsets[3], bags.offsets[4])
    double = LatentBags(
        np.append(bags.mean, bags.mean[rows]), np.append(bags.variance, bags.variance[rows]),
        np.append(bags.offsets, bags.offsets[-1] + len(rows)), np.append(bags.T, bags.T[3]), np.ones(31),
    )  # fmt: skip
    weighted = LatentBags(bags.mean, bags.variance, bags.offsets, bags.T, weights)
    p = np.array([0.3, -0.2, 0.1])
    assert log_likelihood(weighted, p)[0] == pytest.approx(log_likelihood(double, p)[0], rel=1e-12)


def test_helps_where_the_scale_is_wrong_and_not_where_it_is_right():
    rng = np.random.default_rng(6)
    f = rng.normal(0, 2.0, size=3000)
    T = (rng.random(3000) < sigma(f)).astype(int)
    compressed = LatentBags(0.1 * f, np.zeros(3000), np.arange(3001), T, np.ones(3000))
    assert calibration_helps(compressed)
    gains = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        f = rng.normal(0, 2.0, size=200)
        T = (rng.random(200) < sigma(f)).astype(int)
        gains.append(calibration_helps(LatentBags(f, np.zeros(200), np.arange(201), T, np.ones(200))))
    assert sum(gains) < 10  # right already: not always taken


def test_halves_of_weighted_bags_have_their_weight_together_and_half_of_each_class():
    bags = bags_of(7, count=21)
    halves = [bags.half(False), bags.half(True)]
    for label in (0, 1):
        weights = [h.weight_of(label) for h in halves]
        assert sum(weights) == pytest.approx(bags.weight_of(label))
        assert abs(weights[0] - weights[1]) <= 1


def test_halves_split_each_class_and_cover_every_bag_once():
    bags = replace(bags_of(7, count=21), weights=np.ones(21))
    halves = [bags.half(False), bags.half(True)]
    assert sum(len(h.T) for h in halves) == 21
    for label in (0, 1):
        counts = [int((h.T == label).sum()) for h in halves]
        assert abs(counts[0] - counts[1]) <= 1
    means = np.sort(np.concatenate([h.mean for h in halves]))
    np.testing.assert_array_equal(means, np.sort(bags.mean))
    for h in halves:
        assert h.offsets[-1] == len(h.mean) == len(h.variance)
        first = h.mean[h.offsets[0] : h.offsets[1]]
        assert any(np.array_equal(first, bags.mean[a:b]) for a, b in pairwise(bags.offsets))


def test_apply_transforms_mean_and_spread_separately():
    mean, variance = Calibration(2.0, -1.0, 3.0).apply(np.array([1.5]), np.array([4.0]))
    assert (mean[0], variance[0]) == (2.0, 36.0)
    np.testing.assert_allclose(Calibration(2.0, -1.0, 3.0).parameters, [np.log(2), -1.0, np.log(3)])
    assert IDENTITY.apply(np.array([1.5]), np.array([4.0])) == (np.array([1.5]), np.array([4.0]))
