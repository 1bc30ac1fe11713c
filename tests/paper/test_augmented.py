"""Steps of the augmented posterior in minibatches: how long they are, and that a record stands for all data."""

from itertools import islice

import numpy as np
import pytest

from problems import make
from psimil.inference.shards import StreamedShards
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, Posterior
from psimil.paper import augmented
from psimil.paper.ascent import Pass
from psimil.paper.augmented import Augmented
from psimil.paper.natural_steps import natural_step, relaxed, step_size
from psimil.paper.passes import Statistics

WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.5])


def batches(**choices):
    """Shards of two bags each, and the state to begin with."""
    problem, gp = make(sizes=(3,) * 8, weights=WEIGHTS, **choices)
    shards = StreamedShards(problem.X, problem.labels, WEIGHTS, Scaling.identity(2), problem.density, rows=6)
    assert [bags.last - bags.first for bags in shards.ranges] == [2, 2, 2, 2]
    return shards, KernelState.first(gp)


def records(shards, state, number=2, done=0):
    return list(islice(Augmented(None, 0).batches(shards, state, np.random.default_rng(0), done), number))


def test_the_log_z_of_a_record_is_that_of_all_data():
    for record in records(*batches()):
        assert record.bound.log_z == pytest.approx(-3.0 * WEIGHTS.sum() * np.log(np.pi), rel=1e-12)


@pytest.fixture
def made_up(monkeypatch):
    """Passes that count the weight of their bags."""

    def pass_over(shards, gp, posterior, ranges):
        weight = float(sum(shards.weights[r.first : r.last].sum() for r in ranges))
        size = len(posterior.m)
        sums = Statistics(weight * np.eye(size), weight * np.ones(size), weight, weight, weight, weight)
        return Pass(gp, posterior, sums, sums.bound(posterior.kl, 2.0 * weight))

    monkeypatch.setattr(augmented, "pass_over", pass_over)


@pytest.mark.usefixtures("made_up")
def test_the_sums_of_a_record_are_those_of_all_data():
    shards, state = batches()
    for number, record in enumerate(records(shards, state), start=1):
        np.testing.assert_allclose(record.statistics.V_theta_V, WEIGHTS.sum() * np.eye(state.gp.size), rtol=1e-12)
        assert record.bound.potential == pytest.approx(WEIGHTS.sum())
        assert record.bound.log_z == pytest.approx(2.0 * WEIGHTS.sum())
        assert record.step == number
        assert not record.unfinished


@pytest.mark.usefixtures("made_up")
def test_step_sizes_go_on_from_pass_to_pass_and_from_an_earlier_run(monkeypatch):
    seen = []
    monkeypatch.setattr(augmented, "step_size", lambda *given: seen.append(given) or step_size(*given))
    shards, state = batches()
    records(shards, state)
    assert [t for t, _, _ in seen] == list(range(8))
    assert sum(share for _, share, _ in seen) == pytest.approx(2.0)
    assert {per_point for _, _, per_point in seen} == {6 / state.gp.size}
    seen.clear()
    assert next(Augmented(None, 0).batches(shards, state, np.random.default_rng(0))).step == 1
    assert [t for t, _, _ in seen] == list(range(4))
    seen.clear()
    [record] = records(shards, state, number=1, done=3)
    assert [t for t, _, _ in seen] == list(range(12, 16))
    assert record.step == 4


@pytest.mark.usefixtures("made_up")
def test_a_step_takes_its_batch_for_all_data(monkeypatch):
    seen = []

    def watched(posterior, statistics, rho):
        seen.append(statistics)
        return natural_step(posterior, statistics, rho)

    monkeypatch.setattr(augmented, "natural_step", watched)
    records(*batches(), number=1)
    assert len(seen) == 4
    for statistics in seen:
        np.testing.assert_allclose(statistics.V_kappa, WEIGHTS.sum(), rtol=1e-12)


@pytest.mark.usefixtures("made_up")
def test_passes_go_on_as_long_as_they_are_asked_for():
    assert records(*batches(), number=120)[-1].step == 120


def test_a_pass_over_one_batch_of_all_data_is_a_whole_pass():
    statistics = Statistics(3.0 * np.eye(2), np.array([1.0, 2.0]), 0.0, 0.0, 0.0, 0.0)
    found = natural_step(Posterior(np.array([5.0, -5.0]), 2.0 * np.eye(2)), statistics, 1.0)
    np.testing.assert_allclose(found.R @ found.R.T, 4.0 * np.eye(2), rtol=1e-12)
    np.testing.assert_allclose(found.m, [0.25, 0.5], rtol=1e-12)


def test_a_step_goes_its_share_of_the_way_in_natural_parameters():
    statistics = Statistics(3.0 * np.eye(1), np.array([8.0]), 0.0, 0.0, 0.0, 0.0)
    found = natural_step(Posterior(np.array([3.0]), 2.0 * np.eye(1)), statistics, 0.25)
    precision, linear = 0.75 * 4.0 + 0.25 * 4.0, 0.75 * 12.0 + 0.25 * 8.0
    np.testing.assert_allclose(found.R, [[np.sqrt(precision)]], rtol=1e-12)
    np.testing.assert_allclose(found.m, [linear / precision], rtol=1e-12)


def test_steps_fall_slowly_and_never_below_the_share():
    assert step_size(0, 0.1) == 1.0
    assert step_size(4, 1e-9) == pytest.approx(2.0**-0.7)
    assert step_size(20, 1e-9, 5.0) == pytest.approx(2.0**-0.7)
    assert step_size(4, 1e-9, 0.2) == pytest.approx(2.0**-0.7)  # a batch of few instances forgets no faster
    assert step_size(10**6, 0.1) == 0.1


def test_the_mean_goes_further_once_the_first_steps_are_done():
    before, after = Posterior(np.array([1.0]), np.eye(1)), Posterior(np.array([2.0]), 3.0 * np.eye(1))
    assert relaxed(before, after, 1) is after
    assert relaxed(before, after, 2).m == pytest.approx([2.8])
    assert relaxed(before, after, 2).R is after.R
    assert Statistics(np.eye(1), np.ones(1), 1.0, 2.0, 3.0, 4.0).scaled(0.5).entropy == 2.0
