"""Data in shards: sums over shards equal sums over all, streaming equals memory, minibatches reach the same bound."""

from contextlib import nullcontext
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil import GVGPMIL, RBF, VGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import antithetic_draws
from psimil.inference import training
from psimil.inference.bag_pass import bag_pass_over, run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard, StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import split_bags
from psimil.model.densities import GammaMixture, HyperbolicSecant, jensen
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, SparseGP
from psimil.paper.ascent import pass_over
from psimil.paper.natural_steps import global_update, natural_step, step_size
from psimil.paper.passes import Statistics, run_pass


@pytest.fixture(scope="module", params=[HyperbolicSecant(), GammaMixture(1.0, 1.0)])
def both(request):
    """The same data in memory and in shards."""
    bags, y, _ = make_bags(n_bags=200, bag_size=(1, 9), n_features=3, seed=2)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 200)
    scaling, labels = Scaling.fit(bags.X), Labels(y, bags.offsets)
    whole = Shard(scaling.apply(bags.X), labels, weights, request.param, keep=True)
    shards = StreamedShards(bags.X, labels, weights, scaling, request.param, rows=100)
    gp = SparseGP.build(RBF(2.0, 1.5), whole.X[:12], bias=3.0)
    return whole, shards, gp


@pytest.mark.parametrize("rows", [1, 7, 100, 10**9])
def test_shards_are_whole_bags_and_cover_all(rows):
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


def test_a_pass_over_shards_is_a_pass(both):
    whole, shards, gp = both
    posterior = KernelState.first(gp).posterior
    _, expected = run_pass(whole, gp, posterior)
    found = pass_over(shards, gp, posterior)
    assert len(shards.ranges) > 5
    assert_same(found.statistics, expected)
    each, _ = jensen(whole.density, gp.prior_variance(whole.X, gp.features(whole.X)))
    assert found.bound.log_z == pytest.approx(whole.instance_weights @ each, rel=1e-10)
    assert pass_over(whole, gp, posterior).bound.total == pytest.approx(found.bound.total, rel=1e-10)
    again = pass_over(shards, gp, posterior)
    np.testing.assert_array_equal(found.statistics.V_theta_V, again.statistics.V_theta_V)


def test_a_bag_pass_over_shards_is_a_bag_pass(both):
    whole, shards, gp = both
    draws = Draws.shared(0.5 * antithetic_draws(gp.size, 16, seed=1))
    _, expected = run_bag_pass(whole, gp, draws)
    found, local = bag_pass_over(shards, gp, draws)
    assert local is None
    for name in ("curvature", "gradient", "likelihood", "log_z"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)
    again, _ = bag_pass_over(shards, gp, draws)
    np.testing.assert_array_equal(found.curvature, again.curvature)
    np.testing.assert_array_equal(found.likelihood, again.likelihood)
    some = shards.ranges[2:4]
    shares = [bag_pass_over(shards, gp, draws, [one])[0] for one in some]
    np.testing.assert_array_equal(bag_pass_over(shards, gp, draws, some)[0].gradient, sum(s.gradient for s in shares))


def test_reading_goes_ahead_and_order_is_kept(both):
    _, shards, _ = both
    sizes = list(shards.map(lambda shard: len(shard.X)))
    assert sizes == [c.stop - c.start for c in shards.ranges]
    some = shards.ranges[3:5]
    assert list(shards.map(lambda shard: len(shard.X), some)) == [c.stop - c.start for c in some]
    assert list(shards.map(len, [])) == []


def test_a_whole_step_is_a_global_update(both):
    _, shards, gp = both
    posterior = KernelState.first(gp).posterior
    statistics = pass_over(shards, gp, posterior).statistics
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
    assert Statistics(np.eye(2), np.ones(2), 1.0, 2.0, 3.0, 4.0).scaled(3.0).entropy == 12.0


def data(seed, n_bags=600):
    return make_bags(n_bags=n_bags, bag_size=(3, 9), n_features=3, separation=2.5, seed=seed)[:2]


def score(model, bags, y):
    return roc_auc_score(y, model.predict_dist(bags).log_odds)


AUGMENTED = partial(VGPMIL, posterior="augmented")  # as GVGPMIL is


