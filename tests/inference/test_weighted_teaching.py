"""Weight 2 is the bag twice and weight 0 the bag left out, in all that unseen bags teach and in partial_fit."""

from dataclasses import replace

import numpy as np
import pytest

from psimil import Bags
from psimil.estimators.parameters import options_of, resolved
from psimil.predictive.calibration import LatentBags, calibration_helps, fit_calibration
from psimil.predictive.thresholds import bag_threshold, fit_recalibration, instance_threshold, taught
from tiny import brief, fitted, problem, quick

COUNTS = np.random.default_rng(5).integers(0, 4, 60)


def unseen(counts=None, weights=None, seed=0):
    """Sixty bags of one to three instances, each as often as it counts."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 60)
    T = rng.integers(0, 2, 60)
    f = [rng.normal(2.0 * t - 1.4, 1.5, n) for t, n in zip(T, sizes, strict=True)]
    which = np.arange(60) if counts is None else np.repeat(np.arange(60), counts)
    mean = np.concatenate([f[b] for b in which])
    weights = np.ones(len(which)) if weights is None else weights.astype(float)
    return LatentBags(mean, 0.3 + 0.0 * mean, np.concatenate([[0], np.cumsum(sizes[which])]), T[which], weights)


def pairs(bags):
    """Log-odds, labels and weights of bags, and of their instances whether they are negative, and their weights."""
    top, sizes = np.maximum.reduceat(bags.mean, bags.offsets[:-1]), np.diff(bags.offsets)
    return top, bags.T, bags.weights, bags.mean, np.repeat(bags.T, sizes) == 0, np.repeat(bags.weights, sizes)


@pytest.mark.parametrize("seed", range(6))
def test_a_weight_is_a_number_of_bags(seed):
    counts = np.random.default_rng(seed).integers(0, 4, 60)
    weighed, repeated = unseen(weights=counts, seed=seed).weighing(), unseen(counts, seed=seed)
    for a, b in zip(
        (weighed.half(True), weighed.half(False)), (repeated.half(True), repeated.half(False)), strict=True
    ):
        assert a.weights.sum() == b.weights.sum() and a.weight_of(1) == b.weight_of(1)
        np.testing.assert_allclose(fit_calibration(a).parameters, fit_calibration(b).parameters, atol=1e-4)
    assert calibration_helps(weighed) == calibration_helps(repeated)
    odds, T, w, f, negative, each = pairs(weighed)
    Odds, Ts, _, fs, negatives, _ = pairs(repeated)
    assert bag_threshold(odds, T, w) == bag_threshold(Odds, Ts)
    for rate in (0.01, 0.05, 0.3, 0.5):
        again = instance_threshold(f, negative, rate, each)
        assert again == pytest.approx(instance_threshold(fs, negatives, rate), rel=1e-12)
        expected = 1 / (1 + np.exp(-np.quantile(fs[negatives], 1 - rate)))
        assert again == pytest.approx(expected, rel=1e-12)
    grid = np.linspace(-6.0, 6.0, 99)
    found = fit_recalibration(f, negative, each).apply(grid), fit_recalibration(fs, negatives).apply(grid)
    np.testing.assert_allclose(*found, atol=1e-9)
    assert not np.allclose(found[0], fit_recalibration(f, negative).apply(grid), atol=1e-9)  # weights do matter


def test_a_model_is_taught_the_same():
    options = replace(options_of(resolved(quick()), 3), calibrate="auto", false_positive_rate=0.1, threshold=None)
    weighed, repeated = (taught(fitted().model_, bags, options) for bags in (unseen(weights=COUNTS), unseen(COUNTS)))
    for name in ("threshold", "instance_threshold"):
        assert getattr(weighed, name) == pytest.approx(getattr(repeated, name), abs=1e-4)
    assert weighed.referral.cost == pytest.approx(repeated.referral.cost, abs=1e-4)
    np.testing.assert_allclose(weighed.calibration.parameters, repeated.calibration.parameters, atol=1e-3)


def test_partial_fit_takes_weights():
    bags, y, _ = problem()
    more, T, _ = problem(seed=9, n_bags=60)
    counts = np.random.default_rng(2).integers(0, 3, 60)
    chosen = np.repeat(np.arange(60), counts)
    weighed, repeated, plain = (brief(posterior="augmented", calibrate=False).fit(bags, y) for _ in range(3))
    weighed.partial_fit(more, T, sample_weight=counts)
    again = more[chosen]
    repeated.partial_fit(Bags(again.X, again.offsets), T[chosen])
    plain.partial_fit(more, T)
    np.testing.assert_allclose(weighed.q_mean_, repeated.q_mean_, atol=1e-9)
    np.testing.assert_allclose(weighed.q_cov_, repeated.q_cov_, atol=1e-9)
    assert weighed.threshold_ == pytest.approx(repeated.threshold_, abs=1e-9)
    assert weighed.online_.weight == repeated.online_.weight
    assert not np.allclose(weighed.q_mean_, plain.q_mean_, atol=1e-3)
