"""Sites and their tilted densities, against enumerated factors and quadrature of the densities themselves."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp, ndtri

from problems import labellings, log_psi, make, name, offsets_of
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.sites import MOST_SPREAD, sites_of, tilt, tilted_sites
from psimil.model.bag_likelihoods import IndependentLabels, Labels
from psimil.model.densities import HyperbolicSecant, SmoothLaplace

SIZES, T = (2, 1, 3, 2), (0, 1, 1, 0)
KNOWN = (-1, 0, -1, -1, 0, -1, -1, -1)


def plain_sites(f, labels, likelihood=None):
    """Derivatives at f (S, n), and sites by plain means over them."""
    likelihood = likelihood or IndependentLabels()
    found = likelihood.derivatives(f, labels)
    return found, sites_of(found, labels.spread(likelihood.sign(labels).astype(f.dtype)))


def log_factor(f, T, H, known, density):
    """(S,) log p(T | f) of f (S, n), by enumeration of labels; densities up to a constant."""
    Y = labellings(f.shape[1])
    log_joint = f @ Y.T - np.logaddexp(0.0, f).sum(axis=1, keepdims=True)
    if known is not None:
        known = np.asarray(known)
        log_joint = log_joint + np.where((Y == known)[:, known >= 0].all(axis=1), 0.0, -np.inf)
    with np.errstate(divide="ignore"):
        right, wrong = (0.0, -np.inf) if np.isinf(H) else (-np.log1p(1 / H), -np.log1p(H))
    value = logsumexp(log_joint + np.where(Y.max(axis=1) == T, right, wrong), axis=1)
    logistic = isinstance(density, HyperbolicSecant)
    return value + (0.0 if logistic else (log_psi(density, f) + np.log(np.cosh(f / 2))).sum(axis=1))


def log_site(sites, df, rows, sign):
    """(S,) log s(f) of the instances in some rows, as a quadratic form with a dense matrix."""
    x, r = df[:, rows], sites.vector[rows]
    Lambda = np.diag(sites.diagonal[rows]) + sign * np.outer(r, r)
    return x @ sites.gradient[rows] - 0.5 * np.einsum("si,ij,sj->s", x, Lambda, x)


def factors_of(H, known):
    """The factors of the bags above as (rows, T, sign): instances by themselves where a bag is surely negative."""
    found = []
    for b, (start, stop) in enumerate(pairwise(offsets_of(SIZES))):
        told = T[b] if H > 1 else 1 - T[b]
        alone = T[b] == 0 and np.isinf(H) and known is None
        parts = [slice(i, i + 1) for i in range(start, stop)] if alone else [slice(start, stop)]
        found += [(rows, T[b], 2 * told - 1) for rows in parts]
    return found


@pytest.mark.parametrize("H", [np.inf, 20.0, 0.2])
@pytest.mark.parametrize("known", [None, KNOWN], ids=["unknown", "known"])
@pytest.mark.parametrize("density", [HyperbolicSecant(), SmoothLaplace(0.4, 1.0)], ids=name)
def test_weights_are_factors_over_their_sites(density, known, H):
    labels = Labels(np.array(T), offsets_of(SIZES), float(np.log(H)), None if known is None else np.array(known))
    f = np.random.default_rng(0).normal(size=(40, sum(SIZES))) + 0.5
    likelihood = IndependentLabels(density)
    found, sites = plain_sites(f, labels, likelihood)
    df = f - f.mean(axis=0)
    curved = sites.curvature.times(df, labels, likelihood.sign(labels))
    tilted = tilt(found, sites, df, curved, labels, likelihood)
    log_means = np.zeros(sum(SIZES))
    for rows, bag_label, sign in factors_of(H, known):
        mine = None if known is None else known[rows]
        log_w = log_factor(f[:, rows], bag_label, H, mine, density) - log_site(sites, df, rows, sign)
        assert log_w.std() < MOST_SPREAD
        expected = np.exp(log_w - logsumexp(log_w))
        for i in range(rows.start, rows.stop):
            np.testing.assert_allclose(tilted.weights[:, i], expected, rtol=1e-10)
        log_means[rows.start] = logsumexp(log_w) - np.log(len(f))
    if isinstance(density, HyperbolicSecant):  # of others a constant is left out
        np.testing.assert_allclose(tilted.log_means, log_means, atol=1e-10)
    else:
        np.testing.assert_array_equal(tilted.log_means == 0, log_means == 0)


def test_weights_that_are_too_spread_are_drawn_together_and_their_mean_is_not():
    labels = Labels(np.array([1, 1, 0]), offsets_of((3, 1, 1)))
    f = np.random.default_rng(1).normal(size=(400, 5)) * [15.0, 15.0, 15.0, 0.3, 15.0]
    found, sites = plain_sites(f, labels)
    df = f - f.mean(axis=0)
    curved = sites.curvature.times(df, labels, np.array([1.0, 1.0, -1.0]))
    tilted = tilt(found, sites, df, curved, labels, IndependentLabels())
    for rows, bag_label, wide in ((slice(0, 3), 1, True), (slice(3, 4), 1, False), (slice(4, 5), 0, True)):
        log_w = log_factor(f[:, rows], bag_label, np.inf, None, HyperbolicSecant())
        log_w -= log_site(sites, df, rows, 2 * bag_label - 1)
        assert (log_w.std() > MOST_SPREAD) == wide
        tempered = log_w * min(1.0, MOST_SPREAD / log_w.std())
        np.testing.assert_allclose(tilted.weights[:, rows.start], np.exp(tempered - logsumexp(tempered)), rtol=1e-8)
        assert tilted.log_means[rows.start] == pytest.approx(logsumexp(log_w) - np.log(400), abs=1e-9)
    effective = 1 / np.square(tilted.weights).sum(axis=0)
    assert effective.min() > 20
    np.testing.assert_allclose(np.log(tilted.weights).std(axis=0)[[0, 1, 2, 4]], MOST_SPREAD, rtol=1e-8)


def normal_points(count):
    """Equally weighted points with the distribution of a standard normal and its variance."""
    x = ndtri((np.arange(count) + 0.5) / count)
    return x / x.std()


def curvature(sites, sign):
    return np.diag(sites.diagonal) + sign * np.outer(sites.vector, sites.vector)


def line(mu, deviation, g, Lambda, bag_label):
    """Mean, second moment about mu and log integral of N(f; mu, deviation^2) p(T | f) / s(f), on a fine grid."""
    x = np.linspace(-12.0, 12.0, 8001) * deviation
    log_q = -0.5 * np.square(x / deviation) - 0.5 * np.log(2 * np.pi) - np.log(deviation)
    h = -np.logaddexp(0.0, mu + x if bag_label == 0 else -mu - x) - g * x + 0.5 * Lambda * x * x
    w = np.exp(log_q + h) * (x[1] - x[0])
    return w @ x / w.sum(), w @ (x * x) / w.sum(), np.log(w.sum())


CASES = [(0, 0.7, 1.5), (0, -1.0, 1.8), (1, -0.5, 1.5), (1, 1.5, 2.0)]


@pytest.mark.parametrize(("bag_label", "mu", "deviation"), CASES)
def test_tilted_sites_know_the_moments_of_the_tilted_density(bag_label, mu, deviation):
    """With x = f - mu, P = 1 / deviation^2 and h = log p / s, integration by parts under q p / s gives

        E x = (E p' / p - g) / (P - Lambda)    and    E x^2 = 1 / P + (E h'' + E h'^2) / P^2:

    so the two moments of the density determine the tilted gradient, and with it the tilted curvature.
    """
    labels = Labels(np.array([bag_label]), np.array([0, 1]))
    f = (mu + deviation * normal_points(200_001))[:, None]
    found, sites = plain_sites(f, labels)
    sign = 2 * bag_label - 1
    Lambda, P = curvature(sites, sign)[0, 0], deviation**-2
    mean, square, log_mean = line(mu, deviation, sites.gradient[0], Lambda, bag_label)
    new, tilted = tilted_sites(found, sites, f - mu, labels, IndependentLabels())
    gap = (P - Lambda) * mean
    assert new.gradient[0] - sites.gradient[0] == pytest.approx(gap, rel=0.01)
    bent = P * P * (square - 1 / P)  # E h'' + E h'^2, where h' is what varies and the gap
    expected = Lambda - bent + gap**2 + 2 * gap * Lambda * mean
    assert abs(gap) > 5e-4 and expected - Lambda < -2e-3  # a tilted density is another one, and a wider one
    assert curvature(new, sign)[0, 0] - Lambda == pytest.approx(expected - Lambda, rel=0.01)
    assert tilted.log_means[0] == pytest.approx(log_mean, abs=1e-4)
    p = 1 / (1 + np.exp(-f[:, 0]))
    assert new.pi[0] == pytest.approx(bag_label)  # a bag of one has the label of its instance
    assert sites.gradient[0] == pytest.approx((bag_label - p).mean(), abs=1e-10)


@pytest.mark.parametrize(("bag_label", "mu", "deviation"), CASES)
def test_sites_that_are_their_own_tilted_sites_leave_mean_and_variance_as_they_are(bag_label, mu, deviation):
    """What expectation propagation asks for: q p / s has the moments of q; so it has in one dimension, exactly."""
    labels = Labels(np.array([bag_label]), np.array([0, 1]))
    f = (mu + deviation * normal_points(20_001))[:, None]
    found, sites = plain_sites(f, labels)
    sign = 2 * bag_label - 1
    before = line(mu, deviation, sites.gradient[0], curvature(sites, sign)[0, 0], bag_label)
    for _ in range(20):
        sites, _ = tilted_sites(found, sites, f - mu, labels, IndependentLabels())
    after = line(mu, deviation, sites.gradient[0], curvature(sites, sign)[0, 0], bag_label)
    assert abs(before[0]) > 1e-3 * deviation and before[1] / deviation**2 > 1.005
    assert abs(after[0]) < 0.02 * abs(before[0])
    assert abs(after[1] / deviation**2 - 1) < 0.02 * (before[1] / deviation**2 - 1)


@pytest.mark.parametrize(("mu", "rho", "deviation"), [((0.3, -0.8), 0.6, 1.5), ((-1.0, -0.5), -0.4, 1.5)])
def test_a_positive_bag_of_two_has_the_exact_gradient_and_diagonal_and_nearly_the_rest(monkeypatch, mu, rho, deviation):
    """The identities in two dimensions: gradients and the diagonal of the curvature are exact.

    Off the diagonal two things are left out: how r_1 and r_2 vary together, and the lost part. In place of draws there
    are the nodes of a grid, whose weights stand in the values; such weights are as spread as a normal density is.
    """
    monkeypatch.setattr("psimil.inference.sites.MOST_SPREAD", np.inf)
    mu, labels = np.array(mu), Labels(np.array([1]), np.array([0, 2]))
    S = deviation**2 * np.array([[1.0, rho], [rho, 1.0]])
    C, P, grid = np.linalg.cholesky(S), np.linalg.inv(S), np.linspace(-8.0, 8.0, 129)
    u = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    x, log_q = u @ C.T, -0.5 * np.square(u).sum(axis=1) + 2 * np.log(grid[1] - grid[0]) - np.log(2 * np.pi)
    found = IndependentLabels().derivatives(mu + x, labels)
    sites = sites_of(found, np.ones(2), np.exp(log_q)[:, None] * np.ones(2))
    nodes = found._replace(value=found.value + log_q[:, None] + np.log(len(u)))
    new, tilted = tilted_sites(nodes, sites, x, labels, IndependentLabels())

    Lambda, g = curvature(sites, 1), sites.gradient
    log_p = np.log(-np.expm1(-np.logaddexp(0.0, mu + x).sum(axis=1)))
    log_w = log_q + log_p - x @ g + 0.5 * np.einsum("si,ij,sj->s", x, Lambda, x)
    w = np.exp(log_w - logsumexp(log_w))
    mean, square = w @ x, np.einsum("s,si,sj->ij", w, x, x)
    gap = (P - Lambda) @ mean
    np.testing.assert_allclose(new.gradient - g, gap, rtol=1e-4)
    cross = np.outer(gap, Lambda @ mean)
    exact = Lambda - P @ (square - S) @ P + np.outer(gap, gap) + cross + cross.T
    kept = curvature(new, 1)
    np.testing.assert_allclose(np.diag(kept - Lambda), np.diag(exact - Lambda), rtol=1e-4)
    assert np.diag(exact - Lambda).max() < -1e-3
    assert tilted.log_means[0] == pytest.approx(logsumexp(log_w), abs=1e-8)
    assert tilted.log_means[1] == 0.0
    left = abs(exact[0, 1] - kept[0, 1])
    assert 3e-4 < left < 0.3 * abs(exact[0, 1])


def test_single_precision_stays_close():
    labels = Labels(np.array([1, 0, 1, 0]), offsets_of((6, 4, 1, 9)))
    f = np.random.default_rng(2).normal(size=(64, 20)) * 1.5 - 0.5
    (new, tilted), (single, rough) = (
        tilted_sites(*plain_sites(g, labels), g - g.mean(axis=0), labels, IndependentLabels())
        for g in (f, f.astype(np.float32))
    )
    for field in ("gradient", "diagonal", "vector", "pi"):
        assert getattr(single, field).dtype == np.float32
        np.testing.assert_allclose(getattr(single, field), getattr(new, field), rtol=2e-5, atol=2e-6)
    assert rough.weights.dtype == np.float32
    np.testing.assert_allclose(rough.weights, tilted.weights, rtol=2e-5)
    np.testing.assert_allclose(rough.log_means, tilted.log_means, atol=2e-5)


def test_a_tilted_pass_counts_bags_by_their_weights():
    sizes, weights = (1, 3, 2, 4, 2), (1.0, 2.0, 0.0, 1.0, 3.0)
    problem, gp = make(8, sizes, M=4, weights=weights, bias=1.0, T=[0, 1, 1, 1, 0], residual="projected")
    order = (0, 1, 1, 3, 4, 4, 4)
    blocks = [problem.X[a:b] for a, b in pairwise(offsets_of(sizes))]
    labels = Labels(problem.labels.T[list(order)], offsets_of([sizes[b] for b in order]))
    repeated = replace(
        problem, X=np.concatenate([blocks[b] for b in order]), labels=labels, weights=np.ones(len(order))
    )
    noise = antithetic_draws(gp.size, 64, seed=0)
    (sites, sums), (_, expected) = (run_bag_pass(p, gp, Draws.shared(noise), tilted=True) for p in (problem, repeated))
    np.testing.assert_allclose(sums.curvature, expected.curvature, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(sums.gradient, expected.gradient, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(sums.likelihood, expected.likelihood, rtol=1e-9)
    assert sums.tilted == pytest.approx(expected.tilted, rel=1e-9)

    f = (gp.features(problem.X) @ noise).T
    _, plain = plain_sites(f, problem.labels)
    df, total = f - f.mean(axis=0), 0.0
    for b, (start, stop) in enumerate(pairwise(offsets_of(sizes))):
        bag_label = problem.labels.T[b]
        parts = [slice(start, stop)] if bag_label else [slice(i, i + 1) for i in range(start, stop)]
        for rows in parts:
            log_w = log_factor(f[:, rows], bag_label, np.inf, None, HyperbolicSecant())
            log_w -= log_site(plain, df, rows, 2 * bag_label - 1)
            total += weights[b] * (logsumexp(log_w) - np.log(64))
    assert sums.tilted == pytest.approx(total, rel=1e-9)
    assert not np.allclose(sites.diagonal, plain.diagonal, atol=1e-4)  # it was tilted
