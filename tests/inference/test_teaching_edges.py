"""The least that unseen bags must show to teach a model, and models that were taught nothing."""

import numpy as np
import pytest

from problems import make, random_posterior
from psimil import Bags, HyperbolicSecant
from psimil.foundations.errors import NumericalFailure
from psimil.inference.history import Convergence
from psimil.inference.options import Options
from psimil.model.scaling import Scaling
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.calibration import IDENTITY, LatentBags
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction
from psimil.predictive.thresholds import bag_threshold, taught
from psimil.predictive.trained import TrainedModel


def untaught():
    _, gp = make()
    return TrainedModel(Scaling.identity(2), gp, random_posterior(gp.size))


@pytest.mark.parametrize("positive", [0, 1, 9, 10])
def test_one_bag_of_the_other_label_is_enough_for_a_calibration_that_is_asked_for(positive):
    T = (np.arange(10) < positive).astype(int)
    bags = LatentBags(np.linspace(1.0, -3.0, 10), np.full(10, 0.1), np.arange(11), T, np.ones(10))
    found = taught(untaught(), bags, Options(HyperbolicSecant(), calibrate=True, aggregate="noisy_or"))
    assert (found.calibration != IDENTITY) == (0 < positive < 10)


def test_a_model_that_was_taught_nothing_decides_at_one_half():
    model = untaught()
    assert (model.threshold, model.instance_threshold, model.calibration) == (0.5, 0.5, IDENTITY)


def test_a_prediction_without_thresholds_decides_at_one_half():
    mean, variance = np.array([-0.1, 0.1, 5.0]), np.zeros(3)
    instances, offsets = instance_moments(mean, variance), np.arange(4)
    bags = AGGREGATES["max"].moments(instances, offsets)
    found = Prediction(np.arange(3), offsets, None, mean, variance, instances, bags, "max")
    assert found.label.tolist() == found.instance_label.tolist() == [0, 1, 1]
    assert (found.threshold, found.instance_threshold, found.level) == (0.5, 0.5, 0.95)


@pytest.mark.parametrize(
    ("mean", "variance"), [(1e149, 1.0), (-1e150, 1.0), (0.0, 1e299), (np.nan, 1.0), (0.0, np.inf)]
)
def test_latent_values_that_overflow_are_an_error(mean, variance):
    bags, model = Bags.from_list([np.zeros((2, 2))]), untaught()
    model.assemble(bags, (np.array([1e148, 0.0]), np.array([1.0, 1e297])))
    with pytest.raises(NumericalFailure, match="latent values overflow"):
        model.assemble(bags, (np.array([0.0, mean]), np.array([1.0, variance])))


@pytest.mark.parametrize("label", [0, 1])
def test_bags_of_one_label_are_all_called_by_it(label):
    log_odds = np.array([2.0, 5.0, 9.0, 3.0, 4.0]) * (1 - 2 * label)
    threshold = bag_threshold(log_odds, np.full(5, label))
    assert np.log(threshold / (1 - threshold)) == pytest.approx(-10.0 if label else 10.0)


@pytest.mark.parametrize(("rise", "settled"), [(0.9, True), (1.0, True), (1.1, False), (-0.9, True), (-1.1, False)])
def test_a_bound_has_settled_by_its_rise_per_bag(rise, settled):
    class Record:
        unfinished, change = False, None

        def __init__(self, total):
            self.bound = type("Bound", (), {"total": total})

    convergence = Convergence(0.25, 4)
    assert not convergence(Record(8.0))
    assert convergence(Record(8.0 + rise)) == settled
