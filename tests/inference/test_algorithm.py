"""Steps of the variational posterior in minibatches: a batch stands for all data, and few passes are enough."""

from itertools import islice

import numpy as np
import pytest

from problems import make
from psimil.foundations.logistic import antithetic_draws
from psimil.inference import algorithm
from psimil.inference.algorithm import Variational
from psimil.inference.bag_pass import bag_pass_over, draws_of, first_noise
from psimil.inference.shards import StreamedShards
from psimil.inference.sparse_gp import KernelState, Scaling
from psimil.inference.variational import climb, newton

WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.5])


def batches(**choices):
    """Shards of two bags each, and the state to begin with."""
    problem, gp = make(sizes=(3,) * 8, weights=WEIGHTS, **choices)
    shards = StreamedShards(problem.X, problem.labels, WEIGHTS, Scaling.identity(2), problem.density, rows=6)
    assert [bags.last - bags.first for bags in shards.ranges] == [2, 2, 2, 2]
    return shards, KernelState.first(gp)


def records(shards, state, number=2):
    return list(islice(Variational(None, 0).batches(shards, state, np.random.default_rng(0)), number))


def test_a_step_of_the_variational_posterior_takes_its_batch_for_all_data_too(monkeypatch):
    seen = []
    true_step = algorithm.natural_step

    def watched(posterior, sums, rho):
        seen.append((posterior, sums, rho))
        return true_step(posterior, sums, rho)

    monkeypatch.setattr(algorithm, "natural_step", watched)
    shards, state = batches(residual="projected", bias=1.0)
    noise = first_noise(state.gp, len(shards.X), seed=0)
    [record] = records(shards, state, number=1)
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
    found = algorithm.natural_step(start, bag_pass_over(problem, gp, draws_of(start, noise))[0].scaled(1.0), 1.0)
    np.testing.assert_allclose(found.m, climbed[1].posterior.m, rtol=1e-12)
    np.testing.assert_allclose(found.R, climbed[1].posterior.R, rtol=1e-12)


def test_minibatches_of_the_variational_posterior_come_close_to_its_optimum():
    sizes = (3,) * 40
    problem, gp = make(sizes=sizes, residual="projected", bias=1.0)
    shards = StreamedShards(problem.X, problem.labels, np.ones(40), Scaling.identity(2), problem.density, rows=12)
    start, noise = newton(problem, gp, np.zeros(gp.size)), first_noise(gp, len(problem.X), seed=0)
    *_, best = islice(climb(problem, gp, start, noise), 30)
    *_, found = records(shards, KernelState(gp, start), number=20)
    np.testing.assert_allclose(found.posterior.m, best.posterior.m, atol=0.25)
    bound, _ = bag_pass_over(problem, gp, draws_of(found.posterior, noise))
    assert bound.bound(found.posterior.kl).total == pytest.approx(best.bound.total, abs=0.02 * len(sizes))
