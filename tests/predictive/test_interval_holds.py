"""A probability lies inside its own interval, whatever the posterior."""

import numpy as np
import pytest

from psimil import VGPMIL
from psimil.datasets import make_bags
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction


def prediction(mean, variance, offsets, aggregate="noisy_or", level=0.95):
    instances, ids = instance_moments(mean, variance), np.arange(len(offsets) - 1)
    bags = AGGREGATES[aggregate].moments(instances, offsets)
    return Prediction(ids, offsets, None, mean, variance, instances, bags, aggregate, level=level)


def holds(found):
    assert (found.lower <= found.prob).all()
    assert (found.prob <= found.upper).all()
    assert (found.instance_lower <= found.instance_prob).all()
    assert (found.instance_prob <= found.instance_upper).all()


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_of_bags_and_instances_under_every_latent_posterior(aggregate, level):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 40, 400))])
    mean, variance = rng.normal(-5, 15, offsets[-1]), 10.0 ** rng.uniform(-8, 4, offsets[-1])
    holds(prediction(mean, variance, offsets, aggregate, level))


def test_where_the_mean_leaves_the_central_interval():
    """Latent mean 28.4, variance 49.4: E sigma(f) is .99995, the 2.5 % quantile .9999996."""
    found = prediction(np.array([28.42, -18.43]), np.array([49.37, 24.61]), np.array([0, 1, 2]))
    holds(found)
    assert found.instance_lower[0] == found.instance_prob[0]
    assert found.instance_upper[1] == found.instance_prob[1]


def test_an_interval_that_holds_its_probability_is_the_central_one():
    found = prediction(np.array([0.3]), np.array([2.0]), np.array([0, 1]))
    ends = 1 / (1 + np.exp(-(0.3 + np.array([-1.0, 1.0]) * 1.959963984540054 * np.sqrt(2.0))))
    np.testing.assert_allclose([found.instance_lower[0], found.instance_upper[0]], ends, rtol=1e-12)


def test_recalibrated_tables_map_the_interval_with_the_probability():
    bags, y, _ = make_bags(n_bags=60, seed=3)
    model = VGPMIL(n_inducing=15, random_state=0).fit(bags, y)
    plain, mapped = (model.predict_instances(bags, as_frame=True, recalibrated=how) for how in (False, True))
    assert (mapped["lower"] <= mapped["prob"]).all()
    assert (mapped["prob"] <= mapped["upper"]).all()
    assert not np.allclose(plain["lower"], mapped["lower"])
