"""How a streamed fit cuts its data, scales its features and refuses what needs all instances at once."""

import numpy as np
import pytest

from psimil import Bags, HyperbolicSecant
from psimil.inference.options import Execution, Options
from psimil.inference.preparation import Supervision
from psimil.inference.shards import SHARD_ROWS
from psimil.inference.training import train
from psimil.model.scaling import Scaling


class Cut(Exception):
    """Ends a fit when its data are cut into shards."""


def shards(bags, batch_bags=None, **choices):
    """The shards of a fit."""

    def spread(shards):
        raise Cut(shards)

    supervision = Supervision(np.arange(len(bags)) % 2, np.ones(len(bags)))
    options = Options(HyperbolicSecant(), n_inducing=2, **choices)
    with pytest.raises(Cut) as cut:
        execution = Execution(batch_bags=batch_bags, spread=spread)
        train(bags, supervision, options, rng=np.random.default_rng(0), execution=execution)
    return cut.value.args[0]


def some_bags(n_bags=12, size=3):
    rng = np.random.default_rng(0)
    return Bags.from_list(list(rng.normal([3.0, 2.5], [2.0, 0.01], size=(n_bags, size, 2))))


def test_a_minibatch_has_as_many_instances_as_its_bags_on_average():
    found = shards(some_bags(), batch_bags=4)
    assert found.rows == 12
    assert [chunk.last - chunk.first for chunk in found.ranges] == [4, 4, 4]


def test_shards_have_the_chunk_size_or_that_of_the_library():
    assert shards(some_bags(), chunk_size=6).rows == 6
    assert shards(some_bags()).rows == SHARD_ROWS


def test_features_are_scaled_unless_they_are_to_stay_as_they_are():
    assert shards(some_bags()).scaling.location.min() > 2
    assert not shards(some_bags(), standardize=False).scaling.location.any()


@pytest.mark.parametrize("rows", [1, 5, 36, 37])
def test_the_scale_of_features_does_not_depend_on_how_many_are_read_at_a_time(monkeypatch, rows):
    bags = some_bags()
    monkeypatch.setattr("psimil.model.scaling.ROWS", rows)
    found, expected = Scaling.streamed(bags.X, np.ones(len(bags.X), dtype=bool)), Scaling.fit(bags.X)
    np.testing.assert_allclose(found.location, expected.location, rtol=1e-13)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-13)


def test_a_constant_feature_keeps_its_unit(monkeypatch):
    bags = some_bags()
    monkeypatch.setattr("psimil.model.scaling.ROWS", 5)
    X = np.column_stack([bags.X, np.full(len(bags.X), 0.1)])
    found = Scaling.streamed(X, np.ones(len(X), dtype=bool))
    assert found.scale[2] == 1.0
    assert found.location[2] == pytest.approx(0.1, rel=1e-12)
