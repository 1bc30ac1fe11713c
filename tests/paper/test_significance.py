"""The corrected resampled t-test, and referral curves, against numbers worked out by other means."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from psimil.foundations.errors import InputError
from psimil.paper.experiments.summary import compare, corrected_t_test
from psimil.results.referral_curve import area_under_referral, referral_curve


def test_an_example_by_hand():
    # differences 1, 2, 3: mean 2, variance 1; J = 3, n_test / n_train = 2/3: t = 2 / sqrt(1/3 + 2/3) = 2.
    # Student's distribution with 2 degrees of freedom: P(|T| > t) = 1 - t / sqrt(2 + t^2), 97.5 % point 4.302653.
    test = corrected_t_test([1.0, 2.0, 3.0], train_fraction=0.6)
    assert (test.mean, test.sd, test.n_splits) == (2.0, 1.0, 3)
    assert test.t == pytest.approx(2.0)
    assert test.p == pytest.approx(1 - 2 / np.sqrt(6))
    assert test.interval == pytest.approx((2 - 4.302652730, 2 + 4.302652730))


@pytest.mark.parametrize("seed", range(5))
def test_without_a_test_set_it_is_the_plain_test(seed):
    a, b = np.random.default_rng(seed).normal(size=(2, 9))
    a += 0.5
    plain = stats.ttest_rel(a, b)
    test = compare(a, b, n_train=1e12, n_test=1)
    assert (test.t, test.p) == pytest.approx((plain.statistic, plain.pvalue), rel=1e-6)
    assert test.interval == pytest.approx(tuple(plain.confidence_interval(0.95)), rel=1e-6)
    assert corrected_t_test(a - b, 1.0).p == pytest.approx(plain.pvalue, rel=1e-9)


def test_it_is_antisymmetric_and_larger_test_sets_weaken_it():
    a, b = [0.9, 0.8, 0.85, 0.95], [0.8, 0.75, 0.85, 0.8]
    forth, back = compare(a, b, 80, 20), compare(b, a, 80, 20)
    assert (forth.mean, forth.t, forth.p) == pytest.approx((-back.mean, -back.t, back.p))
    assert forth.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    assert compare(a, b, 50, 50).p > forth.p > compare(a, b, 99, 1).p
    assert compare(a, b, [79, 80, 80, 81], [21, 20, 20, 19]) == forth


def test_equal_scores_and_missing_ones():
    scores = np.array([0.9, 0.8, 0.7])
    same = compare(scores, scores, 80, 20)
    assert (same.mean, same.sd, same.t, same.p, same.interval) == (0.0, 0.0, 0.0, 1.0, (0.0, 0.0))
    assert compare([0.1 + 0.2] * 3, [0.3] * 3, 80, 20).p == 1.0  # differ by rounding only
    always = corrected_t_test([0.25, 0.25, 0.25], 0.8)
    assert (always.t, always.p, always.interval) == (np.inf, 0.0, (0.25, 0.25))
    assert corrected_t_test([-0.25, -0.25], 0.8).t == -np.inf
    some = compare([0.9, np.nan, 0.8, 0.7], [0.8, 0.8, 0.75, 0.7], 80, 20)
    assert some == compare([0.9, 0.8, 0.7], [0.8, 0.75, 0.7], 80, 20) and some.n_splits == 3
    single = corrected_t_test([0.1], 0.8)
    assert single.mean == 0.1 and np.isnan([single.sd, single.t, single.p, *single.interval]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: corrected_t_test([[0.1, 0.2]], 0.8), "shape"),
        (lambda: corrected_t_test([0.1, 0.2], 0.0), "train_fraction"),
        (lambda: corrected_t_test([0.1, 0.2], 80), "train_fraction"),
        (lambda: corrected_t_test([np.nan, np.nan], 0.8), "no split"),
        (lambda: compare([0.1, 0.2], [0.1], 80, 20), "same splits"),
        (lambda: compare([0.1, 0.2], [0.1, 0.3], 80, 0), "positive"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(InputError, match=message):
        call()


RUNS = 300
NEAR = 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)


@pytest.mark.parametrize(("n", "splits", "shift", "at_most", "plain_above"), [
    (100, 10, 1.0, NEAR, 0.15),
    (100, 5, 1.0, NEAR, 0.05),
    (60, 15, 0.5, 0.15, 0.3),  # few bags and weak models: the correction is too small, and still most of what is needed
])  # fmt: skip
def test_false_positives(n, splits, shift, at_most, plain_above):
    """Two equally good models over random splits: a threshold halfway between the class means, on feature 1 or 2."""
    rng = np.random.default_rng(0)
    n_test = n // 5
    found = np.zeros(2)
    for _ in range(RUNS):
        y = rng.permutation(np.arange(n) % 2)
        X = rng.normal(size=(n, 2)) + shift * y[:, None]
        scores = []
        for _ in range(splits):
            order = rng.permutation(n)
            test, train = order[:n_test], order[n_test:]
            means = np.array([X[train][y[train] == k].mean(axis=0) for k in (0, 1)])
            called = (X[test] > means.mean(axis=0)) == (means[1] > means[0])
            scores.append((called == y[test][:, None]).mean(axis=0))
        a, b = np.array(scores).T
        found += compare(a, b, n - n_test, n_test).p < 0.05, corrected_t_test(a - b, 1.0).p < 0.05
    corrected, plain = found / RUNS
    assert corrected <= at_most
    assert plain > plain_above  # what the correction is there for


# Referral


def test_referral_by_hand():
    curve = referral_curve([1, 0, 1, 0], [0.9, 0.8, 0.4, 0.1], [0.1, 0.3, 0.4, 0.2])
    assert curve["n_kept"].tolist() == [1, 2, 3, 4]
    assert curve["fraction_kept"].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve["error"].tolist() == pytest.approx([0, 0, 1 / 3, 1 / 2])
    assert curve["accuracy"].tolist() == pytest.approx([1, 1, 2 / 3, 1 / 2])
    assert area_under_referral([1, 0, 1, 0], [0.9, 0.8, 0.4, 0.1], [0.1, 0.3, 0.4, 0.2]) == pytest.approx(5 / 24)


def test_ties_are_the_mean_over_all_orders():
    y, prob, uncertainty = np.array([1, 1, 0, 0, 1]), np.array([0.9, 0.2, 0.6, 0.1, 0.3]), np.array([0, 1, 1, 1, 2])
    wrong = (prob >= 0.5) != y
    orders = [[0, *middle, 4] for middle in permutations([1, 2, 3])]
    expected = np.mean([np.cumsum(wrong[order]) / np.arange(1, 6) for order in orders], axis=0)
    for order in list(permutations(range(5)))[::11]:
        at = list(order)
        curve = referral_curve(y[at], prob[at], uncertainty[at])
        assert curve["error"].tolist() == pytest.approx(expected.tolist())
    assert area_under_referral(y, prob, np.zeros(5)) == pytest.approx(wrong.mean())


def test_fractions_threshold_and_order():
    rng = np.random.default_rng(0)
    y, prob = rng.integers(0, 2, 10), rng.random(10)
    full = referral_curve(y, prob, prob * (1 - prob), threshold=0.3)
    some = referral_curve(y, prob, prob * (1 - prob), threshold=0.3, fractions=[0.01, 0.31, 0.7, 1.0])
    assert some["n_kept"].tolist() == [1, 4, 7, 10]
    assert some["error"].tolist() == full["error"].iloc[[0, 3, 6, 9]].tolist()
    assert referral_curve(np.zeros(100), np.zeros(100), np.zeros(100), fractions=[0.07])["n_kept"].tolist() == [7]
    assert full["error"].iloc[-1] == pytest.approx(((prob >= 0.3) != y).mean())
    wrong = ((prob >= 0.3) != y).astype(float)
    best, worst = (area_under_referral(y, prob, sign * wrong, 0.3) for sign in (1, -1))
    assert best < area_under_referral(y, prob, np.zeros(10), 0.3) < worst


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 2], [0.1, 0.2], [0, 0]), "0 or 1"),
        (([0, 1], [0.1, 1.2], [0, 0]), "between 0 and 1"),
        (([0, 1], [0.1, 0.2], [0]), "uncertainties of shape"),
        (([0, 1], [0.1, 0.2], [0, np.nan]), "missing"),
        (([0, 1], [0.1, 0.2], [0, 0], 0.5, [0.0, 1.0]), "fractions"),
        (([0, 1], [0.1, 0.2], [0, 0], 0.5, 0.5), "fractions"),
    ],
)
def test_bad_referrals(arguments, message):
    with pytest.raises(InputError, match=message):
        referral_curve(*arguments)