@pytest.mark.parametrize(
    "estimator", [VGPMIL, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (AUGMENTED, GVGPMIL))]
)
def test_a_streamed_fit_predicts_as_well_as_one_in_memory(monkeypatch, estimator):
    monkeypatch.setattr(training, "LARGE", 100)
    monkeypatch.setattr(training, "SAMPLED", 300)
    bags, y = data(0)
    settings = {"n_inducing": 15, "random_state": 0, "inducing_points": bags.X[::240]}
    memory = estimator(**settings).fit(bags, y)
    streamed = estimator(chunk_size=500, **settings).fit(bags, y)
    assert streamed.label_posterior_ is None
    if estimator is VGPMIL:  # kernels differ by their draws along directions in which this bound is flat, not others
        assert streamed.elbo_ == pytest.approx(memory.elbo_, rel=0.01)
    assert len(streamed.out_of_bag_.log_predictive) == 300
    test = data(1)
    assert score(streamed, *test) > score(memory, *test) - 0.01
    again = estimator(chunk_size=500, **settings).fit(bags, y)
    np.testing.assert_array_equal(again.predict_proba(test[0]), streamed.predict_proba(test[0]))


@pytest.mark.parametrize("estimator", [AUGMENTED, GVGPMIL])
def test_a_streamed_fit_with_a_given_kernel_reaches_the_bound_of_one_in_memory(monkeypatch, estimator):
    monkeypatch.setattr(training, "LARGE", 100)
    bags, y = data(0, n_bags=200)
    settings = {"random_state": 0, "inducing_points": bags.X[::80], "hyperparameters": None, "tol": 1e-7}
    memory = estimator(**settings, max_iter=400).fit(bags, y)
    streamed = estimator(chunk_size=300, **settings, max_iter=400).fit(bags, y)
    assert streamed.elbo_ == pytest.approx(memory.elbo_, rel=1e-6)
    np.testing.assert_allclose(streamed.q_mean_, memory.q_mean_, atol=1e-3)


@pytest.mark.parametrize(("posterior", "passes"), [("augmented", 2), ("variational", 4)])
def test_minibatches_reach_the_bound_of_whole_passes_in_few(posterior, passes):
    bags, y = data(3, n_bags=500)
    settings = {"inducing_points": bags.X[::125], "random_state": 0, "hyperparameters": None, "kernel": RBF(3.0, 2.0)}
    settings |= {"posterior": posterior}
    whole = VGPMIL(**settings).fit(bags, y)
    first = VGPMIL(**settings, max_iter=1, tol=0).fit(bags, y).history_[0]["elbo"]
    model = VGPMIL(**settings, max_iter=passes, tol=0).fit(bags, y, batch_bags=25)
    found, labels = model.model_, Labels(y, bags.offsets)
    shards = StreamedShards(bags.X, labels, np.ones(500), found.scaling, HyperbolicSecant())
    if posterior == "augmented":
        bound = pass_over(shards, found.gp, found.posterior).bound.total
        assert (bound - first) >= 0.99 * (whole.elbo_ - first)
    else:  # whole passes begin with q(v) of the mode, a thousandth of a nat per bag below their end
        draws = Draws.for_bags(found.gp.size, labels, seed=5).of(found.posterior)
        bound = bag_pass_over(shards, found.gp, draws)[0].bound(found.posterior.kl)
        assert bound.total > whole.elbo_ - 0.005 * len(bags) - 3 * bound.error
    test = data(4)
    assert score(model, *test) > score(whole, *test) - 0.01
    learned = VGPMIL(inducing_points=bags.X[::125], random_state=0, posterior=posterior).fit(bags, y, batch_bags=50)
    assert score(learned, *test) > score(whole, *test) - 0.02


PAPER = {"posterior": "augmented"}


def test_what_cannot_be_streamed_is_refused():
    bags, y = data(0, n_bags=30)
    for settings, fit, message in [
        (PAPER | {"label_posterior": "mean_field", "H": 100.0}, {}, 'needs label_posterior="exact"'),
        (PAPER | {"hyperparameters": "paper"}, {}, 'needs hyperparameters="bound" or None'),
        (PAPER | {"start": 0.5}, {}, 'needs start="labels"'),
        ({}, {"y_instances": np.full(len(bags.X), -1)}, ""),
        ({}, {"eval_set": (bags, y)}, "do not take eval_set"),
    ]:
        with pytest.raises(InputError, match=message) if message else nullcontext():
            VGPMIL(n_inducing=5, random_state=0, **settings).fit(bags, y, batch_bags=10, **fit)
    for bad in (0, -3, 2.5):
        with pytest.raises(InputError, match="batch_bags must be a whole number >= 1"):
            VGPMIL(n_inducing=5).fit(bags, y, batch_bags=bad)


def test_scaling_in_pieces_is_scaling(monkeypatch):
    monkeypatch.setattr("psimil.model.scaling.ROWS", 64)
    bags, _ = data(0, n_bags=100)
    found, expected = Scaling.streamed(bags.X, np.ones(len(bags.X), dtype=bool)), Scaling.fit(bags.X)
    np.testing.assert_allclose(found.location, expected.location, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)
