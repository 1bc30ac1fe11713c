"""What a fit starts from: the scale of the features, the inducing points and the constant mean."""

import numpy as np
import pytest

from psimil import RBF, Bags, HyperbolicSecant
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision, choose_sparse_gp, prepare_in_memory, prepare_streamed
from psimil.model.scaling import Scaling

BAGS = Bags.from_list(list(np.random.default_rng(0).normal(5.0, 2.0, size=(8, 4, 3))))
SUPERVISION = Supervision(np.arange(8) % 2, np.ones(8))


def chosen(scaling=None, **choices):
    options = Options(HyperbolicSecant(), n_inducing=6, **choices)
    scaling = scaling or Scaling.fit(BAGS.X)
    rng = np.random.default_rng(0)
    return choose_sparse_gp(scaling.apply(BAGS.X), scaling, BAGS, SUPERVISION, options, rng, len(BAGS.X))


def test_features_are_standardised_unless_they_are_to_stay_as_they_are():
    def X_of(**choices):
        options = Options(HyperbolicSecant(), n_inducing=6, **choices)
        return prepare_in_memory(BAGS, SUPERVISION, options, np.random.default_rng(0), None).shards.X

    X = X_of()
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(X_of(standardize=False), BAGS.X)


@pytest.mark.parametrize(
    "prepare", [lambda *a: prepare_in_memory(*a, None), prepare_streamed], ids=["memory", "stream"]
)
def test_a_bag_without_weight_moves_neither_scale_nor_inducing_points(prepare):
    """As if it were absent, however far out it lies."""
    more = Bags.from_list([*BAGS, np.full((3, 3), 1e4)])
    silent = Supervision(np.append(SUPERVISION.T, 1), np.append(SUPERVISION.weights, 0.0))
    options = Options(HyperbolicSecant(), n_inducing=6)
    alone = prepare(BAGS, SUPERVISION, options, np.random.default_rng(0))
    found = prepare(more, silent, options, np.random.default_rng(0))
    np.testing.assert_array_equal(found.scaling.location, alone.scaling.location)
    np.testing.assert_array_equal(found.scaling.scale, alone.scaling.scale)
    np.testing.assert_array_equal(found.gp.Z, alone.gp.Z)


def test_inducing_points_are_given_in_the_units_of_the_features():
    Z = BAGS.X[:5]
    found = chosen(Scaling(np.full(3, 5.0), np.full(3, 2.0)), inducing_points=Z).Z
    np.testing.assert_allclose(found, (Z - 5.0) / 2.0, rtol=1e-12)
    assert chosen().Z.shape == (6, 3)


@pytest.mark.parametrize(("mean", "bias", "size"), [("constant", 3.0, 7), ("zero", 0.0, 6)])
def test_a_constant_mean_is_one_more_column(mean, bias, size):
    gp = chosen(mean=mean)
    assert (gp.bias, gp.size) == (bias, size)


@pytest.mark.parametrize("residual", ["projected", "full"])
def test_kernel_and_residual_are_as_asked(residual):
    gp = chosen(residual=residual, kernel=RBF(2.0, 1.5))
    assert gp.residual == residual
    assert gp.kernel == RBF(2.0, 1.5)


def test_points_are_chosen_by_the_label_of_their_bags(monkeypatch):
    seen = []
    from psimil.inference import preparation

    real = preparation.choose_inducing
    monkeypatch.setattr(preparation, "choose_inducing", lambda *given: seen.append(given) or real(*given))
    chosen(inducing="kmeans")
    X, positive, n, how, kernel, _ = seen[0]
    np.testing.assert_array_equal(positive, np.repeat(SUPERVISION.T, 4) == 1)
    assert (len(X), n, how, type(kernel).__name__) == (32, 6, "kmeans", "Sum")
