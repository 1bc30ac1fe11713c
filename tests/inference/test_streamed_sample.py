"""The bags that kernel and inducing points of a streamed fit come from: enough instances for k-means, not all data."""

import numpy as np
import pytest

from psimil import Bags, HyperbolicSecant
from psimil.inference import preparation
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision, sampled_sparse_gp
from psimil.model.inducing import SAMPLE_PER_POINT
from psimil.model.scaling import Scaling


@pytest.mark.parametrize(("n_inducing", "share"), [(1, 0.25), (2, 0.5), (4, 1.0), (9, 1.0)])
def test_the_sample_is_twice_what_the_inducing_points_need(monkeypatch, n_inducing, share):
    taken = []
    monkeypatch.setattr(preparation, "choose_sparse_gp", lambda X, *rest: taken.append((X, rest[2])))
    n = 2 * SAMPLE_PER_POINT  # bags of four instances: enough for four inducing points
    bags = Bags.from_list(list(np.arange(4.0 * n).reshape(n, 4, 1)))
    supervision = Supervision(np.arange(n) % 2, np.arange(1.0, n + 1))
    options = Options(HyperbolicSecant(), n_inducing=n_inducing)
    sampled_sparse_gp(bags, Scaling.identity(1), supervision, options, np.random.default_rng(0))
    [(X, part)] = taken
    assert len(X) == 4 * len(part.T) == share * len(bags.X)
    chosen = (X[::4, 0] / 4).astype(int)
    np.testing.assert_array_equal(part.T, supervision.T[chosen])
    np.testing.assert_array_equal(part.weights, supervision.weights[chosen])


def test_the_sample_holds_at_least_two_bags(monkeypatch):
    taken = []
    monkeypatch.setattr(preparation, "choose_sparse_gp", lambda X, *rest: taken.append(rest[2].T))
    bags = Bags.from_list([np.zeros((2 * SAMPLE_PER_POINT, 1))] * 5)
    options = Options(HyperbolicSecant(), n_inducing=1)
    sampled_sparse_gp(bags, Scaling.identity(1), Supervision(np.ones(5), np.ones(5)), options, np.random.default_rng(0))
    assert len(taken[0]) == 2
