"""Where there is nothing to learn, no score of a fit says that there is."""

import numpy as np
import pytest

from psimil import VGPMIL
from psimil.model.bags import Bags
from psimil.results.metrics import bag_metrics

SHAPES = [(40, 5, 5), (60, 10, 20), (100, 5, 3), (30, 20, 50), (24, 3, 2)]  # bags, instances of each, features


def noise_scores(shape, seed):
    """Out-of-bag scores of a default fit to bags and labels that have nothing to do with each other."""
    bags, instances, features = shape
    rng = np.random.default_rng(seed)
    given = Bags.from_list([rng.normal(size=(instances, features)) for _ in range(bags)])
    y = rng.permutation(np.arange(bags) % 2)
    unseen = VGPMIL(random_state=0).fit(given, y).out_of_bag_
    return bag_metrics(y, unseen.prediction.prob, 0.5, unseen.prediction.log_odds, unseen.fold)


def check(found):
    """Areas about 1/2, nearly all intervals hold it, and no loss is far from that of a coin."""
    areas = np.array([one["auc"] for one in found])
    assert abs(areas.mean() - 0.5) < 0.12
    inside = [one["auc_lower"] <= 0.5 <= one["auc_upper"] for one in found]
    assert np.mean(inside) >= 0.85
    assert np.median([one["log_loss"] for one in found]) > 0.64


def test_out_of_bag_scores_on_noise_are_those_of_chance():
    check([noise_scores(shape, seed) for shape in SHAPES[:3] for seed in range(3)])


@pytest.mark.slow
def test_out_of_bag_scores_on_fifty_sets_of_noise_are_those_of_chance():
    check([noise_scores(shape, seed) for shape in SHAPES for seed in range(100, 110)])
