"""Data in parts: sums over parts equal sums over all, streaming equals memory, minibatches reach the same bound."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
from psimil.inference.fitting import first_posterior, prior_log_z
from psimil.inference.learning import KernelState
from psimil.inference.local_pass import Projection, Statistics, local_pass
from psimil.inference.part_tasks import PartedCollapsedBound, pass_over
from psimil.inference.parts import StreamedParts, split_bags
from psimil.inference.problem import Problem
from sklearn.metrics import roc_auc_score

from psimil import GVGPMIL, RBF, VGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.inference import streamed_training, training_by_size
from psimil.inference.collapsed import CollapsedBound
from psimil.inference.minibatches import natural_step, scaled, step_size, stochastic_ascent
from psimil.inference.posterior import global_update
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.label_posteriors import Labels
from psimil.model.scaling import Scaling


@pytest.fixture(scope="module", params=[HyperbolicSecant(), GammaMixture(1.0, 1.0)])
def both(request):
    """The same data in memory and in parts."""
    bags, y, _ = make_bags(n_bags=200, bag_size=(1, 9), n_features=3, seed=2)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 200)
    scaling, labels = Scaling.fit(bags.X), Labels(y, bags.offsets)
    problem = Problem(scaling.apply(bags.X), labels, weights, request.param)
    parts = StreamedParts(bags.X, labels, weights, scaling, request.param, rows=100)
    gp = SparseGP.build(RBF(2.0, 1.5), problem.X[:12], bias=3.0)
    return problem, parts, gp


@pytest.mark.parametrize("rows", [1, 7, 100, 10**9])
def test_parts_are_whole_bags_and_cover_all(rows):
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(1).integers(1, 30, 80))])
    chunks = split_bags(offsets, rows)
    assert [c.first for c in chunks] == [0, *(c.last for c in chunks[:-1])]
    assert chunks[-1].last == 80 and chunks[-1].stop == offsets[-1]
    for chunk in chunks:
        assert (chunk.start, chunk.stop) == (offsets[chunk.first], offsets[chunk.last])
        assert chunk.last > chunk.first
        assert chunk.stop - chunk.start < rows + 60


def assert_same(one, two):
    for name in ("V_theta_V", "V_kappa", "potential", "scale_mixture", "bags", "entropy"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-10, atol=1e-10)


def test_a_pass_over_parts_is_a_pass(both):
    problem, parts, gp = both
    posterior = first_posterior(gp)
    projection = Projection.build(gp, problem)
    _, expected = local_pass(projection, posterior, problem)
    found, log_z = pass_over(parts, gp, posterior)
    assert len(parts.chunks) > 5
    assert_same(found, expected)
    assert log_z == pytest.approx(prior_log_z(projection, problem), rel=1e-10)
    again, _ = pass_over(parts, gp, posterior)
    np.testing.assert_array_equal(found.V_theta_V, again.V_theta_V)


def test_the_collapsed_bound_over_parts_is_the_collapsed_bound(both):
    problem, parts, gp = both
    posterior = first_posterior(gp)
    local, _ = local_pass(Projection.build(gp, problem), posterior, problem)
    other = SparseGP.build(RBF(1.0, 2.0), gp.Z, bias=3.0)
    expected = CollapsedBound(problem, local)(other)
    found = PartedCollapsedBound(parts, gp, posterior)(other)
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.posterior.m, expected.posterior.m, rtol=1e-8, atol=1e-12)


def test_reading_goes_ahead_and_order_is_kept(both):
    _, parts, _ = both
    sizes = list(parts.map(lambda problem: len(problem.X)))
    assert sizes == [c.stop - c.start for c in parts.chunks]
    some = parts.chunks[3:5]
    assert list(parts.map(lambda problem: len(problem.X), some)) == [c.stop - c.start for c in some]
    assert list(parts.map(len, [])) == []


def test_a_whole_step_is_a_global_update(both):
    _, parts, gp = both
    posterior = first_posterior(gp)
    statistics, _ = pass_over(parts, gp, posterior)
    expected = global_update(statistics.V_theta_V, statistics.V_kappa)
    found = natural_step(posterior, statistics, 1.0)
    np.testing.assert_allclose(found.m, expected.m, rtol=1e-10, atol=1e-12)
    still = natural_step(posterior, statistics, 0.0)
    np.testing.assert_allclose(still.R, posterior.R, rtol=1e-10)
    half = natural_step(posterior, statistics, 0.5)
    precision = 0.5 * (posterior.R @ posterior.R.T) + 0.5 * (statistics.V_theta_V + np.eye(gp.size))
    np.testing.assert_allclose(half.R @ half.R.T, precision, rtol=1e-9)


def test_step_sizes_fall_to_the_share_of_a_batch():
    sizes = [step_size(t, 0.05) for t in range(2000)]
    assert sizes[0] == 1.0
    assert all(a >= b for a, b in pairwise(sizes))
    assert sizes[-1] == 0.05
    assert scaled(Statistics(np.eye(2), np.ones(2), 1.0, 2.0, 3.0, 4.0), 3.0).entropy == 12.0


def data(seed, n_bags=600):
    return make_bags(n_bags=n_bags, bag_size=(3, 9), n_features=3, separation=2.5, seed=seed)[:2]


def score(model, bags, y):
    return roc_auc_score(y, model.predict_dist(bags).log_odds)


@pytest.mark.parametrize("estimator", [VGPMIL, GVGPMIL])
def test_a_streamed_fit_predicts_as_well_as_one_in_memory(monkeypatch, estimator):
    monkeypatch.setattr(training_by_size, "LARGE", 100)
    monkeypatch.setattr(streamed_training, "SAMPLED", 300)
    bags, y = data(0)
    settings = {"n_inducing": 15, "random_state": 0, "inducing_points": bags.X[::240]}
    memory = estimator(**settings).fit(bags, y)
    streamed = estimator(chunk_size=500, **settings).fit(bags, y)
    assert streamed.label_posterior_ is None
    assert streamed.elbo_ == pytest.approx(memory.elbo_, rel=0.01)
    assert len(streamed.loo_.log_predictive) == 300
    test = data(1)
    assert score(streamed, *test) > score(memory, *test) - 0.01
    again = estimator(chunk_size=500, **settings).fit(bags, y)
    np.testing.assert_array_equal(again.predict_proba(test[0]), streamed.predict_proba(test[0]))


def test_minibatches_reach_the_bound_of_whole_passes_in_two():
    bags, y = data(3, n_bags=2000)
    settings = {"inducing_points": bags.X[::500], "random_state": 0, "hyperparameters": None, "kernel": RBF(3.0, 2.0)}
    whole = VGPMIL(**settings).fit(bags, y)
    first = VGPMIL(**settings, max_iter=1, tol=0).fit(bags, y).history_[0]["elbo"]
    model = VGPMIL(**settings, max_iter=2, tol=0).fit(bags, y, batch_bags=50)
    found, parts = (
        model.model_,
        StreamedParts(bags.X, Labels(y, bags.offsets), np.ones(2000), model.model_.scaling, HyperbolicSecant()),
    )
    statistics, log_z = pass_over(parts, found.gp, found.posterior)
    bound = statistics.bound(found.posterior.kl, log_z).total
    assert (bound - first) >= 0.99 * (whole.elbo_ - first)
    test = data(4)
    assert score(model, *test) > score(whole, *test) - 0.01
    learned = VGPMIL(inducing_points=bags.X[::500], random_state=0).fit(bags, y, batch_bags=100)
    assert score(learned, *test) > score(whole, *test) - 0.02


def test_what_cannot_be_streamed_is_refused(monkeypatch):
    bags, y = data(0, n_bags=30)
    for settings, fit, message in [
        ({"label_posterior": "mean_field", "H": 100.0}, {}, 'needs label_posterior="exact"'),
        ({"hyperparameters": "paper"}, {}, 'needs hyperparameters="collapsed" or None'),
        ({"start": 0.5}, {}, 'needs start="labels"'),
        ({}, {"y_instances": np.full(len(bags.X), -1)}, ""),
        ({}, {"eval_set": (bags, y)}, "do not take eval_set"),
    ]:
        with pytest.raises(InputError, match=message) if message else nullcontext():
            VGPMIL(n_inducing=5, random_state=0, **settings).fit(bags, y, batch_bags=10, **fit)
    for bad in (0, -3, 2.5):
        with pytest.raises(InputError, match="batch_bags must be a whole number >= 1"):
            VGPMIL(n_inducing=5).fit(bags, y, batch_bags=bad)


def test_scaling_in_pieces_is_scaling(monkeypatch):
    monkeypatch.setattr(streamed_training, "SCALING_ROWS", 64)
    bags, _ = data(0, n_bags=100)
    found, expected = streamed_training.streamed_scaling(bags), Scaling.fit(bags.X)
    np.testing.assert_allclose(found.location, expected.location, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)


class Watcher:
    """A kernel step that writes down when it is asked, and moves nothing."""

    log_z = False

    def __init__(self):
        self.asked = []

    def climb(self, state, bound, weight, iteration):
        self.asked.append((iteration, weight))
        return state


@pytest.mark.parametrize(("done", "expected"), [(0, (0.25, 0.5, 0.75)), (1, ())])
def test_the_kernel_moves_at_each_quarter_of_the_first_pass_on_the_last_four_batches(both, done, expected):
    _, parts, gp = both
    watcher, drawn = Watcher(), np.random.default_rng(3)
    next(stochastic_ascent(parts, KernelState(gp, first_posterior(gp)), watcher, np.random.default_rng(3), done))
    order = [parts.chunks[i] for i in drawn.permutation(len(parts.chunks))]
    weights = [parts.weights[c.first : c.last].sum() for c in order]
    places = [round(share * len(order)) for share in expected]
    assert [place for place, _ in watcher.asked] == places
    for place, weight in watcher.asked:
        assert weight == pytest.approx(sum(weights[max(0, place - 4) : place]))
