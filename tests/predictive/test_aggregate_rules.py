"""Rules that make a bag of its instances: draws, likelihoods and moments of one rule agree."""

from itertools import pairwise

import numpy as np
import pytest

from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.moments import instance_moments

OFFSETS = np.array([0, 1, 4, 6])
BAGS = [slice(a, b) for a, b in pairwise(OFFSETS)]
F = np.array([0.3, -1.0, 2.0, 0.5, -3.0, -2.5])


def sigmoid(f):
    return 1 / (1 + np.exp(-f))


def probability(rule, f):
    return 1 - np.prod(1 - sigmoid(f)) if rule == "noisy_or" else sigmoid(f.max())


@pytest.mark.parametrize("rule", AGGREGATES)
def test_draws_give_the_probability_of_the_bag(rule):
    draws = np.random.default_rng(0).normal(size=(3, 5))
    expected = [probability(rule, draws[:, s]) for s in range(5)]
    np.testing.assert_allclose(AGGREGATES[rule].of_draws(draws), expected, rtol=1e-12)


@pytest.mark.parametrize("rule", AGGREGATES)
def test_certain_latents_give_the_same_probability_by_moments_and_by_likelihood(rule):
    expected = np.array([probability(rule, F[bag]) for bag in BAGS])
    found = AGGREGATES[rule].moments(instance_moments(F, np.zeros(6)), OFFSETS)
    np.testing.assert_allclose(found.prob, expected, rtol=1e-12)
    np.testing.assert_allclose(found.log_odds, np.log(expected / (1 - expected)), rtol=1e-10)
    np.testing.assert_allclose(found.std, 0.0, atol=1e-7)
    log_negative, _ = AGGREGATES[rule].log_negative(sigmoid(F), sigmoid(-F), [np.ones(6)], OFFSETS)
    np.testing.assert_allclose(log_negative, np.log(1 - expected), rtol=1e-10)


@pytest.mark.parametrize("rule", AGGREGATES)
def test_slopes_of_the_likelihood_equal_differences(rule):
    changes = [np.linspace(0.1, 0.6, 6), np.linspace(-0.3, 0.2, 6)]
    p, q, h = sigmoid(F), sigmoid(-F), 1e-6
    _, slopes = AGGREGATES[rule].log_negative(p, q, changes, OFFSETS)
    for slope, d in zip(slopes, changes, strict=True):
        up, _ = AGGREGATES[rule].log_negative(p + h * d, q - h * d, changes, OFFSETS)
        down, _ = AGGREGATES[rule].log_negative(p - h * d, q + h * d, changes, OFFSETS)
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("rule", AGGREGATES)
def test_intervals_of_certain_latents_are_points_and_others_hold_them(rule):
    expected = [probability(rule, F[bag]) for bag in BAGS]
    for variance in (np.zeros(6), np.full(6, 0.5)):
        instances = instance_moments(F, variance)
        low, high = AGGREGATES[rule].interval((F, variance), instances, OFFSETS, 1.96)
        np.testing.assert_array_equal(low <= np.array(expected) + 1e-9, True)
        np.testing.assert_array_equal(high >= np.array(expected) - 1e-9, True)
        assert ((high - low) > 0.05).all() == bool(variance.any())
