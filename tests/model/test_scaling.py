"""Scaling, and the principal components that a default model sees of wide features."""

import numpy as np
import pytest

from psimil import RBF, VGPMIL, Bags, InputError
from psimil.files.schema import check_tensors, model_tensors
from psimil.foundations.errors import ModelFileError
from psimil.inference import options
from psimil.model import scaling
from psimil.model.scaling import Scaling
from psimil.results.model_card import model_card
from psimil.store import StoreWriter, open_store

D = 40


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Forty features are many here, and ten components the most of them."""
    monkeypatch.setattr(options, "WIDE", 30)
    monkeypatch.setattr(scaling, "MOST", 10)


def wide_bags(seed=0, n_bags=30, size=8):
    """Instances that vary in six directions of forty and a little in all; positive ones are far along the first."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(7).normal(size=(6, D))
    latent = rng.normal(size=(n_bags * size, 6))
    y = np.arange(n_bags) % 2
    latent[np.arange(0, n_bags * size, size), 0] += 4.0 * y
    X = latent @ mixing + 0.01 * rng.normal(size=(len(latent), D)) + 3.0
    return Bags(X, np.arange(n_bags + 1) * size), y


def fitted(bags, y, **how):
    return VGPMIL(n_inducing=20, random_state=0, **how).fit(bags, y)


def test_components_are_those_of_the_covariance():
    X = wide_bags()[0].X
    whole = Scaling.fit(X)
    found = whole.narrowed(X, np.ones(len(X), bool))
    assert found.directions.shape == (D, 6)  # they hold 99 % of the variance
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(6), atol=1e-12)
    left = np.linalg.svd(whole.apply(X), full_matrices=False)[2][:6]
    np.testing.assert_allclose(np.abs(left @ found.directions), np.eye(6), atol=1e-6)
    matrix = found.directions / found.scale[:, None]
    np.testing.assert_allclose(found.apply(X), (X - found.location) @ matrix, atol=1e-10)
    np.testing.assert_allclose(found.apply(found.invert(found.apply(X))), found.apply(X), atol=1e-10)


def test_a_sample_in_blocks_gives_them_too(monkeypatch):
    X = wide_bags(n_bags=200)[0].X
    counted = np.arange(len(X)) % 5 > 0
    whole = Scaling.fit(X)
    expected = whole.narrowed(X, counted)
    monkeypatch.setattr(scaling, "BLOCK", 37)
    np.testing.assert_allclose(np.abs(whole.narrowed(X, counted).directions), np.abs(expected.directions), atol=1e-8)
    monkeypatch.setattr(scaling, "SAMPLE", 300)
    sampled = whole.narrowed(
        np.where(counted[:, None], X, np.nan), counted
    )  # those that do not count are not looked at
    overlap = np.linalg.svd(sampled.directions.T @ expected.directions)[1]
    assert overlap.min() > 0.99


def test_no_more_than_the_most(monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, D))
    assert Scaling.fit(X).narrowed(X, np.ones(500, bool)).directions.shape == (D, 10)
    constant = np.ones((5, D))
    with pytest.warns(match="all features are constant"):
        whole = Scaling.fit(constant)
    assert not whole.narrowed(constant, np.ones(5, bool)).apply(constant).any()


def test_far_values_stay_finite():
    X = wide_bags()[0].X
    found = Scaling.fit(X).narrowed(X, np.ones(len(X), bool))
    for dtype in ("float32", "float64"):
        far = found.apply(np.full((2, D), 1e300), dtype)
        assert np.isfinite(far).all()
        assert far.dtype == dtype
        assert np.isfinite(np.square(far.astype(dtype))).all()
    assert found.apply(np.empty((0, D))).shape == (0, 6)


def test_predictions_are_those_of_the_components():
    (bags, y), (new, _) = wide_bags(), wide_bags(seed=1)
    model = fitted(bags, y)
    assert model.kernel_ is not None
    directions = model.model_.scaling.directions
    assert directions.shape == (D, 6)
    assert model.inducing_points_.shape == (20, D)
    assert model.n_features_in_ == D
    assert model_card(model)["features"] == "40, seen as 6 principal components"
    coordinates = [Bags(Scaling.fit(bags.X).apply(one.X) @ directions, one.offsets) for one in (bags, new)]
    plain = fitted(coordinates[0], y, standardize=False)
    np.testing.assert_allclose(model.predict_proba(new), plain.predict_proba(coordinates[1]), atol=1e-6)
    assert ((model.predict_proba(new)[:, 1] > 0.5) == wide_bags(seed=1)[1]).mean() > 0.9


@pytest.mark.parametrize("how", [{"kernel": RBF()}, {"standardize": False}, {"context": "bag"}])
def test_features_are_seen_as_they_are_where_it_is_asked_for(how):
    model = fitted(*wide_bags(n_bags=10), **how)
    assert model.model_.scaling.directions is None
    assert model.model_.gp.Z.shape[1] == D * (4 if "context" in how else 1)


def test_narrow_features_are_not_touched(monkeypatch):
    bags, y = wide_bags(n_bags=10)
    monkeypatch.setattr(options, "WIDE", D)
    assert fitted(bags, y).model_.scaling.directions is None


def test_stores_files_and_later_bags(tmp_path):
    bags, y = wide_bags()
    model = fitted(bags, y)
    model.save(tmp_path / "model.safetensors")
    again = VGPMIL.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))
    with StoreWriter(tmp_path / "store", D, dtype="float64") as writer:
        writer.add_many(bags, y)
    streamed = fitted(open_store(tmp_path / "store"), y)
    np.testing.assert_allclose(streamed.predict_proba(bags), model.predict_proba(bags), atol=0.05)
    assert streamed.model_.scaling.directions.shape == (D, 6)
    online = VGPMIL(n_inducing=20, random_state=0).partial_fit(bags, y)
    before = online.model_.scaling.directions
    online.partial_fit(*wide_bags(seed=2))
    assert online.model_.scaling.directions is before


@pytest.mark.parametrize("wrong", [np.ones((D, 5)), np.ones((D - 1, 6)), np.ones(D), np.full((D, 6), np.nan)])
def test_files_with_other_directions_are_refused(wrong):
    tensors, facts = model_tensors(fitted(*wide_bags(n_bags=10)).model_)
    check_tensors(tensors, facts)
    with pytest.raises(ModelFileError, match="tensor"):
        check_tensors(tensors | {"feature_directions": wrong.astype(float)}, facts)


def test_bags_of_another_width_are_refused():
    with pytest.raises(InputError, match="40 features"):
        fitted(*wide_bags(n_bags=10)).predict(np.ones((1, 2, 6)))
