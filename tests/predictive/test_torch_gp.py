"""The Gaussian process on torch tensors: moments, bound and gradient against the NumPy model."""

import numpy as np
import pytest

from psimil import RBF, VGPMIL, Linear
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import ascend

torch = pytest.importorskip("torch")

from psimil.predictive.torch_gp import TorchGP, bag_bound  # noqa: E402


@pytest.fixture(scope="module", params=[None, RBF(), Linear(0.5), RBF(lengthscale=[1.0, 2.0])])
def fitted(request):
    bags, y, _ = make_bags(n_bags=30, n_features=2, seed=1)
    return bags, y, VGPMIL(n_inducing=8, kernel=request.param, random_state=0).fit(bags, y).model_


def test_moments_are_those_of_the_model(fitted):
    bags, _, model = fitted
    for found, expected in zip(
        TorchGP.of(model).moments(torch.from_numpy(bags.X)), model.latent(bags.X, raw=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_wide_features_go_along_their_directions(monkeypatch):
    monkeypatch.setattr("psimil.inference.options.WIDE", 1)
    bags, y, _ = make_bags(n_bags=30, n_features=2, seed=1)
    model = VGPMIL(n_inducing=8, random_state=0).fit(bags, y).model_
    assert model.scaling.directions is not None
    found, _ = TorchGP.of(model).moments(torch.from_numpy(bags.X))
    np.testing.assert_allclose(found, model.latent(bags.X, raw=True)[0], rtol=1e-8, atol=1e-10)


def record_of(bags, y, model):
    shard = Shard(model.scaling.apply(bags.X), Labels(y, bags.offsets), np.ones(len(y)), HyperbolicSecant())
    return next(ascend(shard, KernelState(model.gp, model.posterior)))


def bound_of(bags, y, model, X):
    mean, variance = TorchGP.of(model).moments(X)
    parts = zip(bags.offsets[:-1], bags.offsets[1:], y, strict=True)
    return sum(bag_bound(mean[a:b], variance[a:b], int(label)) for a, b, label in parts)


def test_the_bags_bounds_add_up_to_the_bound_of_the_fit(fitted):
    bags, y, model = fitted
    bound = record_of(bags, y, model).bound
    total = float(bound_of(bags, y, model, torch.from_numpy(bags.X)))
    assert total - bound.kl == pytest.approx(bound.total, rel=1e-9)


def test_the_gradient_by_features_is_that_of_the_whole_bound(fitted):
    """Differences of the NumPy bound, whose local parameters are optimal on both sides."""
    bags, y, model = fitted
    X = torch.from_numpy(bags.X.copy()).requires_grad_()
    (gradient,) = torch.autograd.grad(bound_of(bags, y, model, X), X)
    for row, column in [(0, 0), (7, 1), (len(bags.X) - 1, 0)]:
        values = []
        for step in (-1e-5, 1e-5):
            moved = bags.X.copy()
            moved[row, column] += step
            shard = Shard(model.scaling.apply(moved), Labels(y, bags.offsets), np.ones(len(y)), HyperbolicSecant())
            values.append(next(ascend(shard, KernelState(model.gp, model.posterior))).bound.total)
        assert float(gradient[row, column]) == pytest.approx((values[1] - values[0]) / 2e-5, rel=1e-4, abs=1e-7)


class Own(RBF):
    """A kernel that torch has never heard of."""


def test_other_models_are_refused():
    bags, y, _ = make_bags(n_bags=10, seed=1)
    with pytest.raises(InputError, match="torch knows RBF, Matern, linear and constant kernels"):
        TorchGP.of(VGPMIL(n_inducing=5, kernel=Own(), random_state=0).fit(bags, y).model_)
    with pytest.raises(InputError, match='needs residual="projected"'):
        TorchGP.of(VGPMIL(n_inducing=5, residual="full", posterior="augmented", random_state=0).fit(bags, y).model_)
