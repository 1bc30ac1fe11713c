import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from drawn import FULL
from psimil.foundations.errors import InputError
from psimil.results.metrics import auc_within, bag_metrics, expected_calibration_error, instance_metrics

NAMES = {"accuracy", "f1", "auc", "log_loss", "brier", "ece"}
cases = st.lists(st.tuples(st.integers(0, 1), st.floats(-8, 8)), min_size=2, max_size=30)


def auc_by_pairs(y, score):
    """Share of (positive, negative) pairs in the right order, ties half."""
    pairs = itertools.product(score[y == 1], score[y == 0])
    return np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])


def ece_by_loop(y, prob, bins):
    total = 0.0
    for k in range(bins):
        last = k == bins - 1
        inside = [i for i, p in enumerate(prob) if k <= p * bins and (p * bins < k + 1 or last)]
        if inside:
            total += len(inside) / len(y) * abs(np.mean(y[inside]) - np.mean(prob[inside]))
    return total


@given(cases)
@settings(max_examples=200 if FULL else 50, deadline=None)
def test_every_score_against_its_definition(rows):
    y, logit = (np.array(column) for column in zip(*rows, strict=True))
    prob = 1 / (1 + np.exp(-logit))
    scores = bag_metrics(y, prob, log_odds=logit)
    assert set(scores) == NAMES
    called = prob >= 0.5
    hits, misses, alarms = (called & (y == 1)).sum(), (~called & (y == 1)).sum(), (called & (y == 0)).sum()
    assert scores["accuracy"] == pytest.approx(np.mean(called == y))
    assert scores["f1"] == pytest.approx(2 * hits / (2 * hits + misses + alarms) if hits else 0)
    assert scores["log_loss"] == pytest.approx(-np.mean(np.log(np.where(y == 1, prob, 1 - prob))), rel=1e-9)
    assert scores["brier"] == pytest.approx(np.mean((prob - y) ** 2))
    assert scores["ece"] == pytest.approx(ece_by_loop(y, prob, 10))
    if 0 < y.sum() < len(y):
        assert scores["auc"] == pytest.approx(auc_by_pairs(y, logit))
        assert scores["brier"] == pytest.approx(brier_score_loss(y, prob))
    else:
        assert math.isnan(scores["auc"])


def test_log_odds_keep_what_saturated_probabilities_lose():
    y = np.array([0, 1, 1, 0])
    log_odds = np.array([50.0, 60.0, 800.0, -900.0])
    prob = np.array([1.0, 1.0, 1.0, 0.0])
    scores = bag_metrics(y, prob, log_odds=log_odds)
    assert scores["log_loss"] == pytest.approx(50.0 / 4)
    assert scores["auc"] == 1.0
    assert bag_metrics(y, prob)["auc"] == 0.75


