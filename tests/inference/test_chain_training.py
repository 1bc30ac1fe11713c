"""Fits with labels="chain": what is learned, in which order, by which way of running, and what is refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from chained import runs
from problems import offsets_of
from psimil import GVGPMIL, RBF, VGPMIL, Bags, PsiVGPMIL
from psimil.cluster.checkpoint import Checkpoint
from psimil.estimators.parameters import options_of, resolved
from psimil.foundations.errors import InputError
from psimil.inference import training
from psimil.inference.preparation import Supervision
from psimil.model.densities import SmoothLaplace
from psimil.predictive.moments import Calibration
from psimil.results.model_card import model_card

POINTS = np.random.default_rng(5).normal(size=(8, 2)) * 1.5 + [0.7, 0.0]
QUICK = {"labels": "chain", "inducing_points": POINTS, "n_inducing": 8, "random_state": 0}
QUICK |= {"kernel": RBF(3.0, 1.5), "max_iter": 8, "tol": 0.0, "calibrate": False}


def chain(**parameters):
    return VGPMIL(**{**QUICK, **parameters})


@cache
def data(seed=0):
    """Bags in order of their rows, labels of bags, labels of instances (N,)."""
    X, y, y_instances = runs(seed, bags=20)
    return Bags.from_list(list(X)), y, y_instances.ravel()


@cache
def fitted():
    """Never change it."""
    bags, y, _ = data()
    return chain().fit(bags, y)


def mirror(bags):
    """(N,) instances of every bag from the last to the first."""
    return np.concatenate([np.arange(a, b)[::-1] for a, b in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)])


def same_posterior(one, other, atol):
    np.testing.assert_allclose(one.model_.posterior.m, other.model_.posterior.m, atol=atol)
    S, T = (np.linalg.inv(fit.model_.posterior.R @ fit.model_.posterior.R.T) for fit in (one, other))
    np.testing.assert_allclose(S, T, atol=atol)


def test_a_fit_learns_a_coupling_and_says_so():
    found = fitted()
    J = found.model_.coupling
    assert 0.0 < J < 6.0
    assert [row["coupling"] for row in found.history_ if "coupling" in row] == [J]
    assert found.labels == "chain"
    assert model_card(found)["labels"] == f"a chain, neighbours linked by J = {J:.3g}"
    assert found.predict(data()[0]).mean() == pytest.approx(0.5, abs=0.15)


def test_independent_labels_have_no_coupling():
    bags, y, _ = data()
    found = chain(labels="independent").fit(bags, y)
    assert found.model_.coupling == 0.0
    assert "labels" not in model_card(found)
    assert np.abs(found.predict_proba(bags) - fitted().predict_proba(bags)).max() > 0.01


def test_bags_in_another_direction_are_learned_alike():
    bags, y, _ = data()
    back = mirror(bags)
    turned = Bags(bags.X[back], bags.offsets)
    other = chain().fit(turned, y)
    assert other.model_.coupling == pytest.approx(fitted().model_.coupling, abs=1e-6)
    same_posterior(other, fitted(), 1e-6)
    one, two = fitted().predict_dist(bags), other.predict_dist(turned)
    np.testing.assert_allclose(two.prob, one.prob, atol=1e-6)
    np.testing.assert_allclose(two.instance_prob, one.instance_prob[back], atol=1e-6)
    np.testing.assert_allclose(other.label_posterior_, fitted().label_posterior_[back], atol=1e-6)


def test_another_order_is_another_fit():
    """Runs that are broken up: order is information."""
    bags, y, _ = data()
    order = np.concatenate([6 * b + np.random.default_rng(b).permutation(6) for b in range(len(bags))])
    other = chain().fit(Bags(bags.X[order], bags.offsets), y)
    assert np.abs(other.model_.posterior.m - fitted().model_.posterior.m).max() > 1e-3


def test_rows_are_put_in_order_by_positions_and_come_back_in_the_order_of_the_caller():
    bags, y, known = data()
    order = np.concatenate([6 * b + np.random.default_rng(b).permutation(6) for b in range(len(bags))])
    mixed = Bags(bags.X[order], bags.offsets).in_order(np.tile(np.arange(6.0), len(bags))[order])
    other = chain().fit(mixed, y)
    same_posterior(other, fitted(), 1e-12)
    np.testing.assert_allclose(other.label_posterior_, fitted().label_posterior_[order], atol=1e-12)
    expected = fitted().predict_dist(bags).to_frame("instance")["prob"].to_numpy()
    found = other.predict_dist(mixed).to_frame("instance")["prob"].to_numpy()
    np.testing.assert_allclose(found, expected[order], atol=1e-12)
    told, mixed_told = chain().fit(bags, y, y_instances=known), chain().fit(mixed, y, y_instances=known[order])
    same_posterior(told, mixed_told, 1e-12)
    by_bag = chain().fit(mixed, y, y_instances=known.reshape(-1, 6).tolist())  # in the order of the bags themselves
    same_posterior(by_bag, told, 1e-12)


def test_broken_links_make_labels_independent():
    """Where every link is broken, kernel and q(v) are those of independent labels, and J is what its prior says."""
    bags, y, _ = data()
    broken = Bags(bags.X, bags.offsets, links=np.zeros(len(bags.X)))
    found, independent = chain().fit(broken, y), chain(labels="independent").fit(bags, y)
    same_posterior(found, independent, 1e-9)
    assert found.kernel_ == independent.kernel_
    assert found.model_.coupling == pytest.approx(1.0)
    assert np.abs(found.predict_proba(broken) - independent.predict_proba(broken)).max() < 0.02
    np.testing.assert_allclose(found.out_of_bag_.latent.mean, independent.out_of_bag_.latent.mean, atol=1e-6)


def test_negative_bags_may_be_cut_at_gaps():
    """A negative bag with a gap in the middle is two negative bags: the same posterior, of the same kernel."""
    X, y, _ = runs(bags=20)
    links, halves, labels = np.tile([1.0, 1, 0, 1, 1, 0], len(X)), [], []
    for rows, T in zip(X, y, strict=True):
        halves += [rows] if T else [rows[:3], rows[3:]]
        labels += [T] if T else [0, 0]
    sizes = [len(rows) for rows in halves]
    one = chain(max_iter=20).fit(Bags(np.concatenate(list(X)), offsets_of([6] * len(X)), links=links), y)
    two = chain(max_iter=20).fit(Bags(np.concatenate(halves), offsets_of(sizes), links=links), labels)
    assert two.model_.coupling == pytest.approx(one.model_.coupling, abs=0.05)
    same_posterior(one, two, 0.02)


@pytest.mark.parametrize("settings", [{"chunk_size": 40}, {"dtype": "float32"}], ids=str)
def test_ways_of_running_agree(settings):
    bags, y, known = data()
    told = np.where(np.arange(len(known)) % 5, -1, known)
    found, plain = chain(**settings).fit(bags, y, y_instances=told), chain().fit(bags, y, y_instances=told)
    np.testing.assert_allclose(found.predict_proba(bags), plain.predict_proba(bags), atol=1e-3)
    assert found.model_.coupling == pytest.approx(plain.model_.coupling, abs=1e-3)


@pytest.mark.parametrize("settings", [{"H": 30.0}, {"density": SmoothLaplace(0.6, 1.0)}, {"aggregate": "max"}], ids=str)
def test_other_models_have_chains_too(settings):
    bags, y, known = data()
    found = PsiVGPMIL(**{**QUICK, **settings}).fit(bags, y, y_instances=np.where(np.arange(len(known)) % 5, -1, known))
    assert np.isfinite(found.predict_proba(bags)).all()
    assert np.isfinite(found.out_of_bag_.log_predictive).all()
    assert found.model_.coupling > 0
    assert (found.predict(bags) == y).mean() > 0.8


def test_a_streamed_fit_is_nearly_that_in_memory(monkeypatch):
    taken, out_of_bag = [], training.out_of_bag
    monkeypatch.setattr(training, "LARGE", 0)
    monkeypatch.setattr(training, "out_of_bag", lambda *of, **how: taken.append(of[1]) or out_of_bag(*of, **how))
    bags, y, _ = data()
    found = chain(chunk_size=40).fit(bags, y)
    np.testing.assert_allclose(taken[0].labels.links, found.model_.coupling * bags.in_order().links)
    assert found.label_posterior_ is None
    assert found.model_.coupling == pytest.approx(fitted().model_.coupling, abs=0.05)
    np.testing.assert_allclose(found.predict_proba(bags), fitted().predict_proba(bags), atol=0.03)
    np.testing.assert_allclose(found.out_of_bag_.prediction.prob, fitted().out_of_bag_.prediction.prob, atol=0.06)


def test_minibatches_run():
    bags, y, _ = data()
    found = chain().fit(bags, y, batch_bags=10)
    assert found.model_.coupling > 0
    np.testing.assert_allclose(found.predict_proba(bags), fitted().predict_proba(bags), atol=0.15)


class Interrupted(Exception):
    pass


def test_a_fit_that_was_interrupted_goes_on_with_its_coupling(tmp_path):
    bags, y, _ = data()
    whole = chain().fit(bags, y, checkpoint=tmp_path / "whole")

    def stop(row):
        if row["stage"] == "fit" and row["iteration"] == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        chain().fit(bags, y, checkpoint=tmp_path / "part", callbacks=[stop])
    again = chain().fit(bags, y, checkpoint=tmp_path / "part")
    assert again.model_.coupling == whole.model_.coupling
    np.testing.assert_array_equal(again.predict_proba(bags), whole.predict_proba(bags))


def test_a_checkpoint_belongs_to_the_order_of_its_bags(tmp_path):
    """Bags with a gap are other data than those without."""
    bags, y, _ = data()
    links = bags.in_order().links.copy()
    links[0] = 0.0
    options = options_of(resolved(chain()), 2)
    found = {
        Checkpoint.of_fit(tmp_path / "a", one, Supervision(y, np.ones(len(y))), options, np.random.default_rng(0)).fit
        for one in (bags, Bags(bags.X, bags.offsets, links=links))
    }
    assert len(found) == 2


@pytest.mark.filterwarnings("ignore:draws may not represent")
def test_draws_from_the_exact_posterior_are_close():
    """Of hundreds of trajectories one or two may diverge; they are rejected."""
    bags, y, _ = data()
    found = chain(posterior="sampled").fit(bags, y)
    assert found.model_.chains is not None
    assert found.model_.coupling == fitted().model_.coupling
    np.testing.assert_allclose(found.predict_proba(bags), fitted().predict_proba(bags), atol=0.06)


def test_a_kernel_that_is_not_learned_has_links_in_training_and_in_predictions_alike():
    """Whatever J is then, the q(v) of a model is that of its own coupling."""
    bags, y, _ = data()
    found = chain(hyperparameters=None).fit(bags, y)
    independent = chain(hyperparameters=None, labels="independent").fit(bags, y)
    apart = float(np.abs(found.model_.posterior.m - independent.model_.posterior.m).max())
    J = found.model_.coupling
    assert (apart > 1e-6) == (J > 0)


def test_a_warm_start_learns_the_coupling_again():
    bags, y, _ = data()
    found = chain(warm_start=True).fit(bags, y)
    found.fit(bags, y)
    assert found.model_.coupling == pytest.approx(fitted().model_.coupling, abs=0.3)


@pytest.mark.parametrize("estimator", [chain(posterior="augmented"), GVGPMIL(**QUICK)], ids=["augmented", "grows"])
def test_what_has_no_chains_is_refused_in_words(estimator):
    bags, y, _ = data()
    with pytest.raises(InputError, match='labels="chain" needs posterior="variational" or "sampled"'):
        estimator.fit(bags, y)


@pytest.mark.parametrize("calibrate", [True, "auto"])
def test_a_calibration_of_chains_is_refused_in_words_and_none_is_made_unasked(calibrate):
    bags, y, _ = data()
    with pytest.raises(InputError, match=f'labels="chain" has no calibration, got calibrate={calibrate!r}: .*or give'):
        chain(calibrate=calibrate).fit(bags, y)
    assert chain(calibrate=None, max_iter=2).fit(bags, y).model_.calibration == Calibration()
    with pytest.raises(InputError, match="has no calibration"):
        VGPMIL(**QUICK).fit(bags, y).set_params(calibrate=calibrate).partial_fit(bags, y)


def test_another_word_for_labels_is_refused():
    bags, y, _ = data()
    with pytest.raises(InputError, match="labels must be one of None, 'shared', 'independent', 'chain'"):
        chain(labels="ring").fit(bags, y)


def test_bags_of_one_instance_have_no_links_and_fit():
    bags, _, known = data()
    single = Bags(bags.X, np.arange(len(bags.X) + 1))
    found, plain = chain().fit(single, known), chain(labels="independent").fit(single, known)
    same_posterior(found, plain, 1e-9)
    model = replace(found.model_, coupling=3.0)
    np.testing.assert_array_equal(model.predict(single).prob, found.model_.predict(single).prob)
