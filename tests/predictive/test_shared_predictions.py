"""Predictions where labels share noise: averages over draws of q(v), between noisy-or and "max", files and updates."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtri

from model_files import put_together, take_apart
from psimil import RBF, VGPMIL, Bags, PsiVGPMIL
from psimil.foundations.errors import ModelFileError
from psimil.foundations.hamiltonian import Chains
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.draws import Draws
from psimil.inference.out_of_bag import leave_out
from psimil.inference.variational import Stage, climb, newton
from psimil.predictive.aggregates import NoisyOr, dependence_of
from psimil.predictive.calibration import bag_log_likelihoods
from psimil.predictive.moments import Calibration, instance_moments
from shared_noise import copies, make_shared, negative

SETTINGS = {"n_inducing": 6, "kernel": RBF(3.0, 1.5), "max_iter": 6, "tol": 0.0, "random_state": 0}
TAUS = [0.0, 0.3, 0.7, 0.8]
STRATIFIED = ndtri((np.arange(128) + 0.5) / 128)
close = np.testing.assert_allclose


@cache
def fitted(**changes):
    """Never change it."""
    X, y = copies(0, bags=40)
    return VGPMIL(**SETTINGS | changes).fit(Bags.from_list(X), y)


def model_with(**changes):
    """The model of a fit with a tau of its own, and nothing between latent values and probabilities."""
    return replace(fitted().model_, **{"sharing": 0.6, "novelty": None, **changes})


def bags_to_predict():
    """Bags of one to nine instances, near each other and far apart."""
    rng = np.random.default_rng(7)
    return Bags.from_list([s * rng.normal(size=(n, 2)) for n, s in ((1, 1.0), (9, 0.3), (4, 1.0), (2, 2.0), (7, 1.0))])


def drawn(model, bags, count=60_000):
    """(S, N) latent values at draws of q(v)."""
    v = model.posterior.m[:, None] + model.posterior.U @ np.random.default_rng(0).normal(size=(model.gp.size, count))
    return (model.gp.features(model.scaling.apply(bags.X)) @ v).T


def sampled(model):
    """The same with draws of v, as where the posterior was sampled."""
    return replace(model, chains=Chains(model.draws, 1.0, 400.0, 0, 0.9))


# ---------------------------------------------------------------- what bags are


@pytest.mark.parametrize("level", [-20.0, -23.0, -25.0, -27.0, -30.0, -33.0, -36.0, -39.0, -300.0])
def test_probabilities_too_small_for_a_product_share_noise_too(level):
    """Instances that are equal: A = n^(1 - tau) a, on either side of the place where 1 - P0 loses its digits."""
    f, n, tau = level + 0.2 * STRATIFIED[:, None] * np.ones(100), 100, 0.8
    offsets, variance = np.array([0, n]), np.full(n, 0.04)
    instances = instance_moments(np.full(n, level), variance)
    found = NoisyOr().moments(instances, offsets, dependence_of(f, variance, offsets, tau))
    assert found.log_odds[0] == pytest.approx(instances.log_odds[0] + (1 - tau) * np.log(n), abs=0.02)


def test_noise_is_shared_where_no_draw_reaches_what_makes_a_bag_positive():
    """Hazards of draws are rounding, and marginals, known exactly, are not: they share as the draws do."""
    f, n, tau = -40.0 + 0.2 * STRATIFIED[:, None] * np.ones(100), 100, 0.8
    offsets, instances = np.array([0, n]), instance_moments(np.full(n, -40.0), np.full(n, 50.0))
    found = NoisyOr().moments(instances, offsets, dependence_of(f, np.full(n, 50.0), offsets, tau))
    assert -20 < instances.log_odds[0] < -10
    assert found.log_odds[0] == pytest.approx(instances.log_odds[0] + (1 - tau) * np.log(n), abs=0.02)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("calibrated", [False, True])
def test_probabilities_are_averages_over_draws_of_the_definition(monkeypatch, tau, calibrated):
    """Of 2^14 draws of the model and 60 000 here: within thousandths; of as many as usual within hundredths."""
    bags, calibration = bags_to_predict(), Calibration(1.3, -0.4, 0.8) if calibrated else Calibration()
    model = model_with(sharing=tau, calibration=calibration)
    f = drawn(model, bags)
    f = calibration.scale * f.mean(axis=0) + calibration.shift + calibration.spread * (f - f.mean(axis=0))
    P0 = negative(f, bags.offsets, tau)
    usual = model.predict(bags)
    close(usual.prob, 1.0 - P0.mean(axis=0), atol=0.02)
    monkeypatch.setattr("psimil.predictive.trained.DRAWS", 1 << 14)
    found, z = model.predict(bags, level=0.8), 1.2815515655446004
    close(found.prob, 1.0 - P0.mean(axis=0), atol=4e-3)
    close(found.std, P0.std(axis=0), atol=6e-3)
    log_odds = np.log1p(-P0) - np.log(P0)
    ends = [1 / (1 + np.exp(-log_odds.mean(axis=0) - side * z * log_odds.std(axis=0))) for side in (-1, 1)]
    close([found.lower, found.upper], ends, atol=0.02)


@pytest.mark.parametrize("tau", TAUS)
def test_draws_that_a_model_has_are_averaged_exactly(tau):
    bags, model = bags_to_predict(), sampled(model_with(sharing=tau))
    f = (model.gp.features(model.scaling.apply(bags.X)) @ model.draws.T).T
    P0, found = negative(f, bags.offsets, tau), model.predict(bags)
    close(found.prob, 1.0 - P0.mean(axis=0), rtol=1e-9)
    close(found.std, P0.std(axis=0), rtol=1e-9)
    close([found.lower, found.upper], np.quantile(1.0 - P0, [0.025, 0.975], axis=0), rtol=1e-9)
    close(found.log_odds, np.log(1.0 / P0.mean(axis=0) - 1.0), rtol=1e-9)


@pytest.mark.parametrize("way", [lambda model: model, sampled], ids=["moments", "draws"])
def test_a_bag_is_between_its_most_probable_instance_and_noisy_or(way):
    """And the less probable the more noise is shared; instances, and bags of one, are what they are without it."""
    bags = bags_to_predict()
    found = [way(model_with(sharing=tau)).predict(bags) for tau in [*TAUS, 1.0 - 1e-9]]
    prob, many = np.stack([one.prob for one in found]), bags.sizes > 1
    assert (np.diff(prob[:-1], axis=0)[:, many] < 0).all() and (np.diff(prob, axis=0) <= 1e-15).all()
    close(prob[:, ~many], prob[:1, ~many].repeat(len(prob), axis=0), rtol=1e-12)
    for one in found:
        np.testing.assert_array_equal(one.instance_prob, found[0].instance_prob)
        assert (one.prob >= np.maximum.reduceat(one.instance_prob, bags.offsets[:-1]) - 1e-12).all()
        assert (one.lower <= one.prob).all() and (one.prob <= one.upper).all()
    f = way(model_with()).draws @ model_with().gp.features(model_with().scaling.apply(bags.X)).T
    tops = 1.0 / (1.0 + np.exp(-np.maximum.reduceat(f, bags.offsets[:-1], axis=1)))
    close(prob[-1], tops.mean(axis=0), atol=0.02)


def test_the_most_probable_instance_makes_the_bag_whatever_is_shared():
    bags = bags_to_predict()
    for way in (lambda model: model, sampled):
        one, two = (way(model_with(aggregate="max", sharing=tau)).predict(bags) for tau in (0.0, 0.7))
        np.testing.assert_array_equal(two.prob, one.prob)


def test_many_bags_are_predicted_in_parts_and_some_as_among_others(monkeypatch):
    bags = bags_to_predict()
    for way in (lambda model: model, sampled):
        expected = way(model_with()).predict(bags)
        close(way(model_with()).predict(bags[[3, 1]]).prob, expected.prob[[3, 1]], rtol=1e-12)
        with monkeypatch.context() as patched:
            patched.setattr("psimil.predictive.trained.ROWS", 1024)
            close(way(model_with()).predict(bags).prob, expected.prob, rtol=1e-12)


# ---------------------------------------------------------------- bags left out


def test_bags_left_out_share_noise_as_they_do_in_training():
    """Moments of instances are of the sites alone; how they hang together is what draws say of tau."""
    problem, gp = make_shared(2, (1, 3, 2, 7, 3, 1, 12, 5), M=5, bias=1.0, residual="projected", sharing=0.6)
    stage = Stage(Draws.shared(antithetic_draws(gp.size, 64, seed=0)), tilted=False, enough=0.0)
    record = next(climb(problem, gp, newton(problem, gp, np.zeros(gp.size)), [stage]))
    fold, offsets = np.arange(8), problem.labels.offsets
    found = leave_out(record, problem, fold)
    apart = leave_out(record, replace(problem, labels=replace(problem.labels, sharing=0.0)), fold)
    np.testing.assert_array_equal(found.mean, apart.mean)
    np.testing.assert_array_equal(found.dependence.log_apart, apart.dependence.log_apart)
    many = np.diff(offsets) > 1
    assert (found.dependence.log_negative[many] > apart.dependence.log_negative[many] + 0.01).all()
    close(found.dependence.log_negative[~many], apart.dependence.log_negative[~many], rtol=1e-12)
    f = np.random.default_rng(0).normal(size=(200, offsets[-1]))
    expected = np.log(negative(f, offsets, 0.6).mean(axis=0))
    close(dependence_of(f, f.var(axis=0), offsets, 0.6).log_negative, expected, rtol=1e-12)


def test_out_of_bag_predictions_are_those_of_bags_that_were_never_there():
    """Nearly so: kernel and tau are learned of them, too."""
    X, y = copies(0, bags=40)
    loo, tau = fitted().out_of_bag_.prediction, fitted().model_.sharing
    assert tau > 0.2
    tops = np.maximum.reduceat(loo.instance_prob, loo.offsets[:-1])
    apart = 1.0 - np.exp(np.add.reduceat(np.log1p(-loo.instance_prob), loo.offsets[:-1]))
    assert (tops - 1e-9 <= loo.prob).all() and (loo.prob <= apart + 1e-9).all()
    assert np.abs(loo.prob - apart).max() > 0.1
    for b in (0, 1):
        others = np.arange(40) != b
        alone = VGPMIL(**SETTINGS).fit(Bags.from_list([X[i] for i in np.flatnonzero(others)]), y[others])
        assert loo.prob[b] == pytest.approx(alone.predict_dist(Bags.from_list([X[b]])).prob[0], abs=0.1)


def test_calibrations_look_at_bags_that_share_noise():
    """Where nothing is changed, they see the scores of bags left out; without tau these are others."""
    found = fitted().out_of_bag_
    latent, score = found.latent, found.log_predictive
    apart = replace(latent, dependence=latent.dependence._replace(log_negative=latent.dependence.log_apart))
    errors = [np.abs(bag_log_likelihoods(bags, np.zeros(3))[0] - score).mean() for bags in (latent, apart)]
    assert errors[0] < 0.02 and errors[1] > 0.1
    model = fitted(calibrate=True).model_
    assert model.sharing == fitted().model_.sharing
    assert 0.8 < model.calibration.scale < 1.25 and abs(model.calibration.shift) < 0.3


# ---------------------------------------------------------------- files and updates


def test_a_file_keeps_tau_and_predictions_bit_by_bit(tmp_path):
    bags, estimator = bags_to_predict(), fitted()
    estimator.save(tmp_path / "model")
    loaded = PsiVGPMIL.load(tmp_path / "model")
    assert loaded.model_.sharing == estimator.model_.sharing > 0
    one, two = estimator.predict_dist(bags), loaded.predict_dist(bags)
    for name in ("prob", "std", "lower", "upper", "instance_prob", "instance_lower", "instance_upper"):
        np.testing.assert_array_equal(getattr(two, name), getattr(one, name))


def test_a_file_from_before_noise_was_shared_has_independent_labels(tmp_path):
    fitted().save(tmp_path / "model")
    tensors, text = take_apart((tmp_path / "model").read_bytes())
    del text["model"]["sharing"]
    text["format"] = 4
    (tmp_path / "old").write_bytes(put_together(tensors, text))
    loaded, bags = PsiVGPMIL.load(tmp_path / "old"), bags_to_predict()
    assert loaded.model_.sharing == 0.0
    expected = replace(fitted().model_, sharing=0.0).predict(bags)
    np.testing.assert_array_equal(loaded.predict_dist(bags).prob, expected.prob)
    assert np.abs(expected.prob - fitted().predict_dist(bags).prob).max() > 0.01
    text["format"] = 5
    (tmp_path / "new").write_bytes(put_together(tensors, text))
    with pytest.raises(ModelFileError, match="facts are incomplete"):
        PsiVGPMIL.load(tmp_path / "new")


@pytest.mark.parametrize("tau", [float("nan"), 1.0, 0.801, -0.1, "x", None, True, [0.5]])
def test_a_file_with_a_tau_that_is_none_is_refused(tmp_path, tau):
    fitted().save(tmp_path / "model")
    tensors, text = take_apart((tmp_path / "model").read_bytes())
    text["model"]["sharing"] = tau
    (tmp_path / "broken").write_bytes(put_together(tensors, text))
    with pytest.raises(ModelFileError, match=r"sharing must be a number between 0 and 0\.8"):
        PsiVGPMIL.load(tmp_path / "broken")


def test_new_bags_are_learned_with_the_tau_of_the_first_as_the_definition_says():
    """Draws of q(v) before, weighed by the likelihood of the new bags, have mean and deviations of after."""
    X, y = copies(0, bags=60)
    new, T = Bags.from_list(X[40:56]), y[40:56]
    model = deepcopy(fitted())
    model.model_ = model_with(sharing=0.9)
    before, f = model.model_.posterior, drawn(model.model_, new, 30_000)
    v = before.m[:, None] + before.U @ np.random.default_rng(0).normal(size=(len(before.m), 30_000))

    def moments(tau):
        P0 = negative(f, new.offsets, tau)
        w = np.where(T == 1, 1.0 - P0, P0).prod(axis=1)
        w /= w.sum()
        assert 1.0 / np.square(w).sum() > 1000  # draws that count
        return v @ w, np.sqrt(np.square(v - (v @ w)[:, None]) @ w)

    (mean, std), (apart, _) = moments(0.9), moments(0.0)
    model.partial_fit(new, T)
    after = model.model_
    assert after.sharing == 0.9
    assert model.training_counts_["bags"] == 56
    assert (np.abs(after.posterior.m - mean) / std).max() < 0.12
    close(np.sqrt(np.diag(after.posterior.S)), std, rtol=0.12)
    assert (np.abs(apart - mean) / std).max() > 0.3  # what is shared matters here
