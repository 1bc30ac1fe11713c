"""Predictions where labels form chains: averages over draws of q(v) of enumerated labels, and files that keep them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from chained import joint, runs
from model_files import put_together, take_apart
from problems import labellings
from psimil import RBF, VGPMIL, Bags, PsiVGPMIL
from psimil.foundations.errors import ModelFileError
from psimil.model.sparse_gp import Posterior
from psimil.predictive.moments import Calibration

SETTINGS = {"labels": "chain", "n_inducing": 6, "kernel": RBF(3.0, 1.5), "max_iter": 4, "tol": 0.0, "random_state": 0}


@cache
def fitted():
    """Never change it."""
    X, y, _ = runs(3, bags=16, size=5)
    return VGPMIL(**SETTINGS).fit(Bags.from_list(list(X)), y)


def model_with(**changes):
    """The model of a fit with links of its own strength, and nothing between latent values and probabilities."""
    return replace(fitted().model_, **{"coupling": 1.7, "novelty": None, **changes})


def bags_to_predict():
    """Bags of one to six instances with links of various strengths and a gap; the links by themselves."""
    rng = np.random.default_rng(7)
    sizes = np.array([1, 6, 3, 5, 2])
    links = rng.uniform(0.3, 1.5, sizes.sum())
    links[[4, *np.cumsum(sizes) - 1]] = 0.0
    return Bags(rng.normal(size=(sizes.sum(), 2)), [0, *np.cumsum(sizes)], links=links), links


def averages(model, bags, J, v, change=lambda f: f):
    """Per bag (B,) mean and deviation of P(T = 1), per instance (N,) mean and deviation of P(y = 1), labels enumerated.

    Parameters
    ----------
    v : (M, S) draws.
    change : what is done to latent values (S, N).
    """
    f = change((model.gp.features(model.scaling.apply(bags.X)) @ v).T)
    of_bags, of_instances = [], []
    for a, b in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        p = np.exp(joint(f[:, a:b], J[a:b]))
        of_bags.append(1.0 - p[:, 0])
        of_instances.append(p @ labellings(b - a))
    of_bags, of_instances = np.stack(of_bags, axis=1), np.concatenate(of_instances, axis=1)
    return of_bags.mean(axis=0), of_bags.std(axis=0), of_instances.mean(axis=0), of_instances.std(axis=0)


def draws_of(posterior, count=60_000):
    S = np.linalg.inv(posterior.R @ posterior.R.T)
    noise = np.random.default_rng(0).normal(size=(len(S), count))
    return posterior.m[:, None] + np.linalg.cholesky(S) @ noise


@pytest.mark.parametrize("calibrated", [False, True])
def test_probabilities_are_averages_over_draws_of_enumerated_chains(monkeypatch, calibrated):
    """Of 2^15 draws of the model and 60 000 here: within thousandths."""
    monkeypatch.setattr("psimil.predictive.trained.KEPT", 1 << 15)
    bags, links = bags_to_predict()
    model = model_with(calibration=Calibration(1.3, -0.4, 0.8) if calibrated else Calibration())

    def change(f):
        mean = f.mean(axis=0)
        return 1.3 * mean - 0.4 + 0.8 * (f - mean) if calibrated else f

    prob, std, instance_prob, instance_std = averages(model, bags, 1.7 * links, draws_of(model.posterior), change)
    found = model.predict(bags)
    np.testing.assert_allclose(found.prob, prob, atol=3e-3)
    np.testing.assert_allclose(found.std, std, atol=8e-3)
    np.testing.assert_allclose(found.instance_prob, instance_prob, atol=3e-3)
    np.testing.assert_allclose(found.instance_std, instance_std, atol=8e-3)
    if calibrated:
        np.testing.assert_allclose(model.predict(bags, raw=True).prob, model_with().predict(bags).prob, atol=1e-12)


def test_draws_that_a_model_has_are_averaged_exactly():
    """Of the 512 draws that every prediction rests on, to rounding."""
    bags, links = bags_to_predict()
    model = model_with()
    found, expected = model.predict(bags), averages(model, bags, 1.7 * links, model.draws.T)
    for mine, right in zip((found.prob, found.std, found.instance_prob, found.instance_std), expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(bags, joint=True).joint_std, found.std)


def test_one_prediction_has_probabilities_within_its_intervals_and_log_odds_that_fit():
    bags, _ = bags_to_predict()
    found = model_with().predict(bags, level=0.8)
    np.testing.assert_allclose(found.log_odds, np.log(found.prob) - np.log1p(-found.prob), atol=1e-9)
    assert (found.lower <= found.prob).all() and (found.prob <= found.upper).all()
    assert (found.instance_lower <= found.instance_prob).all() and (found.instance_prob <= found.instance_upper).all()


def test_a_bag_is_at_least_as_probable_as_its_instances_and_links_make_it_less_so():
    bags, _ = bags_to_predict()
    chained, independent = model_with().predict(bags), model_with(coupling=0.0).predict(bags)
    most = np.maximum.reduceat(chained.instance_prob, bags.offsets[:-1])
    assert (chained.prob >= most - 1e-12).all()
    apart = 1.0 - np.exp(np.add.reduceat(np.log1p(-chained.instance_prob), bags.offsets[:-1]))
    assert (chained.prob[1:4] < apart[1:4]).all()
    assert np.abs(chained.instance_prob - independent.instance_prob).max() > 0.01


def certain(model):
    """The same with a q(v) that has hardly any variance."""
    return replace(model, posterior=Posterior(model.posterior.m, 1e7 * np.eye(model.gp.size)))


def test_a_gap_makes_two_chains_of_one():
    """Marginals are those of two bags; given v, so is the probability that all labels are negative."""
    X = np.random.default_rng(8).normal(size=(8, 2))
    one = Bags.from_list([X]).in_order([0.0, 1, 2, 4, 5, 6, 7, 8])
    two = Bags.from_list([X[:3], X[3:]])
    assert one.links.tolist() == [1, 1, 0, 1, 1, 1, 1, 0]
    whole = Bags.from_list([X])
    for model in (model_with(), certain(model_with())):
        found, halves, linked = (model.predict(bags) for bags in (one, two, whole))
        np.testing.assert_allclose(found.instance_prob, halves.instance_prob, rtol=1e-12)
        assert np.abs(found.instance_prob / linked.instance_prob - 1.0).max() > 0.5
    assert 1 - found.prob[0] == pytest.approx((1 - halves.prob).prod(), rel=1e-5)
    assert 1 - linked.prob[0] > (1 + 1e-3) * (1 - found.prob[0])


def test_bags_that_say_nothing_are_in_the_order_of_their_rows():
    X = list(np.random.default_rng(9).normal(size=(3, 4, 2)))
    model = model_with()
    plain, ordered = model.predict(Bags.from_list(X)), model.predict(Bags.from_list(X).in_order())
    np.testing.assert_array_equal(plain.instance_prob, ordered.instance_prob)
    np.testing.assert_array_equal(plain.prob, ordered.prob)


def test_bags_reversed_have_their_probabilities_reversed():
    rng = np.random.default_rng(10)
    X = [rng.normal(size=(n, 2)) for n in (1, 6, 3)]
    one = model_with().predict(Bags.from_list(X))
    two = model_with().predict(Bags.from_list([rows[::-1] for rows in X]))
    np.testing.assert_allclose(two.prob, one.prob, rtol=1e-12)
    back = np.concatenate([part[::-1] for part in np.split(one.instance_prob, one.offsets[1:-1])])
    np.testing.assert_allclose(two.instance_prob, back, rtol=1e-12)


def test_some_bags_are_predicted_as_among_others():
    bags, _ = bags_to_predict()
    found, some = model_with().predict(bags), model_with().predict(bags[[3, 1]])
    np.testing.assert_allclose(some.prob, found.prob[[3, 1]], rtol=1e-12)


def test_many_bags_are_predicted_in_parts(monkeypatch):
    bags, _ = bags_to_predict()
    expected = model_with().predict(bags)
    monkeypatch.setattr("psimil.predictive.trained.ROWS", 1024)
    found = model_with().predict(bags)
    np.testing.assert_allclose(found.prob, expected.prob, rtol=1e-12)
    np.testing.assert_allclose(found.instance_prob, expected.instance_prob, rtol=1e-12)


def test_the_most_probable_instance_may_make_the_bag():
    bags, _ = bags_to_predict()
    model = model_with(aggregate="max")
    found = certain(model).predict(bags)
    np.testing.assert_allclose(found.prob, np.maximum.reduceat(found.instance_prob, bags.offsets[:-1]), rtol=1e-6)


def test_a_file_keeps_the_coupling_and_predictions_bit_by_bit(tmp_path):
    bags, _ = bags_to_predict()
    estimator = fitted()
    estimator.save(tmp_path / "model")
    loaded = PsiVGPMIL.load(tmp_path / "model")
    assert loaded.labels == "chain"
    assert loaded.model_.coupling == estimator.model_.coupling > 0
    one, two = estimator.predict_dist(bags), loaded.predict_dist(bags)
    for name in ("prob", "std", "lower", "upper", "instance_prob", "instance_lower", "instance_upper"):
        np.testing.assert_array_equal(getattr(two, name), getattr(one, name))


@pytest.mark.parametrize("J", [-0.1, 101.0, None, "strong", True, [1.0]])
def test_a_file_with_a_coupling_that_is_none_is_refused(tmp_path, J):
    fitted().save(tmp_path / "model")
    tensors, text = take_apart((tmp_path / "model").read_bytes())
    text["model"]["coupling"] = J
    (tmp_path / "broken").write_bytes(put_together(tensors, text))
    with pytest.raises(ModelFileError):
        PsiVGPMIL.load(tmp_path / "broken")


def test_out_of_bag_predictions_are_chained_too():
    """A bag that is left out is predicted about as a bag that was never there."""
    X, y, _ = runs(3, bags=16, size=5)
    loo = fitted().out_of_bag_.prediction
    assert (loo.prob > np.maximum.reduceat(loo.instance_prob, loo.offsets[:-1]) - 0.05).all()
    for b in (0, 1):
        others = np.arange(16) != b
        alone = VGPMIL(**SETTINGS).fit(Bags.from_list(list(X[others])), y[others])
        found = alone.predict_dist(Bags.from_list([X[b]]))
        assert loo.prob[b] == pytest.approx(found.prob[0], abs=0.15)


def test_weak_links_are_links():
    """However little a chain couples, intervals and moments are of draws."""
    bags, _ = bags_to_predict()
    found = model_with(coupling=0.3).predict(bags)
    assert model_with(coupling=0.3).by_draws and found.bounds is not None
    assert not model_with(coupling=0.0).by_draws and model_with(coupling=0.0).predict(bags).bounds is None