def test_log_loss_without_log_odds_is_clipped_and_finite():
    scores = bag_metrics([0, 1], [1.0, 1.0])
    assert scores["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps) / 2, rel=1e-3)


def test_float32_probabilities_are_scored_in_float64():
    prob = np.array([0.25, 0.75], np.float32)
    assert bag_metrics([0, 1], prob)["log_loss"] == pytest.approx(-np.log(0.75), rel=1e-12)


def test_threshold_is_inclusive():
    assert bag_metrics([1, 0], [0.3, 0.29], threshold=0.3)["accuracy"] == 1.0


@pytest.mark.parametrize("label", [0, 1])
def test_one_class(label):
    scores = bag_metrics([label] * 3, [0.2, 0.3, 0.9])
    assert math.isnan(scores["auc"])
    assert all(np.isfinite(value) for name, value in scores.items() if name != "auc")


def test_instance_metrics_ignore_unknown_labels():
    y = np.array([0, -1, 1, 1, -1])
    prob = np.array([0.2, 0.99, 0.7, 0.4, 0.01])
    known = y >= 0
    assert instance_metrics(y, prob) == bag_metrics(y[known], prob[known])
    log_odds = np.log(prob / (1 - prob))
    expected = bag_metrics(y[known], prob[known], 0.3, log_odds[known])
    assert instance_metrics(y, prob, 0.3, log_odds) == expected


def test_instance_metrics_with_nothing_known():
    scores = instance_metrics([-1, -1], [0.1, 0.2])
    assert set(scores) == NAMES
    assert all(math.isnan(value) for value in scores.values())


@pytest.mark.parametrize("bins", [1, 2, 7, 10, 100])
def test_calibration_error_against_a_loop(bins):
    rng = np.random.default_rng(bins)
    prob = np.concatenate([rng.random(200), [0.0, 1.0, 0.5]])
    y = (rng.random(203) < prob).astype(int)
    assert expected_calibration_error(y, prob, bins) == pytest.approx(ece_by_loop(y, prob, bins))


def test_calibration_error_extremes():
    assert expected_calibration_error([0, 1], [0.0, 1.0]) == 0
    assert expected_calibration_error([0, 1], [1.0, 0.0]) == 1


@pytest.mark.parametrize(
    ("y", "prob", "message"),
    [
        ([], [], "expected .n,. with n >= 1"),
        ([[0, 1]], [[0.1, 0.2]], "labels have shape"),
        ([0, 2], [0.1, 0.2], "label 1 is 2; labels must be 0 or 1"),
        ([0, np.nan], [0.1, 0.2], "label 1 is nan"),
        (["yes", "no"], [0.1, 0.2], "label 0 is 'yes'; labels must be the numbers 0 or 1"),
        ([0, 1], [0.1], "2 labels but probabilities of shape"),
        ([0, 1], [0.1, 1.2], "probability 1 is 1.2; probabilities must be between 0 and 1"),
        ([0, 1], [0.1, np.nan], "probabilities have 1 missing values"),
    ],
)
def test_bad_input_is_named(y, prob, message):
    with pytest.raises(InputError, match=message):
        bag_metrics(y, prob)


def test_bad_bins_and_log_odds():
    with pytest.raises(InputError, match="bins must be a whole number >= 1, got 0"):
        expected_calibration_error([0, 1], [0.1, 0.2], bins=0)
    with pytest.raises(InputError, match="2 labels but log-odds of shape"):
        bag_metrics([0, 1], [0.1, 0.2], log_odds=[1.0])


def test_auc_within_folds_counts_pairs_of_one_fold():
    rng = np.random.default_rng(0)
    y, score, fold = rng.integers(0, 2, size=60), rng.integers(0, 9, size=60).astype(float), rng.integers(0, 7, size=60)
    won = pairs = 0.0
    for i, j in itertools.product(range(60), repeat=2):
        if fold[i] == fold[j] and y[i] == 1 and y[j] == 0:
            pairs += 1
            won += 0.5 * (score[i] == score[j]) + (score[i] > score[j])
    area, lower, upper = auc_within(y, score, fold)
    assert area == pytest.approx(won / pairs, rel=1e-12)
    assert 0 <= lower < area < upper <= 1
    found = bag_metrics(y, np.full(60, 0.5), log_odds=score, fold=fold)
    assert (found["auc"], found["auc_lower"], found["auc_upper"]) == (area, lower, upper)


def test_the_interval_of_one_fold_is_that_of_hanley_and_mcneil_widened():
    y, score = np.repeat([0, 1], 20), np.concatenate([np.arange(20.0), np.arange(20.0) + 4.2])
    area, lower, upper = auc_within(y, score, np.zeros(40))
    assert area == pytest.approx(roc_auc_score(y, score))
    a = (20 * area + 1) / 22
    q1, q2 = a / (2 - a), 2 * a**2 / (1 + a)
    se = np.sqrt((a * (1 - a) + 19 * (q1 - a**2) + 19 * (q2 - a**2)) / 400)
    assert upper - lower == pytest.approx(2 * 1.96 * np.sqrt(2) * se, rel=1e-9)


def test_auc_within_folds_of_one_label_is_undefined():
    assert np.isnan(auc_within([0, 1], [0.1, 0.9], np.array([0, 1]))).all()


@pytest.mark.parametrize(("bags", "lowest"), [(2, 0.0), (24, 0.6), (400, 0.95)])
def test_an_area_of_one_is_the_less_certain_the_fewer_bags_there_are(bags, lowest):
    y, fold = np.arange(bags) % 2, np.arange(bags) // 2 % 10
    area, lower, upper = auc_within(y, y.astype(float), fold)
    assert (area, upper) == (1.0, 1.0) and lowest <= lower < 1.0
