"""The calibration is the maximum of likelihood and priors, whatever the weight of the bags."""

import numpy as np
import pytest

from psimil.predictive.calibration import PRIOR, LatentBags, bag_log_likelihoods, fit_calibration


def latent(seed, count=60, weight=1.0, size=3, scale=0.3, shift=-1.0):
    """Bags of some instances whose latent means are compressed and shifted."""
    rng = np.random.default_rng(seed)
    f = rng.normal(-1.0, 2.0, size=(count, size))
    T = (rng.random(count) < 1 - np.prod(1 / (1 + np.exp(f)), axis=1)).astype(int)
    offsets = np.arange(0, count * size + 1, size)
    return LatentBags(scale * f.ravel() + shift, np.full(f.size, 0.2), offsets, T, np.full(count, weight))


@pytest.mark.parametrize("weight", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_to_climb_at_the_calibration(seed, weight):
    bags = latent(seed, weight=weight)
    x = fit_calibration(bags).parameters
    _, slopes = bag_log_likelihoods(bags, x)
    left = (slopes @ bags.weights - x / PRIOR**2) / bags.weights.sum()
    np.testing.assert_allclose(left, 0.0, atol=1e-3)


def test_twice_the_weight_is_every_bag_twice():
    once = latent(5, weight=2.0)
    twice = LatentBags(
        np.tile(once.mean, 2),
        np.tile(once.variance, 2),
        np.arange(0, 2 * len(once.mean) + 1, 3),
        np.tile(once.T, 2),
        np.ones(2 * len(once.T)),
    )
    np.testing.assert_allclose(fit_calibration(once).parameters, fit_calibration(twice).parameters, atol=1e-4)


def test_halves_share_the_bags_of_either_label():
    bags = latent(7)
    even, odd = bags.half(False), bags.half(True)
    assert len(even.T) + len(odd.T) == len(bags.T)
    for half in (even, odd):
        assert abs(half.T.sum() - bags.T.sum() / 2) <= 1
        np.testing.assert_array_equal(np.diff(half.offsets), 3)
    together = np.sort(np.concatenate([even.mean, odd.mean]))
    np.testing.assert_array_equal(together, np.sort(bags.mean))
    top = np.maximum.reduceat(bags.mean, bags.offsets[:-1])
    lowest = bags.mean.reshape(-1, 3)[np.argmin(np.where(bags.T == 1, top, np.inf))]
    assert (even.mean.reshape(-1, 3) == lowest).all(axis=1).any()  # the lowest of a label is in the even half
