"""Fits with labels="shared": the slope of log p(T) by tau, what is learned, ways of running, and what is refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems import make, offsets_of
from psimil import GVGPMIL, RBF, VGPMIL, Bags, GammaMixture, PsiVGPMIL
from psimil.estimators.parameters import options_of, resolved
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import antithetic_draws
from psimil.inference import evidence, kernel_learning, training
from psimil.inference.draws import Draws
from psimil.inference.evidence import NaturalSites, evidence_gradient, noise_of, settled
from psimil.inference.kernel_learning import SHARING_PRICE, SHARING_UNIT, Profile, Search, learn_kernel
from psimil.inference.variational import iterate_at, newton
from psimil.model.densities import SmoothLaplace
from psimil.model.shared_labels import MOST_SHARING
from psimil.results.model_card import model_card
from shared_noise import copies, drawn_labels, make_shared, negative

POINTS = np.random.default_rng(5).normal(size=(8, 2)) * 1.5
QUICK = {"n_inducing": 8, "inducing_points": POINTS, "kernel": RBF(4.0, 2.0), "standardize": False}
QUICK |= {"max_iter": 6, "tol": 0.0, "calibrate": False, "random_state": 0}


def shared(**parameters):
    return VGPMIL(**{**QUICK, "labels": "shared", **parameters})


@cache
def data(bags=160):
    """Bags of one to twenty near copies, and labels that depend on what they are copies of."""
    X, y = copies(0, bags=bags)
    return Bags.from_list(X), y


@cache
def fitted(**parameters):
    """Never change it."""
    return shared(**parameters).fit(*data())


# ---------------------------------------------------------------- log p(T) by tau


@pytest.fixture
def to_the_end(monkeypatch):
    """Steps until nothing is left."""
    monkeypatch.setattr(evidence, "ENOUGH", 1e-12)


def at_rest(problem, gp, noise, tau=None):
    """q(v) at its fixed point, with the slope by tau."""
    problem = problem if tau is None else problem.labelled(replace(problem.labels, sharing=tau))
    return settled(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise, steps=30, sharing=True)


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("tau", [0.0, 0.2, 0.5])
def test_the_slope_by_tau_is_that_of_the_estimate_with_sites_and_posterior_taken_along(tau):
    """Within 0.04 nats, as the gradient by the kernel is; bags count as often as their weights say."""
    weights = np.linspace(0.5, 2.0, 20)
    problem, gp = make_shared(0, (3,) * 20, M=5, bias=1.5, residual="projected", weights=weights, sharing=tau)
    noise = Draws.shared(antithetic_draws(gp.size, 1024, seed=0))

    def value(x):
        return at_rest(problem, gp, noise, x).log_evidence

    ahead = 4 * value(tau + 0.02) - 3 * value(tau) - value(tau + 0.04)
    expected = ahead / 0.04 if tau == 0 else (value(tau + 0.02) - value(tau - 0.02)) / 0.04
    assert abs(expected) > 0.4
    assert at_rest(problem, gp, noise).sums.by_sharing == pytest.approx(expected, abs=0.04)


def exact_evidence(problem, gp, tau):
    """log p(T) by the trapezoid rule over three directions of v."""
    axis = np.linspace(-5.5, 5.5, 40)
    v = np.stack([one.ravel() for one in np.meshgrid(axis, axis, axis)])
    log_w = -0.5 * np.square(v).sum(axis=0) - 1.5 * np.log(2 * np.pi) + 3 * np.log(axis[1] - axis[0])
    P0 = negative((gp.features(problem.X) @ v).T, problem.labels.offsets, tau)
    log_w += np.where(problem.labels.T == 1, np.log1p(-P0), np.log(P0)).sum(axis=1)
    return float(np.logaddexp.reduce(log_w))


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tau", [0.0, 0.3, 0.6])
def test_the_slope_by_tau_is_that_of_the_evidence_itself(seed, tau):
    """Within 0.05 nats, up to a tau at which the sites still say what log p(T) is; so is the gradient by the kernel."""
    sizes, kernel = (1, 2, 3, 2, 1, 3, 2, 2, 1, 3), RBF(6.0, (1.0, 1.4))
    problem, gp = make_shared(seed, sizes, M=3, residual="projected", kernel=kernel, sharing=tau)
    noise = Draws.shared(antithetic_draws(gp.size, 2048, seed=1))
    found, h, p = at_rest(problem, gp, noise), 0.01, kernel.log_parameters
    low = max(tau - h, 0.0)
    expected = (exact_evidence(problem, gp, tau + h) - exact_evidence(problem, gp, low)) / (tau + h - low)
    assert expected > 0.4
    assert found.sums.by_sharing == pytest.approx(expected, abs=0.05)
    assert found.log_evidence == pytest.approx(exact_evidence(problem, gp, tau), abs=0.05)
    ends = [[exact_evidence(problem, gp.with_parameters(p + s * e), tau) for s in (1, -1)] for e in 0.05 * np.eye(3)]
    np.testing.assert_allclose(evidence_gradient(problem, found), np.array(ends) @ [10.0, -10.0], atol=0.05)


def profile_of(problem, gp):
    noise = Draws.shared(antithetic_draws(gp.size, 64, 0))
    begun = iterate_at(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise)
    return Profile(problem, gp, noise, NaturalSites.of(problem, begun), sharing=True)


def test_tau_has_a_price_and_does_not_go_below_zero():
    problem, gp = make(5, (3,) * 40, M=8, bias=2.0, residual="projected")
    x, steps = gp.kernel.log_parameters, (0.0, 0.5, 1.0)
    for tau_in_units in steps:
        found = profile_of(problem, gp)(np.append(x, tau_in_units))
        tau, slope = SHARING_UNIT * tau_in_units, found.iterate.sums.by_sharing - SHARING_PRICE
        assert found.iterate.sharing == tau
        assert found.value == pytest.approx(found.iterate.log_evidence - SHARING_PRICE * tau, rel=1e-12)
        assert found.gradient[-1] == pytest.approx(SHARING_UNIT * (slope if tau else max(slope, 0.0)), abs=1e-12)
    apart = Profile(*[getattr(profile_of(problem, gp), name) for name in ("shard", "gp", "noise", "sites")])(x)
    free = profile_of(problem, gp)(np.append(x, 0.0))
    assert free.iterate.log_evidence == apart.iterate.log_evidence
    np.testing.assert_array_equal(free.gradient[:-1], apart.gradient)


@pytest.mark.parametrize(("price", "expected"), [(1e4, 0.0), (-1e4, MOST_SHARING)])
def test_a_search_leaves_tau_within_its_range(monkeypatch, price, expected):
    monkeypatch.setattr(kernel_learning, "SHARING_PRICE", price)
    problem, gp = make(5, (1,) * 20, M=4, bias=2.0, residual="projected")
    found = learn_kernel(problem, gp, 0, sharing=True)
    assert found.sharing == pytest.approx(expected, abs=1e-12)
    begun = at_rest(problem, gp, noise_of(gp, 0), 0.5)
    on = Search(problem, noise_of(gp, 0), lambda _: False, 20, 4, sharing=True).run(gp, begun).iterate
    assert on.sharing == pytest.approx(expected, abs=1e-12)
    fixed = learn_kernel(problem, gp, 0, sharing=True, fixed=True)
    assert (fixed.sharing, fixed.gp.kernel) == (found.sharing, gp.kernel)


# ---------------------------------------------------------------- what is learned


def test_a_fit_learns_that_copies_share_noise_and_says_so():
    bags, y = data()
    found, apart = fitted(), fitted(labels="independent")
    tau = found.model_.sharing
    assert 0.4 < tau <= MOST_SHARING
    assert [row["sharing"] for row in found.history_ if "sharing" in row] == [tau]
    assert model_card(found)["labels"] == f"those of a bag share noise, of rank correlation {tau:.3g}"
    assert apart.model_.sharing == 0.0 and "labels" not in model_card(apart)
    assert not any("sharing" in row for row in apart.history_)
    assert found.out_of_bag_.mean_log_predictive > apart.out_of_bag_.mean_log_predictive + 0.03
    assert (found.predict(bags) == y).mean() > 0.8
    assert np.abs(found.label_posterior_ - apart.label_posterior_).max() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_are_independent_are_found_to_be(seed):
    """Of the same bags: the more copies, the more probable that one of them is positive."""
    X, _ = copies(seed, bags=100, most=40)
    rng = np.random.default_rng(seed)
    y = np.array([drawn_labels(rows[:, 0] - 3.0, 0.0, 1, rng).any() for rows in X]).astype(int)
    assert shared().fit(Bags.from_list(X), y).model_.sharing < 0.01


def test_what_is_given_is_kept_and_tau_is_learned_beside_it():
    found = fitted(hyperparameters=None)
    assert found.kernel_ == QUICK["kernel"]
    assert found.model_.sharing > 0.4
    assert fitted(hyperparameters=None, labels=None).model_.sharing == 0.0


def test_bags_of_one_share_nothing():
    X = np.concatenate(list(data(40)[0]))[:60]
    single, y = Bags(X, offsets_of([1] * 60)), (X[:, 0] > 0).astype(int)
    found, plain = shared().fit(single, y), shared(labels="independent").fit(single, y)
    assert found.model_.sharing == 0.0
    np.testing.assert_allclose(found.predict_proba(single), plain.predict_proba(single), atol=1e-9)


@pytest.mark.parametrize("settings", [{"H": 30.0}, {"density": SmoothLaplace(0.6, 1.0)}, {"aggregate": "max"}], ids=str)
def test_other_models_share_noise_too_and_are_taught(settings):
    bags, y = data()
    known = np.where(np.arange(len(bags.X)) % 7, -1, np.repeat(y, bags.sizes))
    found = PsiVGPMIL(**{**QUICK, "labels": "shared", **settings}).fit(bags, y, y_instances=known)
    assert found.model_.sharing > 0.1
    assert np.isfinite(found.out_of_bag_.log_predictive).all()
    assert (found.predict(bags) == y).mean() > 0.7


# ---------------------------------------------------------------- ways of running


@pytest.mark.parametrize("settings", [{"chunk_size": 200}, {"dtype": "float32"}], ids=str)
def test_ways_of_running_agree(settings):
    bags, _ = data()
    found = fitted(**settings)
    assert found.model_.sharing == pytest.approx(fitted().model_.sharing, abs=1e-3)
    np.testing.assert_allclose(found.predict_proba(bags), fitted().predict_proba(bags), atol=2e-3)


def test_a_streamed_fit_is_nearly_that_in_memory(monkeypatch):
    """With one kernel: a streamed search for another has other draws."""
    expected, taken, out_of_bag = fitted(hyperparameters=None), [], training.out_of_bag
    monkeypatch.setattr(training, "LARGE", 0)
    monkeypatch.setattr(training, "out_of_bag", lambda *of, **how: taken.append(of[1]) or out_of_bag(*of, **how))
    bags, y = data()
    found = shared(chunk_size=200, hyperparameters=None).fit(bags, y)
    assert taken[0].labels.sharing == found.model_.sharing
    assert found.label_posterior_ is None
    assert found.model_.sharing == pytest.approx(expected.model_.sharing, abs=0.1)
    np.testing.assert_allclose(found.predict_proba(bags), expected.predict_proba(bags), atol=0.03)
    np.testing.assert_allclose(found.out_of_bag_.prediction.prob, expected.out_of_bag_.prediction.prob, atol=0.06)


def test_minibatches_and_a_warm_start_share_as_much():
    bags, y = data()
    found = shared().fit(bags, y, batch_bags=50)
    assert found.model_.sharing == pytest.approx(fitted().model_.sharing, abs=0.1)
    np.testing.assert_allclose(found.predict_proba(bags), fitted().predict_proba(bags), atol=0.1)
    again = shared(warm_start=True).fit(bags, y).fit(bags, y)
    assert again.model_.sharing == pytest.approx(fitted().model_.sharing, abs=0.25)


class Interrupted(Exception):
    pass


def test_a_fit_that_was_interrupted_goes_on_with_its_tau(tmp_path):
    bags, y = data()
    whole = shared(max_iter=3).fit(bags, y, checkpoint=tmp_path / "whole")

    def stop(row):
        if row["stage"] == "fit" and row["iteration"] == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        shared(max_iter=3).fit(bags, y, checkpoint=tmp_path / "part", callbacks=[stop])
    again = shared(max_iter=3).fit(bags, y, checkpoint=tmp_path / "part")
    assert again.model_.sharing == whole.model_.sharing > 0.4
    np.testing.assert_array_equal(again.predict_proba(bags), whole.predict_proba(bags))


@pytest.mark.filterwarnings("ignore:draws may not represent")
def test_draws_from_the_exact_posterior_are_close():
    bags, y = data()
    found = shared(posterior="sampled").fit(bags, y)
    assert found.model_.chains is not None
    assert found.model_.sharing == fitted().model_.sharing
    np.testing.assert_allclose(found.predict_proba(bags), fitted().predict_proba(bags), atol=0.06)


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({}, "shared"),
        ({"posterior": "sampled"}, "shared"),
        ({"kernel": RBF()}, "shared"),
        ({"hyperparameters": None}, "independent"),
        ({"posterior": "augmented"}, "independent"),
        ({"density": GammaMixture()}, "independent"),
        ({"hyperparameters": None, "labels": "shared"}, "shared"),
        ({"labels": "independent"}, "independent"),
        ({"labels": "chain"}, "chain"),
    ],
    ids=str,
)
def test_labels_share_noise_where_nothing_else_is_said_and_a_kernel_is_learned(given, labels):
    assert options_of(resolved(PsiVGPMIL(**given)), 2).labels == labels


@pytest.mark.parametrize("estimator", [shared(posterior="augmented"), GVGPMIL(labels="shared")], ids=["asked", "grows"])
def test_what_knows_no_shared_noise_is_refused_in_words(estimator):
    with pytest.raises(InputError, match='labels="shared" needs posterior="variational" or "sampled", and a density'):
        estimator.fit(*data(40))
