"""Telling features are those whose absence changes the latent mean most."""

import numpy as np
import pytest

from psimil import VGPMIL, InputError
from psimil.model.bags import Bags
from psimil.model.kernels import Linear
from psimil.results.feature_effects import LIMIT, explain, feature_effects
from small_results import results_of, small_model


@pytest.fixture
def fitted():
    return small_model()


def test_effects_are_changes_of_the_latent_mean(fitted):
    estimator, bags, _, _ = fitted
    found = feature_effects(estimator.model_, bags)
    assert found.features.shape == (len(bags.X), 5)
    assert (np.diff(np.abs(found.effects), axis=1) <= 0).all()
    base = estimator.predict_dist(bags).latent_mean
    np.testing.assert_array_equal(found.values, np.take_along_axis(bags.X, found.features, axis=1))
    for n in (0, 7, len(bags.X) - 1):
        for place, feature in enumerate(found.features[n]):
            X = bags.X.copy()
            X[n, feature] = bags.X[:, feature].mean()
            without = estimator.predict_dist(Bags(X, bags.offsets)).latent_mean
            assert found.effects[n, place] == pytest.approx(base[n] - without[n], abs=1e-9)


def test_effects_add_up_where_the_latent_function_is_linear(fitted):
    _, bags, y, _ = fitted
    estimator = VGPMIL(n_inducing=8, kernel=Linear(1.0), random_state=0).fit(bags, y)
    found = feature_effects(estimator.model_, bags, most=6)
    mean = estimator.predict_dist([bags.X.mean(axis=0, keepdims=True)]).latent_mean[0]
    np.testing.assert_allclose(found.effects.sum(axis=1), estimator.predict_dist(bags).latent_mean - mean, atol=1e-9)


def test_blocks_do_not_change_effects(fitted, monkeypatch):
    estimator, bags, _, _ = fitted
    whole = feature_effects(estimator.model_, bags)
    monkeypatch.setattr("psimil.results.feature_effects.BLOCK", 50)
    pieces = feature_effects(estimator.model_, bags)
    np.testing.assert_array_equal(pieces.features, whole.features)
    np.testing.assert_allclose(pieces.effects, whole.effects, atol=1e-9)


def test_telling_features_are_skipped_where_there_are_too_many(fitted, monkeypatch):
    estimator, bags, _, _ = fitted
    assert feature_effects(estimator.model_, Bags(np.zeros((LIMIT // 6 + 1, 6)), [0, LIMIT // 6 + 1])) is None
    monkeypatch.setattr("psimil.results.feature_effects.WORK", 10.0)
    assert feature_effects(estimator.model_, bags) is None
    assert results_of(fitted).features is None


def test_explain_is_the_same_as_a_table(fitted):
    estimator, bags, y, _ = fitted
    told = feature_effects(estimator.model_, bags, most=2)
    table = explain(estimator, bags, most=2)
    assert len(table) == 2 * len(bags.X)
    assert table["effect"].to_numpy().reshape(-1, 2).tolist() == told.effects.tolist()
    last = table.iloc[-1]
    assert (last["bag"], last["instance"]) == (bags.names[-1], bags.sizes[-1] - 1)
    assert last["value"] == bags.X[-1, told.features[-1, 1]]
    named = Bags(bags.X, bags.offsets, feature_names=list("abcdef"))
    of_bag = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, context="bag", random_state=0).fit(named, y)
    features = set(explain(of_bag, named, most=24)["feature"])
    assert {"a", "mean of a in its bag"} < features
    assert len(features) == 24


def test_too_much_to_explain_is_said(fitted, monkeypatch):
    monkeypatch.setattr("psimil.results.feature_effects.WORK", 10.0)
    with pytest.raises(InputError, match="Give some of the bags"):
        explain(*fitted[:2])
