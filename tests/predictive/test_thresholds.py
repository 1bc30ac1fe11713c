"""Thresholds against exhaustive search, recalibration against a simulation with known labels."""

import numpy as np
import pytest

from psimil.predictive.thresholds import bag_threshold, fit_recalibration, instance_threshold


def sigma(f):
    return 1 / (1 + np.exp(-f))


@pytest.mark.parametrize("seed", range(30))
def test_bag_threshold_against_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    T = rng.integers(0, 2, size=60)
    odds = 2.0 * (2 * T - 1) + rng.normal(size=60) * rng.choice([0.5, 2.0]) + rng.choice([-4.0, 0.0, 3.0])
    found = bag_threshold(odds, T)

    def correct(threshold):
        return int(((odds >= threshold).astype(int) == T).sum())

    candidates = np.concatenate([[-np.inf], np.sort(odds) + 1e-9])
    best, at_half = max(correct(c) for c in candidates), correct(0.0)
    if found == 0.5:  # no threshold gains more than the root of the decisions that it changes
        for c in candidates:
            changed = int(((odds >= c) != (odds >= 0)).sum())
            assert correct(c) < best or best - at_half <= np.sqrt(changed)
            if correct(c) == best:
                break
    else:
        assert correct(np.log(found) - np.log1p(-found)) == best > at_half


def test_clear_shift_moves_the_threshold_and_a_good_half_stays():
    T = np.repeat([0, 1], 50)
    odds = np.concatenate([np.linspace(-8, -4, 50), np.linspace(-3, 1, 50)])
    assert bag_threshold(odds, T) == pytest.approx(sigma(-3.5), abs=1e-12)
    assert bag_threshold(odds + 3.5, T) == 0.5


def test_bag_threshold_with_ties_and_one_class():
    assert bag_threshold(np.zeros(10), np.repeat([0, 1], 5)) == 0.5
    assert 0 <= bag_threshold(np.full(4, 3.0), np.zeros(4, dtype=int)) <= 1


@pytest.mark.parametrize("shift", [-2000.0, 60.0, 2000.0])
def test_thresholds_of_saturated_scores_are_still_probabilities(shift):
    """A runaway density gives log-odds like these; log(threshold) and log(1 - threshold) must stay finite."""
    T = np.repeat([0, 1], 50)
    odds = shift + np.concatenate([np.linspace(-8, -4, 50), np.linspace(4, 8, 50)])
    assert 0 < bag_threshold(odds, T) < 1
    assert 0 < instance_threshold(odds, T == 0, 0.02) < 1


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_instance_threshold_lets_through_the_chosen_rate(rate):
    rng = np.random.default_rng(0)
    odds = rng.normal(size=5000)
    negative = rng.random(5000) < 0.6
    threshold = instance_threshold(odds, negative, rate)
    passed = np.mean(sigma(odds[negative]) >= threshold)
    assert passed == pytest.approx(rate, abs=1.5 / negative.sum())
    assert instance_threshold(odds, np.zeros(5000, dtype=bool), rate) == 0.5


def test_recalibration_recovers_the_share_of_positives():
    """Half of the bags negative; in positive bags 30 % of instances score higher. Known posterior by Bayes."""
    rng = np.random.default_rng(1)
    n = 40_000
    negative = rng.random(n) < 0.5
    positive = ~negative & (rng.random(n) < 0.3)
    score = rng.normal(size=n) + 3.0 * positive
    found = fit_recalibration(score, negative)
    grid = np.linspace(-2, 5, 50)

    def density(x):
        return np.exp(-0.5 * x**2)

    share = 0.15
    exact = share * density(grid - 3) / (share * density(grid - 3) + (1 - share) * density(grid))
    assert np.abs(found.apply(grid) - exact).mean() < 0.05
    assert (np.diff(found.apply(np.linspace(-9, 9, 400))) >= 0).all()
    assert ((found.prob >= 0) & (found.prob <= 1)).all()
    assert len(found.log_odds) == len(found.prob) <= 200
    assert (np.diff(found.log_odds) >= 0).all()


def test_recalibration_needs_both_kinds_of_bags():
    assert fit_recalibration(np.arange(5.0), np.ones(5, dtype=bool)) is None
    assert fit_recalibration(np.arange(5.0), np.zeros(5, dtype=bool)) is None


def test_instance_threshold_of_a_rate_near_one_lies_among_the_lowest():
    """Between the first two of four values, a fifth of the way up, for the first is at place 0."""
    found = instance_threshold(np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4, bool), 1 - 0.2 / 3)
    assert found == pytest.approx(sigma(0.2), abs=1e-9)
