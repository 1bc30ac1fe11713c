"""Draws from the posterior: moments by formulas and grids, ranks of simulated truths, and what flags bad chains."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import polygamma
from scipy.stats import chisquare, kstest, loggamma

from psimil.foundations import hamiltonian
from psimil.foundations.errors import DataWarning, InputError, NumericalFailure
from psimil.foundations.hamiltonian import Chains, mixing, sample, warn_if_bad
from psimil.foundations.phases import following
from psimil.model.bag_likelihoods import IndependentLabels, Labels
from psimil.model.sparse_gp import Posterior

V = np.random.default_rng(1).normal(0.0, 1.5, size=(8, 3))  # features of eight instances in four bags
OFFSETS, T = np.array([0, 3, 4, 6, 8]), np.array([1, 0, 1, 0])
rng = np.random.default_rng


def approximation(mean, sd):
    return Posterior(np.asarray(mean, dtype=float), np.diag(1.0 / np.asarray(sd, dtype=float)))


def gaussian(mean, precision):
    centre = mean[:, None]
    return lambda v: (-0.5 * ((v - centre) * (precision @ (v - centre))).sum(axis=0), precision @ (centre - v))


def log_gamma(shape):
    """The log of a gamma variable: skew to the left."""
    return lambda v: ((shape * v - np.exp(v)).sum(axis=0), shape - np.exp(v))


def banana(v):
    """x ~ N(0, 1) and y ~ N(0.4 x^2, 0.6^2)."""
    x, y = v
    z = (y - 0.4 * x * x) / 0.6
    return -0.5 * (x * x + z * z), np.stack([-x + z * 0.8 * x / 0.6, -z / 0.6])


def of_bags(labels):
    """Bags with labels (B, C or 1), the same for all chains or each chain's own."""
    instances = np.repeat(labels, np.diff(OFFSETS), axis=0)

    def log_density(v):
        zero, one = (IndependentLabels().derivatives((V @ v).T, Labels(np.full(4, t), OFFSETS)) for t in (0, 1))
        value = np.where(labels.T, one.value, zero.value).sum(axis=1) - 0.5 * np.square(v).sum(axis=0)
        return value, (np.where(instances.T, one.gradient, zero.gradient) @ V).T - v

    return log_density


def cliff(beyond):
    """The log density of N(0, 1) below 1, and this value beyond."""
    return lambda v: (np.where(v[0] < 1.0, -0.5 * v[0] ** 2, beyond), np.where(v < 1.0, -v, 0.0))


@pytest.fixture
def all_kept(monkeypatch):
    monkeypatch.setattr(hamiltonian, "KEPT", 10**9)


def assert_mean(values, expected, size):
    """Means of values (S, ...) that are worth so many independent ones: within five standard errors."""
    error = np.abs(values.mean(axis=0) - expected) / (values.std(axis=0) / np.sqrt(size))
    assert np.max(error) < 5.0, error


def assert_moments(found, mean, covariance):
    assert_mean(found.v, mean, found.effective_sample_size)
    z = found.v - mean
    assert_mean(z[:, :, None] * z[:, None, :], covariance, 0.5 * found.effective_sample_size)


@pytest.mark.parametrize("scale", [1.0, 1 / 3, 3.0, "mixed"])
def test_gaussians_have_their_moments_whatever_the_scale_of_the_approximation(scale, all_kept):
    mean = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    A = rng(3).standard_normal((5, 5))
    S = np.eye(5) + A @ A.T
    sd = (np.array([1 / 3, 3.0, 0.5, 2.0, 1.0]) if scale == "mixed" else scale) * np.sqrt(np.diag(S))
    found = sample(gaussian(mean, np.linalg.inv(S)), approximation(mean + sd, sd), rng(4))
    assert (found.r_hat < 1.05, found.divergences) == (True, 0)
    assert_moments(found, mean, S)


@pytest.mark.parametrize("size", [0.1, 1.0, 2.0])
def test_nothing_is_rejected_when_the_approximation_is_exact(size):
    q = Posterior(np.ones(9), np.eye(9) + np.tri(9))
    frame = hamiltonian._Frame(gaussian(q.m, q.R @ q.R.T), q.m, q.U)
    _, acceptance, _ = hamiltonian._trajectory(frame, frame.at(rng(0).standard_normal((9, 50))), size, rng(1))
    np.testing.assert_allclose(acceptance, 1.0, atol=1e-9)


def test_a_good_approximation_takes_hardly_more_than_a_call_for_each_trajectory():
    calls = []
    target = gaussian(np.zeros(40), np.eye(40))
    found = sample(lambda v: (calls.append(v.shape), target(v))[1], Posterior.prior(40), rng(0), draws=256)
    assert set(calls) == {(40, 16)}
    assert len(calls) < 1.8 * (256 + 96)
    assert found.effective_sample_size > 0.4 * 256 * 16


