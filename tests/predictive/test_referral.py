"""Which bags go to a human reader: targets reached, all margins tried, bad rules refused."""

import numpy as np
import pytest

from psimil.foundations.errors import InputError
from psimil.predictive.referral import Referral
from psimil.predictive.thresholds import choose_referral, read_referral
from tiny import fitted, problem, quick


def bags(seed, n=60, digits=None):
    """Log-odds that are right as often as they say, labels, weights and a threshold."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(0.0, 2.0, n) if digits is None else rng.normal(0.0, 2.0, n).round(digits)
    T = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return log_odds, T, rng.integers(1, 4, n).astype(float), float(rng.uniform(0.2, 0.8))


def cost(margin, log_odds, T, weights, threshold):
    """Share that is referred, and share of wrong calls among those that are kept, of a margin."""
    centre = np.log(threshold / (1 - threshold))
    kept = np.abs(log_odds - centre) > margin
    wrong = (log_odds >= centre) != (T == 1)
    total = weights[kept].sum()
    return 1 - total / weights.sum(), (weights[kept & wrong].sum() / total if kept.any() else 0.0)


def all_margins(log_odds, threshold):
    """One margin for every set of bags that a margin can refer."""
    distance = np.unique(np.abs(log_odds - np.log(threshold / (1 - threshold))))
    return [distance[0] / 2, *(distance[1:] + distance[:-1]) / 2, distance[-1] + 1]


@pytest.mark.parametrize("digits", [None, 0])  # with many bags at the same distance, too
@pytest.mark.parametrize("rule", ["workload=0.05", "workload=0.3", "workload=0.99", "error=0.02", "error=0.1"])
def test_it_is_the_smallest_margin_that_reaches_the_target(rule, digits):
    kind, target = read_referral(rule)
    for seed in range(20):
        log_odds, T, weights, threshold = bags(seed, digits=digits)
        threshold = 0.5 if digits == 0 and seed % 2 else threshold
        found = choose_referral(rule, log_odds, T, threshold, weights)
        share, kept_error = cost(found.margin, log_odds, T, weights, threshold)
        assert [found.share, found.kept_error] == pytest.approx([share, kept_error], abs=1e-9)
        assert found.error == pytest.approx(cost(-1.0, log_odds, T, weights, threshold)[1], abs=1e-12)
        costs = [cost(margin, log_odds, T, weights, threshold) for margin in [-1.0, *all_margins(log_odds, threshold)]]
        good = [s for s, e in costs if (s >= target - 1e-9 if kind == "workload" else e <= target + 1e-9)]
        assert share == pytest.approx(min(good), abs=1e-9)
        assert share >= target - 1e-9 if kind == "workload" else kept_error <= target + 1e-9


def test_a_target_that_is_reached_without_referral_costs_nothing():
    log_odds, T = np.array([-3.0, 2.0, 4.0]), np.array([0, 1, 1])
    assert choose_referral("error=0.1", log_odds, T, 0.5, np.ones(3)) == Referral(0.0, 0.0, 0.0, 0.0)


def test_a_hopeless_target_refers_every_bag():
    log_odds, T = np.array([-3.0, 2.0, 4.0]), np.array([1, 0, 0])
    found = choose_referral("error=0.1", log_odds, T, 0.5, np.ones(3))
    assert (np.abs(log_odds) <= found.margin).all()
    assert (found.share, found.kept_error, found.error) == (1.0, 0.0, 1.0)


def test_weight_two_is_the_bag_twice():
    log_odds, T, weights, threshold = bags(5)
    times = weights.astype(int)
    for rule in ("workload=0.2", "error=0.1"):
        one = choose_referral(rule, log_odds, T, threshold, weights)
        many = choose_referral(rule, log_odds.repeat(times), T.repeat(times), threshold, np.ones(times.sum()))
        assert [one.margin, one.share, one.kept_error] == pytest.approx([many.margin, many.share, many.kept_error])


BAD = ["", "intervals", "workload", "workload=", "workload=0", "workload=1", "error=-0.1", "error=nan", "error=inf"]
BAD += ["share=0.1", "error=0.1=0.2", "interval=0.1", "error=ten", "Error=0.1", None, 0.1, ("error", 0.1)]


@pytest.mark.parametrize("rule", BAD)
def test_other_rules_are_refused(rule):
    with pytest.raises(InputError, match="referral must be"):
        read_referral(rule)
    with pytest.raises(InputError, match="referral must be"):
        quick(referral=rule).fit(*problem()[:2])


def test_the_rule_of_the_interval_has_no_margin():
    assert choose_referral("interval", np.zeros(2), np.array([0, 1]), 0.5, np.ones(2)) is None
    some, y, _ = problem()
    model = quick(referral="interval").fit(some, y)
    found = model.predict_dist(some)
    assert found.margin is None
    assert (found.uncertain == ((found.lower < found.threshold) & (found.upper > found.threshold))).all()


def test_predictions_refer_bags_within_the_margin_and_novel_ones():
    some, _, _ = problem()
    found = fitted().predict_dist(some)
    assert found.margin == fitted().model_.referral.margin
    centre = np.log(found.threshold / (1 - found.threshold))
    near = np.abs(found.log_odds - centre) <= found.margin
    assert (found.uncertain == near).all()
    assert (found.refer == (near | (found.novelty > 0.5))).all()
    assert fitted().model_.referral.share >= 0.1
