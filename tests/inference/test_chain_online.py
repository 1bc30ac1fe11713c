"""partial_fit where labels form chains: against enumerated labels, one fit on all bags, and labels without links."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from chained import joint, log_factor, runs
from problems import labellings
from psimil import RBF, Bags
from psimil.estimators.parameters import options_of, resolved
from psimil.inference.bag_pass import bag_pass_over
from psimil.inference.draws import Draws
from psimil.inference.online import Online
from psimil.inference.preparation import Supervision
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from tiny import quick

POINTS = np.random.default_rng(5).normal(size=(6, 2)) * 1.5 + [0.7, 0.0]
SETTINGS = {"labels": "chain", "inducing_points": POINTS, "kernel": RBF(3.0, 1.5), "standardize": False}
SETTINGS |= {"calibrate": False, "max_iter": 50, "tol": 1e-6}


@cache
def data(bags=40, seed=0):
    X, y, _ = runs(seed, bags=bags)
    return Bags.from_list(list(X)), y


@cache
def first():
    """A model of twenty bags; never change it."""
    bags, y = data()
    return quick(**SETTINGS).fit(bags[:20], y[:20])


def learned(model, bags, y, **changes):
    """The model after one step on some bags."""
    options = options_of(resolved(quick(**SETTINGS | changes)), 2)
    return Online(model, 20.0).learn(bags, Supervision(y, np.ones(len(y))), options)


def gapped(bags):
    """The same with a gap in the middle of every bag, and links of two strengths."""
    links = np.tile([1.0, 0.5, 0.0, 1.0, 0.5, 0.0], len(bags))
    return Bags(bags.X, bags.offsets, links=links)


def test_new_bags_are_learned_with_their_own_links_as_enumeration_says():
    """Draws of q(v) before, weighed by the enumerated likelihood of the new bags, have mean and deviations of after."""
    bags, y = data()
    new, T = gapped(bags[20:30]), y[20:30]
    before = replace(first().model_, coupling=2.0)
    noise = np.random.default_rng(0).normal(size=(before.gp.size, 8000))
    v = before.posterior.m[:, None] + before.posterior.U @ noise
    f = (before.gp.features(new.X) @ v).T

    def moments(J):
        parts = enumerate(pairwise(new.offsets))
        log_w = sum(log_factor(f[:, a:b], J * new.links[a:b], T[number]) for number, (a, b) in parts)
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        assert 1.0 / np.square(w).sum() > 300  # draws that count
        mean = v @ w
        return mean, np.sqrt(np.square(v - mean[:, None]) @ w)

    (mean, std), (apart, _) = moments(2.0), moments(0.0)
    found = learned(before, new, T).model
    assert found.coupling == 2.0
    assert (np.abs(found.posterior.m - mean) / std).max() < 0.12
    np.testing.assert_allclose(np.sqrt(np.diag(found.posterior.S)), std, rtol=0.12)
    assert (np.abs(apart - mean) / std).max() > 0.3  # links matter here


def test_halves_lead_close_to_the_posterior_of_all_at_once(monkeypatch):
    """With one coupling, which the prior holds fast; the bound of all bags is what both climb."""
    monkeypatch.setattr("psimil.inference.coupling.DEVIATION", 1e-5)
    bags, y = data(120, seed=7)
    whole, model = quick(**SETTINGS).fit(bags, y), quick(**SETTINGS).partial_fit(bags[:60], y[:60])
    before, J = model.model_.posterior, model.model_.coupling
    assert J == pytest.approx(1.0, abs=1e-4)
    model.partial_fit(bags[60:], y[60:])
    assert model.model_.coupling == J
    assert model.training_counts_["bags"] == 120
    labels = Labels(y, bags.offsets, links=J * bags.in_order().links)
    shard = Shard(bags.X, labels, np.ones(120), HyperbolicSecant())

    def bound(q):
        draws = Draws.for_bags(whole.model_.gp.size, labels, seed=3).of(q)
        return bag_pass_over(shard, whole.model_.gp, draws)[0].bound(q.kl).total

    best = bound(whole.model_.posterior)
    assert best - bound(before) > 1.0
    assert best - bound(model.model_.posterior) < 0.2
    deviation = np.abs(model.model_.posterior.m - whole.model_.posterior.m) / np.sqrt(np.diag(before.S))
    assert deviation.max() < 0.15


def test_without_coupling_it_is_the_model_of_independent_labels():
    bags, y = data()
    settings = {"threshold": None, "false_positive_rate": 0.1}
    model = replace(first().model_, coupling=0.0)
    chained = learned(model, gapped(bags), y, **settings).model
    plain = learned(model, bags, y, labels="independent", **settings).model
    np.testing.assert_array_equal(chained.posterior.m, plain.posterior.m)
    np.testing.assert_array_equal(chained.posterior.R, plain.posterior.R)
    np.testing.assert_array_equal(chained.predict(bags).prob, plain.predict(bags).prob)
    assert chained.threshold == plain.threshold


def test_bags_in_another_direction_are_learned_alike():
    bags, y = data()
    back = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(bags.offsets)])
    one = learned(first().model_, bags, y)
    two = learned(first().model_, Bags(bags.X[back], bags.offsets), y)
    np.testing.assert_allclose(two.model.posterior.m, one.model.posterior.m, atol=1e-8)
    np.testing.assert_allclose(two.model.posterior.S, one.model.posterior.S, atol=1e-8)
    np.testing.assert_allclose(two.unseen.mean, one.unseen.mean[back], atol=1e-8)


def test_thresholds_rest_on_labels_with_neighbours_summed_out():
    """Moments of bags before they were learned, over draws of q(v), labels enumerated; within their errors."""
    bags, y = data()
    model = first().model_
    unseen = learned(model, bags, y).unseen
    noise = np.random.default_rng(1).normal(size=(model.gp.size, 4000))
    f = (model.gp.features(bags.X) @ (model.posterior.m[:, None] + model.posterior.U @ noise)).T
    J = model.coupling * bags.in_order().links
    for b, (start, stop) in list(enumerate(pairwise(bags.offsets)))[::8]:
        log_p = joint(f[:, start:stop], J[start:stop])
        p, Y = np.exp(log_p), labellings(6)
        log_odds = np.log(p @ Y) - np.log(p @ (1 - Y))
        error = 5 * log_odds.std(axis=0) / np.sqrt(128)
        assert (np.abs(unseen.mean[start:stop] - log_odds.mean(axis=0)) < error).all()
        assert np.exp(unseen.dependence.log_negative[b]) == pytest.approx(np.exp(log_p[:, 0]).mean(), abs=0.05)
    np.testing.assert_array_equal(unseen.T, y)
    again = learned(model, bags, y)
    assert again.learn(bags, Supervision(y, np.ones(40)), options_of(resolved(quick(**SETTINGS)), 2)).steps == 2