def test_the_step_is_as_large_as_the_acceptance_allows():
    sd = rng(5).uniform(0.5, 1.5, size=60)
    Q, _ = np.linalg.qr(rng(6).standard_normal((60, 60)))
    found = sample(gaussian(np.zeros(60), Q @ np.diag(sd**-2) @ Q.T), Posterior.prior(60), rng(7), draws=64)
    assert abs(found.acceptance - hamiltonian.ACCEPTANCE) < 0.08


@pytest.mark.parametrize("shape", [0.7, 4.0])
def test_log_gamma_variables_have_their_first_three_moments(shape, all_kept):
    found = sample(log_gamma(shape), approximation([np.log(shape)], [shape**-0.5]), rng(8), draws=640)
    assert_moments(found, np.array([polygamma(0, shape)]), np.array([[polygamma(1, shape)]]))
    assert_mean((found.v - polygamma(0, shape)) ** 3, polygamma(2, shape), 0.25 * found.effective_sample_size)


def test_a_bent_density_has_its_moments(all_kept):
    found = sample(banana, approximation([0.0, 0.3], [0.8, 0.7]), rng(9), draws=640)
    assert_moments(found, np.array([0.0, 0.4]), np.diag([1.0, 0.36 + 2 * 0.16]))


def test_bags_have_the_moments_of_a_dense_grid(all_kept):
    axis = np.linspace(-6.0, 6.0, 61)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    log_p = -0.5 * np.square(grid).sum(axis=1)
    for label, first, last in zip(T, OFFSETS[:-1], OFFSETS[1:], strict=True):
        all_negative = np.prod(1.0 / (1.0 + np.exp(grid @ V[first:last].T)), axis=1)
        log_p += np.log(1.0 - all_negative if label else all_negative)
    weights = np.exp(log_p) / np.exp(log_p).sum()
    mean = weights @ grid
    found = sample(of_bags(T[:, None]), Posterior.prior(3), rng(10), draws=400)
    assert found.divergences == 0
    assert_moments(found, mean, (weights * (grid - mean).T) @ (grid - mean))
    assert_mean((found.v - mean) ** 3, weights @ (grid - mean) ** 3, 0.25 * found.effective_sample_size)


def test_the_truth_has_a_uniform_rank_among_draws_given_data_simulated_from_it(monkeypatch):
    """Every chain has data of its own, whose posterior the true v is a draw from (Talts et al. 2018)."""
    chains, draws = 1000, 15
    monkeypatch.setattr(hamiltonian, "KEPT", chains * draws)
    truth = rng(11).standard_normal((3, chains))
    y = rng(12).random((8, chains)) < 1.0 / (1.0 + np.exp(-V @ truth))
    log_density = of_bags(np.maximum.reduceat(y, OFFSETS[:-1], axis=0))
    found = sample(log_density, Posterior.prior(3), rng(13), chains=chains, draws=60, warmup=40)
    v = found.v.reshape(draws, chains, 3).transpose(0, 2, 1)
    at_truth, at_draws = log_density(truth)[0], np.stack([log_density(d)[0] for d in v])
    for rank in (*(v < truth).sum(axis=0), (at_draws < at_truth).sum(axis=0)):
        assert chisquare(np.bincount(rank, minlength=draws + 1)).pvalue > 1e-3


@pytest.mark.parametrize("size", [0.3, 0.9, 1.6])
def test_one_trajectory_of_any_step_keeps_the_density_and_is_reversible(size):
    shape, count = 0.7, 40_000
    frame = hamiltonian._Frame(log_gamma(shape), np.array([-1.0]), np.array([[1.5]]))
    start = frame.at((loggamma.rvs(shape, size=(1, count), random_state=14) + 1.0) / 1.5)
    end, acceptance, _ = hamiltonian._trajectory(frame, start, size, rng(15))
    assert 0.2 < acceptance.mean() < 0.999
    assert kstest(1.5 * end.x[0] - 1.0, loggamma(shape).cdf).pvalue > 1e-3
    flow = np.tanh(start.x[0]) * np.cos(end.x[0]) - np.tanh(end.x[0]) * np.cos(start.x[0])
    assert_mean(flow, 0.0, count)


@pytest.mark.parametrize("beyond", [-np.inf, np.nan, -1e5])
def test_a_cliff_makes_trajectories_diverge_and_nothing_else(beyond, all_kept):
    found = sample(cliff(beyond), approximation([0.0], [1.2]), rng(16), draws=500)
    mean = -NormalDist().pdf(1.0) / NormalDist().cdf(1.0)
    assert (0 < found.divergences < 8000, found.v.max() < 1.0) == (True, True)
    assert_moments(found, np.array([mean]), np.array([[1.0 + mean - mean**2]]))
    with pytest.warns(DataWarning, match=f"{found.divergences} trajectories diverged"):
        warn_if_bad(found)


