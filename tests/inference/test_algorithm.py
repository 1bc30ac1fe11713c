"""Steps of the variational posterior in minibatches: a batch stands for all data, and few passes are enough."""

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from problems import make
from psimil.inference import algorithm
from psimil.inference.algorithm import Variational
from psimil.inference.bag_pass import BagSums, bag_pass_over
from psimil.inference.draws import Draws
from psimil.inference.options import Options
from psimil.inference.shards import StreamedShards
from psimil.inference.variational import Stage, climb, natural_step, newton
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, Posterior

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
    noise = Draws.for_bags(state.gp.size, shards.labels, seed=0)
    [record] = records(shards, state, number=1)
    order = [shards.ranges[i] for i in np.random.default_rng(0).permutation(4)]
    shares = [shards.weights[r.first : r.last].sum() / WEIGHTS.sum() for r in order]
    assert [rho for *_, rho in seen] == pytest.approx(shares)
    total = 0.0
    for batch, (posterior, sums, _) in zip(order, seen, strict=True):
        expected, _ = bag_pass_over(shards, state.gp, noise.of(posterior), [batch])
        np.testing.assert_allclose(sums.curvature, expected.curvature, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(sums.gradient, expected.gradient, rtol=1e-10, atol=1e-12)
        total += expected.likelihood.mean()
    assert record.bound.likelihood == pytest.approx(total, rel=1e-10)  # each batch once, unscaled
    assert record.bound.kl == record.posterior.kl
    assert record.bound.log_z == 0.0


def test_a_batch_of_all_data_takes_a_whole_step():
    """Share 1 and rho 1: one batch leads where prior and sites lead, of which a climb goes half the way."""
    problem, gp = make(sizes=(3,) * 8, weights=WEIGHTS, residual="projected", bias=1.0)
    start, noise = newton(problem, gp, np.zeros(gp.size)), Draws.for_bags(gp.size, problem.labels, seed=0)
    first = next(climb(problem, gp, start, [Stage(noise, tilted=False, enough=0.0)]))
    [record] = records(problem, KernelState(gp, start), number=1)
    np.testing.assert_allclose(record.posterior.m, first.whole_step.m, rtol=1e-10)
    np.testing.assert_allclose(record.posterior.R, first.whole_step.R, rtol=1e-10)


def test_minibatches_of_the_variational_posterior_come_close_to_its_optimum():
    sizes = (3,) * 40
    problem, gp = make(sizes=sizes, residual="projected", bias=1.0)
    shards = StreamedShards(problem.X, problem.labels, np.ones(40), Scaling.identity(2), problem.density, rows=12)
    start, noise = newton(problem, gp, np.zeros(gp.size)), Draws.for_bags(gp.size, problem.labels, seed=0)
    *_, best = islice(climb(problem, gp, start, [Stage(noise, tilted=False, enough=0.0)]), 30)
    *_, found = records(shards, KernelState(gp, start), number=20)
    np.testing.assert_allclose(found.posterior.m, best.posterior.m, atol=0.25)
    bound, _ = bag_pass_over(problem, gp, noise.of(found.posterior))
    assert bound.bound(found.posterior.kl).total == pytest.approx(best.bound.total, abs=0.02 * len(sizes))


@pytest.mark.parametrize(("bags", "coarse"), [(100, 512), (2048, 512), (2049, 128), (10_000, 32)])
def test_many_instances_have_fewer_draws_until_steps_are_tilted(bags, coarse):
    options = Options(HyperbolicSecant(), posterior="variational")
    shards = SimpleNamespace(labels=Labels(np.ones(bags), np.arange(bags + 1)), single=options.rounds(bags))
    first, last = Variational(options, 0)._stages(SimpleNamespace(size=3), shards)
    assert (first.tilted, last.tilted) == (False, True)
    assert first.noise.blocks.shape[2] == coarse
    assert last.noise.blocks.shape == Draws.for_bags(3, shards.labels, 0).blocks.shape


def test_a_batch_counts_as_its_share_of_all_data():
    rng, share = np.random.default_rng(3), 0.2
    A, g, m = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=5)
    q = Posterior(m, np.linalg.cholesky(A @ A.T + np.eye(5)))
    step = natural_step(q, BagSums(A.T @ A, g, np.zeros((1, 1)), 0.0), share)
    whole = np.eye(5) + A.T @ A / share  # of as many such batches as there are
    P = (1 - share) * (A @ A.T + np.eye(5)) + share * whole
    np.testing.assert_allclose(step.R @ step.R.T, P, rtol=1e-10)
    np.testing.assert_allclose(step.m, m + share * np.linalg.solve(P, g / share - m), rtol=1e-10)
