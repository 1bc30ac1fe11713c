"""Recalibration by shares that are known: what the low half of the scores says about negatives."""

import numpy as np
import pytest

from psimil.predictive.thresholds import fit_recalibration


def shares(*groups):
    """Scores 0, 1, ... and flags of groups (instances, of these in negative bags)."""
    scores = np.concatenate([np.full(n, float(k)) for k, (n, _) in enumerate(groups)])
    return scores, np.concatenate([np.arange(n) < negative for n, negative in groups])


def test_the_low_half_of_the_scores_says_how_many_negatives_lie_in_negative_bags():
    found = fit_recalibration(*shares((200, 160), (100, 40)))
    np.testing.assert_allclose(found.apply(np.array([0.0, 1.0])), [0.0, 0.5], atol=1e-12)


def test_between_two_scores_the_probability_is_interpolated():
    found = fit_recalibration(*shares((200, 160), (50, 20), (50, 0)))
    np.testing.assert_allclose(found.apply(np.array([-5.0, 0.5, 1.5, 9.0])), [0.0, 0.25, 0.75, 1.0], atol=1e-12)


def test_scores_of_equal_shares_have_one_probability():
    found = fit_recalibration(*shares((100, 80), (100, 80), (50, 20), (50, 20)))
    np.testing.assert_allclose(found.apply(np.array([0.5, 1.0, 1.5, 2.0, 2.5])), [0, 0, 0.25, 0.5, 0.5], atol=1e-12)
    assert found.log_odds.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_map_of_many_steps_keeps_its_ends():
    n = 1000
    found = fit_recalibration(*shares(*[(n, n - k) for k in range(n // 2)]))
    assert len(found.log_odds) <= 200
    assert (found.log_odds[0], found.log_odds[-1]) == (0.0, n // 2 - 1)
    assert (np.diff(found.prob) >= 0).all()


@pytest.mark.parametrize("share", [0, 10])
def test_one_class_of_bags_teaches_nothing(share):
    assert fit_recalibration(*shares((10, share), (5, share // 2))) is None