def test_chains_that_diverge_go_no_further():
    places = []
    frame = hamiltonian._Frame(lambda v: (places.append(v), (-(v[0] ** 4), -4 * v**3))[1], np.zeros(1), np.eye(1))
    _, acceptance, lost = hamiltonian._trajectory(frame, frame.at(np.full((1, 5), 9.0)), 0.1, rng(20))
    assert (np.abs(places).max() < 1e3, acceptance.max(), lost.all()) == (True, 0.0, True)


def test_chains_stuck_in_two_modes_are_flagged():
    both = approximation([0.0], [20.0])
    found = sample(lambda v: (-0.5 * (np.abs(v[0]) - 20.0) ** 2, 20.0 * np.sign(v) - v), both, rng(17), draws=64)
    assert (found.r_hat > 1.5, found.effective_sample_size < 40) == (True, True)
    with pytest.warns(DataWarning, match=r"R-hat is \d\.\d{3}, above 1\.01; the smallest effective sample size is \d"):
        warn_if_bad(found)


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_r_hat_is_the_formula_written_out(shift):
    draws = rng(18).gamma(1.0, [1.0, 1.0, 3.0], size=(10, 3)) + np.array([0.0, shift, shift])
    halves = [chain[part] for chain in draws.T for part in (slice(5), slice(5, 10))]
    found = []
    for values in (halves, [abs(half - np.median(draws)) for half in halves]):
        ordered = sorted(np.concatenate(values))
        z = [[NormalDist().inv_cdf((ordered.index(x) + 1 - 3 / 8) / (30 + 1 / 4)) for x in half] for half in values]
        W, B = np.mean([np.var(half, ddof=1) for half in z]), 5 * np.var([np.mean(half) for half in z], ddof=1)
        found.append(np.sqrt((4 / 5 * W + B / 5) / W))
    assert (found[0] > found[1]) == (shift > 0)
    assert mixing(draws[:, :, None])[0] == pytest.approx(max(found), rel=1e-12)
    assert mixing(np.zeros((8, 2, 1))) == (np.inf, 0.0)  # nothing moves


@pytest.mark.parametrize("phi", [-0.2, 0.0, 0.5, 0.9])
def test_autoregressive_chains_are_worth_what_their_correlation_says(phi):
    noise = rng(19).standard_normal((4500, 8, 3)) * np.sqrt(1 - phi**2)
    draws = lfilter([1.0], [1.0, -phi], noise, axis=0)[500:]
    r_hat, size = mixing(np.exp(draws))  # ranks see through the exponential
    np.testing.assert_allclose(size, 32_000 * (1 - phi) / (1 + phi), rtol=0.15)
    assert r_hat.max() < 1.01


def test_equal_seeds_give_equal_bits_and_others_do_not():
    first, second, other = (sample(banana, Posterior.prior(2), rng(s), chains=4, draws=33) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.v, second.v)
    assert (first.r_hat, first.effective_sample_size) == (second.r_hat, second.effective_sample_size)
    assert not np.isin(other.v, first.v).any()
    assert first.v.shape == (132, 2)


def test_progress_is_told_and_few_draws_of_every_chain_are_kept(monkeypatch):
    monkeypatch.setattr(hamiltonian, "KEPT", 24)
    heard = []
    with following(heard.append):
        found = sample(banana, Posterior.prior(2), rng(0), chains=30, draws=20, warmup=8)
    assert [(step.phase, step.done, step.of) for step in heard] == [("sampling", i, 28) for i in range(1, 29)]
    assert found.v.shape == (30, 2)


def test_too_few_draws_and_a_density_that_is_zero_at_the_mean_are_refused():
    for wrong in ({"chains": 0}, {"draws": 7}, {"warmup": 0}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} must be a whole number"):
            sample(banana, Posterior.prior(2), rng(0), **wrong)
    with pytest.raises(NumericalFailure, match="mean of its approximation"):
        sample(cliff(np.nan), approximation([2.0], [0.1]), rng(0))


def test_warnings_name_the_numbers_and_a_remedy():
    warn_if_bad(Chains(np.zeros((1, 1)), 1.01, 400.0, 0, 0.8))
    for r_hat, size, lost, said in (
        (1.0234, 900.0, 0, "posterior: R-hat is 1.023, above 1.01. Fit again with another random_state"),
        (1.0, 87.4, 0, "the smallest effective sample size is 87, below 400. Fit again"),
        (1.0, 900.0, 3, "posterior: 3 trajectories diverged. Fit again"),
        (np.nan, 900.0, 0, "R-hat is nan"),
    ):
        with pytest.warns(DataWarning, match=said):
            warn_if_bad(Chains(np.zeros((1, 1)), r_hat, size, lost, 0.8))
