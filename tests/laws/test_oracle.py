"""The Gibbs sampler against closed forms, enumeration and quadrature."""

import numpy as np
import pytest
from scipy.stats import kstest

from oracle import LatentModel, draw_polya_gamma, draw_posterior, mixed_sweep, model_of, simulate, slice_step, sweep
from oracle.gibbs import draw_weights, mean_and_error, scale_reduction
from oracle.latent_model import prior_root
from problems import dense, labellings, make, rbf
from psimil.foundations.errors import InputError
from psimil.model.densities import GammaMixture
from small_models import SMALL, bags_of, quadrature_moments, sigmoid, small_model

TILTS = [0.0, 1e-3, 0.3, 1.0, 2.5, 3.124, 3.126, 6.0, 20.0, 200.0]


def pg_mean(c):
    return 0.25 if c == 0 else np.tanh(c / 2) / (2 * c)


def pg_variance(c):
    if c < 0.01:
        return 1 / 24 - c**2 / 120
    return (np.tanh(c / 2) / (2 * c) - 1 / (4 * np.cosh(c / 2) ** 2)) / c**2 if c < 300 else 1 / (2 * c**3)


def pg_laplace(c, t):
    """E exp(-t omega), in logs so that large c do not overflow."""
    a, b = c / 2, np.sqrt((c**2 / 2 + t) / 2)
    return np.exp(a + np.log1p(np.exp(-2 * a)) - b - np.log1p(np.exp(-2 * b)))


def check_polya_gamma(c, count, seed):
    omega = draw_polya_gamma(np.full(count, c), np.random.default_rng(seed))
    assert omega.shape == (count,) and (omega > 0).all()
    root = np.sqrt(count)
    assert abs(omega.mean() - pg_mean(c)) < 4.5 * omega.std() / root
    spread = (omega - pg_mean(c)) ** 2
    assert abs(spread.mean() - pg_variance(c)) < 4.5 * spread.std() / root
    for t in (0.5 / pg_mean(c), 3 / pg_mean(c), 20 / pg_mean(c)):
        transformed = np.exp(-t * omega)
        assert abs(transformed.mean() - pg_laplace(c, t)) < 4.5 * transformed.std() / root


@pytest.mark.parametrize("c", TILTS)
def test_polya_gamma_has_its_mean_variance_and_laplace_transform(c):
    check_polya_gamma(c, 40_000, 11)


@pytest.mark.slow
@pytest.mark.parametrize("c", TILTS)
def test_polya_gamma_moments_to_three_digits(c):
    check_polya_gamma(c, 3_000_000, 12)


@pytest.mark.parametrize("c", [0.0, 2.0, 7.0])
def test_polya_gamma_has_its_whole_distribution(c):
    """Against the infinite convolution of exponentials that defines it, its tail replaced by the mean."""
    rng = np.random.default_rng(5)
    k = np.arange(1, 201) - 0.5
    weights = 1 / (2 * np.pi**2 * (k**2 + c**2 / (4 * np.pi**2)))
    rest = pg_mean(c) - weights.sum()
    defined = rng.exponential(size=(20_000, 200)) @ weights + rest
    assert kstest(draw_polya_gamma(np.full(20_000, c), rng), defined).pvalue > 1e-3
    assert kstest(draw_polya_gamma(np.full(20_000, c + 1), rng), defined).pvalue < 1e-3


def test_polya_gamma_does_not_depend_on_the_sign_and_keeps_the_shape():
    c = np.array([[1.0, -1.0, 2.0], [-2.0, 0.0, 5.0]])
    one, other = (draw_polya_gamma(s * c, np.random.default_rng(3)) for s in (1, -1))
    assert one.shape == c.shape
    np.testing.assert_array_equal(one, other)
    assert draw_polya_gamma(np.empty(0), np.random.default_rng(0)).shape == (0,)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_polya_gamma_refuses_what_is_not_finite(bad):
    with pytest.raises(InputError, match="not every value is finite"):
        draw_polya_gamma(np.array([0.0, bad]), np.random.default_rng(0))


def joint_labels(f, T, H):
    """(2^n,) p(y | f, T) of one bag and log p(T | f), by enumeration."""
    Y = labellings(len(f))
    prior = np.prod(np.where(Y == 1, sigmoid(f), sigmoid(-f)), axis=1)
    agree = Y.max(axis=1) == T
    likelihood = agree.astype(float) if np.isinf(H) else np.where(agree, H, 1.0) / (1 + H)
    joint = prior * likelihood
    return joint / joint.sum(), np.log(joint.sum())


