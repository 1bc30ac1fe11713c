"""What unseen bags teach a model: when its latents are calibrated, and at which threshold it calls a bag positive."""

from functools import cache

import numpy as np
import pytest

from psimil import HyperbolicSecant
from psimil.inference.options import Options
from psimil.predictive.calibration import IDENTITY, LatentBags, calibration_helps
from psimil.predictive.thresholds import taught
from tiny import problem, quick


@cache
def model():
    bags, y, _ = problem()
    return quick(tol=1.0, calibrate=False).fit(bags, y).model_


def unseen(scale, count=400, seed=6):
    """Bags of one instance whose latent means are those behind the labels, times ``scale``."""
    rng = np.random.default_rng(seed)
    f = rng.normal(0, 2.0, size=count)
    T = (rng.random(count) < 1 / (1 + np.exp(-f))).astype(int)
    return LatentBags(scale * f, np.zeros(count), np.arange(count + 1), T, np.ones(count))


def learned(bags, **choices):
    return taught(model(), bags, Options(HyperbolicSecant(), aggregate="noisy_or", **choices))


RIGHT = next(bags for bags in (unseen(1.0, 100, seed) for seed in range(20)) if not calibration_helps(bags))


def test_calibration_is_as_asked():
    assert learned(RIGHT, calibrate=False).calibration == IDENTITY
    assert learned(unseen(0.1), calibrate=False).calibration == IDENTITY
    assert learned(RIGHT, calibrate=True).calibration != IDENTITY


def test_automatic_calibration_is_taken_only_where_it_helps():
    assert learned(RIGHT, calibrate="auto").calibration == IDENTITY
    assert learned(unseen(0.1), calibrate="auto").calibration.scale > 3


@pytest.mark.parametrize("calibrate", [True, "auto"])
def test_bags_of_one_label_teach_no_calibration(calibrate):
    bags = unseen(0.1)
    for label in (0, 1):
        alone = LatentBags(bags.mean, bags.variance, bags.offsets, np.full(len(bags.T), label), bags.weights)
        assert learned(alone, calibrate=calibrate).calibration == IDENTITY


def test_a_given_threshold_is_kept():
    assert learned(unseen(1.0), threshold=0.3).threshold == 0.3
    assert learned(unseen(1.0), false_positive_rate=None).instance_threshold == 0.5
