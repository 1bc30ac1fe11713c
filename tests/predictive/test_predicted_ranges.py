"""Ranges of bags, predicted one after another, say what one prediction of all bags says."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from psimil import VGPMIL, Bags
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.foundations.phases import following
from psimil.predictive.predicted_ranges import predict_ranges, whole
from psimil.store import StoreWriter, open_store
from psimil.store.digest import BlockCheck

SETTINGS = {
    "default": {},
    "context": {"context": "bag"},
    "chain": {"labels": "chain"},
    "chain in context": {"labels": "chain", "context": "bag"},
    "sampled": {"posterior": "sampled"},
    "paper": {"posterior": "augmented"},
    "draws": {"expectation": "sample"},
    "max": {"aggregate": "max"},
}


@pytest.fixture(scope="module")
def data():
    """Bags of one to nine instances, with gaps in their order, and labels."""
    bags, y, _ = make_bags(n_bags=40, bag_size=(1, 9), n_features=3, seed=2)
    links = np.where(np.arange(len(bags.X)) % 5, bags.in_order().links, 0.0)
    names = [f"bag {b}" for b in range(40)]
    return Bags(bags.X, bags.offsets, names, links=links), y


def fitted(data, **settings):
    return VGPMIL(n_inducing=6, max_iter=4, tol=0.0, random_state=0).set_params(**settings).fit(*data)


def numbers(prediction):
    """Everything that a prediction and its tables hold, by name."""
    tables = {f"{of} {name}": column for of in ("bag", "instance") for name, column in prediction.to_frame(of).items()}
    return {field.name: getattr(prediction, field.name) for field in fields(prediction)} | tables


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        two = found[name]
        if isinstance(one, tuple):
            same(dict(enumerate(two)), dict(enumerate(one)))
        elif is_dataclass(one):
            same(vars(two), vars(one))
        elif np.asarray(one).dtype == np.float64:
            np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(two, one, err_msg=name)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_ranges_together_are_the_whole(data, settings):
    bags = data[0]
    estimator = fitted(data, **settings)
    parts = list(estimator.predict_ranges(bags, chunk_size=30, level=0.8))
    assert len(parts) > 4 and max(part.offsets[-1] for part in parts) < 30 + 9
    assert np.concatenate([part.ids for part in parts]).tolist() == bags.ids.tolist()
    same(numbers(whole(parts)), numbers(estimator.predict_dist(bags, level=0.8)))
    raw = whole(list(estimator.predict_ranges(bags, chunk_size=30, raw=True)))
    np.testing.assert_allclose(raw.latent_mean, estimator.predict_dist(bags, raw=True).latent_mean, rtol=1e-9)


def test_few_bags_are_one_range_with_the_bits_of_predict_dist(data):
    bags, estimator = data[0], fitted(data)
    rows = np.random.default_rng(0).permutation(len(bags.X))
    (found,) = estimator.predict_ranges(Bags(bags.X, bags.offsets, bags.ids, rows))
    expected = estimator.predict_dist(bags)
    np.testing.assert_array_equal(found.instance_prob, expected.instance_prob)
    np.testing.assert_array_equal(found.rows, rows)
    assert whole([found]) is found


def test_rows_of_a_store_are_read_range_by_range(data, tmp_path, monkeypatch):
    """Never all of them, and never through a map, whose pages count as memory of the process."""
    bags, y = data
    with StoreWriter(tmp_path / "store", 3, dtype="float64") as writer:
        writer.add_many(bags, y)
    store, estimator = replace(open_store(tmp_path / "store"), links=bags.links), fitted(data, context="bag")

    def mapped(*_):
        raise AssertionError("all rows were asked for")

    monkeypatch.setattr(BlockCheck, "whole", mapped)
    same(numbers(whole(list(estimator.predict_ranges(store, chunk_size=30)))), numbers(estimator.predict_dist(bags)))


def test_a_range_is_predicted_when_it_is_asked_for(data):
    model, told = fitted(data).model_, []
    with following(told.append):
        parts = predict_ranges(model, data[0], 30)
        assert not told
        next(parts)
        assert [(step.phase, step.done, step.of) for step in told] == [("instances predicted", 0, len(data[0].X))]


def test_sizes_that_are_none(data):
    model = fitted(data)
    for chunk_size in (0, -1, 2.5, True, "many"):
        with pytest.raises(InputError, match="chunk_size"):
            model.predict_ranges(data[0], chunk_size=chunk_size)