@pytest.mark.parametrize("H", [1.0, 4.0, 100.0, np.inf])
def test_labels_given_latents_are_those_of_the_enumeration(H):
    rng = np.random.default_rng(8)
    offsets = np.array([0, 3, 4, 8, 10])
    model = LatentModel(np.zeros((10, 1)), offsets, float(np.log(H)))
    f, T, count = 2 * rng.normal(size=10) - 1, np.array([1, 1, 0, 0]), 60_000
    drawn = model.draw_labels(np.tile(f, (count, 1)), np.tile(T, (count, 1)), rng)
    probabilities, log_likelihood = model.label_probabilities(f, T), model.log_likelihood(f, T)
    for b, (start, stop) in enumerate(bags_of(model)):
        joint, log_p = joint_labels(f[start:stop], T[b], H)
        Y = labellings(stop - start)
        assert log_likelihood[b] == pytest.approx(log_p, abs=1e-12)
        np.testing.assert_allclose(probabilities[start:stop], joint @ Y, atol=1e-13)
        code = drawn[:, start:stop] @ (2 ** np.arange(stop - start)[::-1])
        found = np.bincount(code, minlength=len(joint)) / count
        assert (np.abs(found - joint) <= 4.5 * np.sqrt(joint * (1 - joint) / count)).all()


def test_labels_are_right_where_positives_are_very_unlikely():
    model = LatentModel(np.zeros((3, 1)), np.array([0, 3]))
    f = np.array([-60.0, -61.0, -59.0])
    expected = np.exp(f) / np.exp(f).sum()
    np.testing.assert_allclose(model.label_probabilities(f, np.array([1])), expected, rtol=1e-12)
    drawn = model.draw_labels(np.tile(f, (20_000, 1)), np.ones((20_000, 1)), np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 1).all()
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.015)


def test_weights_given_the_rest_have_the_moments_of_the_gaussian():
    rng = np.random.default_rng(1)
    W, omega, y = rng.normal(size=(4, 2)), rng.uniform(0.1, 2, 4), np.array([1, 0, 0, 1])
    count = 100_000
    w = draw_weights(W, np.tile(omega, (count, 1)), np.tile(y, (count, 1)), rng)
    S = np.linalg.inv(np.eye(2) + W.T @ np.diag(omega) @ W)
    np.testing.assert_allclose(w.mean(axis=0), S @ W.T @ (y - 0.5), atol=4.5 * np.sqrt(S.max() / count))
    np.testing.assert_allclose(np.cov(w.T), S, atol=4.5 * 1.5 * S.max() / np.sqrt(count))


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_root_gives_the_prior_covariance(bias):
    problem, gp = make(2, residual="full", bias=bias)
    W = prior_root(gp, problem.X)
    K = rbf(problem.X, problem.X, gp.kernel.variance, gp.kernel.lengthscale)
    np.testing.assert_allclose(W @ W.T, K + bias**2, atol=1e-7)
    problem, gp = make(2, residual="projected", bias=bias)
    model = dense(problem, gp)
    np.testing.assert_allclose(prior_root(gp, problem.X) @ prior_root(gp, problem.X).T, model.A @ model.K @ model.A.T)


def test_simulated_bags_agree_with_their_labels_at_odds_h():
    offsets = np.array([0, 2, 5])
    for H in (3.0, np.inf):
        model = LatentModel(np.ones((5, 1)), offsets, float(np.log(H)))
        _, y, T = simulate(model, 20_000, np.random.default_rng(2))
        agree = np.stack([y[:, :2].max(axis=1), y[:, 2:].max(axis=1)], axis=1) == T
        share = 1.0 if np.isinf(H) else H / (1 + H)
        assert abs(agree.mean() - share) <= 4.5 * np.sqrt(share * (1 - share) / agree.size)


def check_chain(H, bias, chains, draws, step=sweep):
    _, _, model = small_model(H, bias)
    T = np.array([1, 0, 1])
    mean, variance, positive, _ = quadrature_moments(model, T, H)
    w = draw_posterior(model, T, np.random.default_rng(4), chains=chains, burn_in=100, draws=draws, step=step)
    f = w @ model.W.T
    assert f.shape == (draws, chains, 6)
    assert scale_reduction(f).max() < 1.1
    for values, expected in (
        (f, mean),
        ((f - mean) ** 2, variance),
        (model.label_probabilities(f, T), positive),
    ):
        found, error = mean_and_error(values)
        assert (np.abs(found - expected) < 4.5 * error + 1e-9).all()


@pytest.mark.parametrize(("H", "bias"), [*SMALL[:3], pytest.param(*SMALL[3], marks=pytest.mark.slow)])
def test_gibbs_draws_have_the_moments_of_the_quadrature(H, bias):
    check_chain(H, bias, chains=60, draws=150)
    check_chain(H, bias, chains=60, draws=100, step=slice_step)
    check_chain(H, bias, chains=60, draws=50, step=mixed_sweep)


@pytest.mark.slow
@pytest.mark.parametrize(("H", "bias"), SMALL)
def test_gibbs_draws_have_the_moments_of_the_quadrature_in_many_draws(H, bias):
    check_chain(H, bias, chains=1000, draws=300)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"density": GammaMixture()}, "hyperbolic secant"),
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"known": [-1, 1, -1, -1]}, "known"),
        ({"residual": "unit"}, "residual"),
    ],
)
def test_what_is_no_model_of_the_oracle_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        model_of(*make(0, (2, 2), M=2, T=[1, 0], **change))


def test_chains_must_draw_something():
    with pytest.raises(InputError, match="nothing to draw"):
        draw_posterior(LatentModel(np.ones((1, 1)), np.array([0, 1])), np.array([1]), np.random.default_rng(0), draws=0)
