"""The steps of minibatches: how long they are, that a record stands for all data, and both posteriors."""

from itertools import islice

import numpy as np
import pytest

from problems import make
from psimil.inference import minibatches
from psimil.inference.ascent import KernelState, Pass
from psimil.inference.bag_pass import antithetic_draws, bag_pass_over, draws_of
from psimil.inference.minibatches import batch_step, natural_step, relaxed, step_size, stochastic_ascent
from psimil.inference.passes import Statistics
from psimil.inference.posterior import Posterior
from psimil.inference.shards import StreamedShards
from psimil.inference.variational import climb, newton
from psimil.model.scaling import Scaling

WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.5])


def batches(**choices):
    """Shards of two bags each, and the state to begin with."""
    problem, gp = make(sizes=(3,) * 8, weights=WEIGHTS, **choices)
    shards = StreamedShards(problem.X, problem.labels, WEIGHTS, Scaling.identity(2), problem.density, rows=6)
    assert [bags.last - bags.first for bags in shards.ranges] == [2, 2, 2, 2]
    return shards, KernelState.first(gp)


def records(shards, state, noise=None, number=2, done=0):
    return list(islice(stochastic_ascent(shards, state, noise, np.random.default_rng(0), done), number))


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

    monkeypatch.setattr(minibatches, "pass_over", pass_over)


@pytest.mark.usefixtures("made_up")
def test_the_sums_of_a_record_are_those_of_all_data():
    shards, state = batches()
    for number, record in enumerate(records(shards, state), start=1):
        np.testing.assert_allclose(record.statistics.V_theta_V, WEIGHTS.sum() * np.eye(state.gp.size), rtol=1e-12)
        assert record.bound.potential == pytest.approx(WEIGHTS.sum())
        assert record.bound.log_z == pytest.approx(2.0 * WEIGHTS.sum())
        assert record.step == number
        assert not record.kernel_moved


@pytest.mark.usefixtures("made_up")
def test_step_sizes_go_on_from_pass_to_pass_and_from_an_earlier_run(monkeypatch):
    seen = []
    monkeypatch.setattr(minibatches, "step_size", lambda *given: seen.append(given) or step_size(*given))
    shards, state = batches()
    records(shards, state)
    assert [t for t, _, _ in seen] == list(range(8))
    assert sum(share for _, share, _ in seen) == pytest.approx(2.0)
    assert {per_point for _, _, per_point in seen} == {6 / state.gp.size}
    seen.clear()
    assert next(stochastic_ascent(shards, state, None, np.random.default_rng(0))).step == 1
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

    monkeypatch.setattr(minibatches, "natural_step", watched)
    records(*batches(), number=1)
    assert len(seen) == 4
    for statistics in seen:
        np.testing.assert_allclose(statistics.V_kappa, WEIGHTS.sum(), rtol=1e-12)


@pytest.mark.usefixtures("made_up")
def test_passes_go_on_as_long_as_they_are_asked_for():
    assert records(*batches(), number=120)[-1].step == 120


def test_a_step_of_the_variational_posterior_takes_its_batch_for_all_data_too(monkeypatch):
    seen = []
    true_step = minibatches.bag_step

    def watched(posterior, sums, rho):
        seen.append((posterior, sums, rho))
        return true_step(posterior, sums, rho)

    monkeypatch.setattr(minibatches, "bag_step", watched)
    shards, state = batches(residual="projected", bias=1.0)
    noise = antithetic_draws(state.gp.size, 16, seed=0)
    [record] = records(shards, state, noise, number=1)
    order = [shards.ranges[i] for i in np.random.default_rng(0).permutation(4)]
    shares = [shards.weights[r.first : r.last].sum() / WEIGHTS.sum() for r in order]
    assert [rho for *_, rho in seen] == pytest.approx(shares)
    total = 0.0
    for batch, share, (posterior, sums, _) in zip(order, shares, seen, strict=True):
        expected, _ = bag_pass_over(shards, state.gp, draws_of(posterior, noise), [batch])
        np.testing.assert_allclose(sums.curvature, expected.curvature / share, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(sums.gradient, expected.gradient / share, rtol=1e-10, atol=1e-12)
        total += expected.likelihood.mean()
    assert record.bound.likelihood == pytest.approx(total, rel=1e-10)  # each batch once, unscaled
    assert record.bound.kl == record.posterior.kl
    assert record.bound.log_z == 0.0


def test_a_batch_of_all_data_is_a_step_of_the_climb():
    """Share 1 and rho 1: what minibatches do with one batch is what a climb does."""
    problem, gp = make(sizes=(3,) * 8, weights=WEIGHTS, residual="projected", bias=1.0)
    start, noise = newton(problem, gp, np.zeros(gp.size)), antithetic_draws(gp.size, 16, seed=0)
    climbed = list(islice(climb(problem, gp, start, noise), 2))
    assert climbed[1].weight == 1.0
    found, _, _ = batch_step(problem, None, gp, start, noise, 1.0, 1.0)
    np.testing.assert_allclose(found.m, climbed[1].posterior.m, rtol=1e-12)
    np.testing.assert_allclose(found.R, climbed[1].posterior.R, rtol=1e-12)


def test_minibatches_of_the_variational_posterior_come_close_to_its_optimum():
    sizes = (3,) * 40
    problem, gp = make(sizes=sizes, residual="projected", bias=1.0)
    shards = StreamedShards(problem.X, problem.labels, np.ones(40), Scaling.identity(2), problem.density, rows=12)
    start, noise = newton(problem, gp, np.zeros(gp.size)), antithetic_draws(gp.size, 64, seed=0)
    *_, best = islice(climb(problem, gp, start, noise), 30)
    *_, found = records(shards, KernelState(gp, start), noise, number=20)
    np.testing.assert_allclose(found.posterior.m, best.posterior.m, atol=0.25)
    bound, _ = bag_pass_over(problem, gp, draws_of(found.posterior, noise))
    assert bound.bound(found.posterior.kl).total == pytest.approx(best.bound.total, abs=0.02 * len(sizes))


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
