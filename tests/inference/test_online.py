"""partial_fit: exact sums where the step is the share, learning that helps, and what is kept."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fits import ALGORITHMS
from psimil import RBF, VGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.inference.bag_pass import bag_pass_over
from psimil.inference.draws import Draws
from psimil.inference.online import Online
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import Posterior
from psimil.paper.natural_steps import global_update, grown, step_size
from psimil.paper.passes import run_pass
from psimil.results.metrics import bag_metrics
from tiny import quick

SETTINGS = {"calibrate": False, "threshold": 0.5, "false_positive_rate": None, "aggregate": "noisy_or"}


def drawn(n, seed=0):
    bags, y, _ = make_bags(n_bags=n, bag_size=(2, 6), n_features=3, separation=2.0, seed=seed)
    return bags, y


def learned(posterior, **settings):
    """A model of forty bags, the twenty bags that come next in model coordinates, and the model after them."""
    bags, y = drawn(60)
    model = quick(posterior=posterior, **SETTINGS, **settings).fit(bags[:40], y[:40]).model_
    new, options = (
        bags[40:],
        Options(HyperbolicSecant(), posterior=posterior, algorithm=ALGORITHMS[posterior], **SETTINGS),
    )
    found = Online(model, 40.0).learn(new, Supervision(y[40:], np.ones(20)), options)
    X = model.scaling.apply(new.X, "float64")
    return model, Shard(X, Labels(y[40:], new.offsets), np.ones(20), HyperbolicSecant()), found


def test_a_step_of_the_share_adds_the_sums_of_the_new_bags(monkeypatch):
    monkeypatch.setattr("psimil.paper.augmented.step_size", lambda t, share, per_point: share)
    model, shard, found = learned("augmented")
    _, sums = run_pass(shard, model.gp, model.posterior)
    before = model.posterior.R @ model.posterior.R.T
    expected = global_update(before - np.eye(len(before)) + sums.V_theta_V, before @ model.posterior.m + sums.V_kappa)
    np.testing.assert_allclose(found.model.posterior.m, expected.m, rtol=1e-9)
    np.testing.assert_allclose(found.model.posterior.S, expected.S, rtol=1e-9)
    assert (found.weight, found.steps) == (60.0, 1)


def test_the_step_sizes_are_those_of_minibatches():
    assert step_size(0, 0.1) == 1.0
    model, shard, found = learned("augmented")
    _, sums = run_pass(shard, model.gp, model.posterior)
    expected = global_update(3.0 * sums.V_theta_V, 3.0 * sums.V_kappa)  # a whole step, on bags scaled up to 60
    np.testing.assert_allclose(found.model.posterior.m, expected.m, rtol=1e-9)


def test_the_variational_posterior_climbs_the_bound_of_the_new_bags():
    """Their prior is q(v) so far: at the end P0 (m - m0) is their gradient, and P what their curvature adds to P0."""
    model, shard, found = learned("variational")
    q, after = model.posterior, found.model.posterior
    draws = Draws.for_bags(model.gp.size, shard.labels, model.seed).of(after)
    sums, _ = bag_pass_over(shard, model.gp, draws, tilted=True)
    P = q.R @ q.R.T
    left = np.linalg.solve(P + sums.curvature, sums.gradient - P @ (after.m - q.m))
    assert (np.abs(left) / np.sqrt(np.diag(after.S))).max() < 0.2
    np.testing.assert_allclose(np.diag(after.R @ after.R.T), np.diag(P + sums.curvature), rtol=0.2)
    assert (found.weight, found.steps) == (60.0, 1)


@pytest.mark.parametrize("far", [5.0, 20.0])
def test_an_odd_instance_does_not_spoil_a_model(far):
    """A full step on a bag whose instance lies where the linear kernel is steep led anywhere."""
    rng = np.random.default_rng(0)

    def bags_of(number):
        y = np.arange(number) % 2
        bags = [rng.normal(size=(rng.integers(3, 9), 4)) for _ in y]
        for x, label in zip(bags, y, strict=True):
            x[0, :2] += 2.5 * label
        return bags, y

    (bags, y), (more, of_more), (new, truth) = bags_of(40), bags_of(40), bags_of(80)
    more[0][0] += far
    model = VGPMIL(n_inducing=20, random_state=0).fit(bags, y)
    before = roc_auc_score(truth, model.predict_proba(new)[:, 1])
    after = roc_auc_score(truth, model.partial_fit(more, of_more).predict_proba(new)[:, 1])
    assert after > before - 0.05


def test_bags_that_arrive_in_batches_lead_to_the_posterior_of_all_at_once():
    """With the kernel and the inducing points of the first batch; the bound of all bags is what both climb."""
    bags, y = drawn(300, seed=7)
    settings = {**SETTINGS, "posterior": "variational", "max_iter": 50, "tol": 1e-6, "standardize": False}
    settings |= {"kernel": RBF(3.0, 2.0), "inducing_points": bags.X[::60]}
    whole = quick(**settings).fit(bags, y)
    model = quick(**settings).fit(bags[:100], y[:100])
    first = model.model_.posterior
    for start in range(100, 300, 20):
        model.partial_fit(bags[start : start + 20], y[start : start + 20])
    shard = Shard(bags.X, Labels(y, bags.offsets), np.ones(300), HyperbolicSecant())

    def bound(q):
        draws = Draws.for_bags(whole.model_.gp.size, shard.labels, seed=3).of(q)
        return bag_pass_over(shard, whole.model_.gp, draws)[0].bound(q.kl).total

    best = bound(whole.model_.posterior)
    assert best - bound(first) > 5.0
    assert best - bound(model.model_.posterior) < 1.0


def test_growing_by_one_changes_nothing():
    posterior = Posterior(np.array([0.3, -0.2]), np.linalg.cholesky(np.array([[3.0, 0.5], [0.5, 2.0]])))
    np.testing.assert_allclose(grown(posterior, 1.0).m, posterior.m, rtol=1e-12)


def test_bags_that_arrive_in_batches_teach_almost_as_much_as_all_at_once():
    bags, y = drawn(900, seed=3)
    test, y_test = drawn(600, seed=4)
    batches = [slice(a, a + 100) for a in range(0, 900, 100)]
    model = VGPMIL(n_inducing=20, random_state=0)
    first = VGPMIL(n_inducing=20, random_state=0).fit(bags[batches[0]], y[batches[0]])
    for rows in batches:
        model.partial_fit(bags[rows], y[rows])
    whole = VGPMIL(n_inducing=20, random_state=0).fit(bags, y)

    def loss(clf):
        found = clf.predict_dist(test)
        return bag_metrics(y_test, found.prob, found.threshold, found.log_odds)["log_loss"]

    assert loss(model) < loss(first)
    assert loss(model) < loss(whole) + 0.03
    assert model.training_counts_["bags"] == 900


def test_calibration_follows_the_latest_bags_before_they_were_learned():
    bags, y = drawn(300, seed=5)
    clf = quick(aggregate="noisy_or", calibrate=True).partial_fit(bags[:100], y[:100])
    before = clf.model_
    prediction = before.latent(bags[100:].X, raw=True)
    clf.partial_fit(bags[100:], y[100:])
    np.testing.assert_allclose(clf.online_.unseen.mean, prediction[0], rtol=1e-9)
    np.testing.assert_array_equal(clf.online_.unseen.T, y[100:])
    assert clf.model_.calibration != before.calibration


def test_only_the_latest_bags_are_remembered(monkeypatch):
    monkeypatch.setattr("psimil.inference.online.REMEMBERED", 25)
    bags, y = drawn(60)
    clf = quick().partial_fit(bags[:20], y[:20]).partial_fit(bags[20:40], y[20:40]).partial_fit(bags[40:], y[40:])
    unseen = clf.online_.unseen
    np.testing.assert_array_equal(unseen.T, y[35:])
    np.testing.assert_array_equal(np.diff(unseen.offsets), bags.sizes[35:])
    assert len(unseen.mean) == unseen.offsets[-1]


def test_a_fit_starts_anew():
    bags, y = drawn(60)
    clf = quick().partial_fit(bags[:40], y[:40]).partial_fit(bags[40:], y[40:]).fit(bags[:40], y[:40])
    clf.partial_fit(bags[40:], y[40:])
    assert clf.online_.steps == 1
    assert clf.training_counts_["bags"] == 60


def test_a_loaded_model_goes_on_learning(tmp_path):
    bags, y = drawn(60)
    clf = quick().fit(bags[:40], y[:40])
    clf.save(tmp_path / "m.safetensors")
    loaded = quick().load(tmp_path / "m.safetensors").partial_fit(bags[40:], y[40:])
    clf.partial_fit(bags[40:], y[40:])
    np.testing.assert_array_equal(loaded.predict_dist(bags).log_odds, clf.predict_dist(bags).log_odds)


@pytest.mark.parametrize("more", [{"y": None}, {"y": [0, 1, 2]}])
def test_bad_batches_leave_the_model_as_it_was(more):
    bags, y = drawn(40)
    clf = quick().fit(bags, y)
    before = clf.model_
    with pytest.raises(InputError):
        clf.partial_fit(bags[:3], **more)
    with pytest.raises(InputError, match="expects 3 features"):
        clf.partial_fit([np.ones((2, 4))], [1])
    assert clf.model_ is before
