"""Predictions from draws: moments and quantiles by hand, in both tails."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from psimil.predictive.aggregates import joined
from psimil.predictive.drawn import from_draws

OFFSETS = np.array([0, 1, 4, 6])
F = np.random.default_rng(0).normal([-1.0, 0.0, 2.0, -3.0, 1.0, -0.5], 1.5, size=(333, 6))
BAGS = [slice(a, b) for a, b in pairwise(OFFSETS)]


def by_hand(aggregate):
    """(S, B) probability of each bag in each draw."""
    s = 1 / (1 + np.exp(-F))
    if aggregate == "max":
        return np.stack([s[:, bag].max(axis=1) for bag in BAGS], axis=1)
    return np.stack([1 - np.prod(1 - s[:, bag], axis=1) for bag in BAGS], axis=1)


@pytest.mark.parametrize("aggregate", ["noisy_or", "max"])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_moments_and_quantiles_are_those_of_the_draws(aggregate, level):
    found, s, prob = from_draws(F, OFFSETS, aggregate, level), 1 / (1 + np.exp(-F)), by_hand(aggregate)
    ends = (0.5 - level / 2, 0.5 + level / 2)
    wanted = {
        "latent mean": (found.mean, F.mean(axis=0)),
        "latent variance": (found.variance, F.var(axis=0)),
        "instance prob": (found.instances.prob, s.mean(axis=0)),
        "instance std": (found.instances.std, s.std(axis=0)),
        "instance log-odds": (found.instances.log_odds, np.log(s.mean(axis=0) / (1 - s).mean(axis=0))),
        "prob": (found.bags.prob, prob.mean(axis=0)),
        "std": (found.bags.std, prob.std(axis=0)),
        "log-odds": (found.bags.log_odds, np.log(prob.mean(axis=0) / (1 - prob).mean(axis=0))),
        "ends": (np.stack(found.bounds[:2]), np.quantile(prob, ends, axis=0)),
        # quantiles between two draws are taken of f, where sigma is not a straight line
        "instance ends": (np.stack(found.bounds[2:]), expit(np.quantile(F, ends, axis=0))),
    }
    for name, (a, b) in wanted.items():
        np.testing.assert_allclose(a, b, rtol=1e-11, err_msg=name)


def test_a_bag_of_one_is_its_instance():
    for aggregate in ("noisy_or", "max"):
        found = from_draws(F, OFFSETS, aggregate, 0.9)
        pairs = [
            (found.bags.prob[0], found.instances.prob[0]),
            (found.bags.std[0], found.instances.std[0]),
            (found.bags.log_odds[0], found.instances.log_odds[0]),
        ]
        assert [a for a, _ in pairs] == pytest.approx([b for _, b in pairs], rel=1e-12)
    # a level whose ends are draws themselves: 5 % of 332 steps is no draw, 25 % of them is
    found = from_draws(F, OFFSETS, "noisy_or", 0.5)
    assert [found.bounds.lower[0], found.bounds.upper[0]] == pytest.approx(
        [found.bounds.instance_lower[0], found.bounds.instance_upper[0]], rel=1e-12
    )


@pytest.mark.parametrize("aggregate", ["noisy_or", "max"])
@pytest.mark.parametrize("level", [-1e6, -750.0, -40.0, 40.0, 750.0, 1e6])
def test_extreme_latent_values_give_numbers(aggregate, level):
    found = from_draws(level + F, OFFSETS, aggregate, 0.95)
    arrays = [found.mean, found.variance, found.instances.log_p, found.instances.log_q, found.instances.variance]
    arrays += [found.bags.prob, found.bags.std, *found.bounds]
    assert not any(np.isnan(values).any() for values in [*arrays, found.bags.log_odds])
    assert all(((values >= 0) & (values <= 1)).all() for values in [found.bags.prob, *found.bounds])
    assert (found.instances.log_p <= 0).all()
    assert (found.instances.log_q <= 0).all()
    assert (found.bounds.lower <= found.bounds.upper).all()
    assert (np.sign(found.bags.log_odds) == np.sign(level)).all()


def test_small_probabilities_keep_their_digits():
    found = from_draws(F - 300, OFFSETS, "noisy_or", 0.95)
    wanted = [np.log(np.exp(F[:, bag]).sum(axis=1).mean()) - 300 for bag in BAGS]
    np.testing.assert_allclose(found.bags.log_odds, wanted, rtol=1e-13)


def test_skew_draws_have_skew_intervals():
    f = np.log(np.random.default_rng(1).gamma(0.3, size=(4001, 1)))
    found = from_draws(f, np.array([0, 1]), "noisy_or", 0.8)
    lower, upper = found.bounds.lower[0], found.bounds.upper[0]
    assert (expit(f) < lower).mean() == pytest.approx(0.1, abs=1 / 4001)
    assert (expit(f) > upper).mean() == pytest.approx(0.1, abs=1 / 4001)
    prob = found.bags.prob[0]
    assert upper - prob > 1.2 * (prob - lower)


def test_some_bags_at_a_time_are_all_bags():
    whole = from_draws(F, OFFSETS, "noisy_or", 0.9)
    parts = [from_draws(F[:, bag], np.array([0, bag.stop - bag.start]), "noisy_or", 0.9) for bag in BAGS]
    found = joined(parts)
    pairs = [(whole.mean, found.mean), (whole.variance, found.variance)]
    pairs += [(getattr(whole.instances, n), getattr(found.instances, n)) for n in ("log_p", "log_q", "variance")]
    pairs += [(getattr(whole.bags, n), getattr(found.bags, n)) for n in ("prob", "std", "log_odds")]
    for a, b in [*pairs, *zip(whole.bounds, found.bounds, strict=True)]:
        np.testing.assert_allclose(a, b, rtol=1e-13)
