"""Sums of the bag likelihood over draws, against loops over bags that enumerate the labels of their instances."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from problems import CUSTOM, labellings, log_psi, make, name, offsets_of, rbf
from psimil.compute.numpy_backend import NumpyBackend
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import BagSums, bag_pass_over, run_bag_pass
from psimil.inference.draws import CACHED, Draws
from psimil.inference.sampled import GradientTask
from psimil.inference.shards import StreamedShards
from psimil.model.densities import HyperbolicSecant, SmoothLaplace
from psimil.model.scaling import Scaling

SIZES = (1, 3, 2, 4, 2)
WEIGHTS = (1.0, 2.0, 0.5, 1.0, 3.0)
KNOWN = (-1, -1, 0, 1, 0, -1, -1, -1, -1, 0, -1, -1)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def dense_V(problem, gp):
    """V by dense algebra, from the formula of the kernel."""
    v, scale = gp.kernel.variance, gp.kernel.lengthscale
    L = np.linalg.cholesky(rbf(gp.Z, gp.Z, v, scale))
    V = np.linalg.solve(L, rbf(problem.X, gp.Z, v, scale).T).T
    return np.column_stack([V, np.full(len(V), gp.bias)]) if gp.bias else V


def log_p(f, T, H, known, density):
    """log p(T | f) of one bag by enumeration of the labels of its instances, and their posterior (n,)."""
    Y = labellings(len(f))
    log_weight = Y @ f - np.logaddexp(0.0, f).sum()
    if known is not None:
        known = np.asarray(known)
        log_weight = np.where((Y == known)[:, known >= 0].all(axis=1), log_weight, -np.inf)
    agrees = Y.max(axis=1) == T
    right, wrong = (0.0, -np.inf) if np.isinf(H) else (-np.log1p(1.0 / H), -np.log1p(H))
    log_joint = log_weight + np.where(agrees, right, wrong)
    value = np.logaddexp.reduce(log_joint)
    extra = (log_psi(density, f) + np.log(2 * np.pi * np.cosh(f / 2)) - np.log(np.pi)).sum()
    logistic = isinstance(density, HyperbolicSecant)
    return value + (0.0 if logistic else extra), np.exp(log_joint - value) @ Y


def differences(function, f, h=1e-4):
    """Gradient and Hessian of a function of (n,) by central differences, of its values in doubles."""
    n, E = len(f), np.eye(len(f)) * h
    gradient = np.array([(function(f + e) - function(f - e)) / (2 * h) for e in E])
    hessian = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            a, b = E[i], E[j]
            hessian[i, j] = function(f + a + b) - function(f + a - b) - function(f - a + b) + function(f - a - b)
    return gradient, hessian / (4 * h * h)


@pytest.mark.parametrize("H", [np.inf, 20.0, 0.2])
@pytest.mark.parametrize("known", [None, KNOWN], ids=["unknown", "known"])
@pytest.mark.parametrize("density", [HyperbolicSecant(), SmoothLaplace(0.4, 1.0)], ids=name)
def test_sums_are_means_over_draws_of_what_enumeration_gives(density, known, H):
    """One draw: value, gradient and Hessian of sum_b w_b log p(T_b | V_b v) by v itself."""
    options = {"T": [0, 1, 0, 1, 1], "known": known, "H": H, "density": density, "weights": WEIGHTS}
    problem, gp = make(3, SIZES, M=3, bias=0.7, residual="projected", **options)
    V, draws = dense_V(problem, gp), np.random.default_rng(0).normal(size=(gp.size, 3))
    local, sums = run_bag_pass(problem, gp, Draws.shared(draws))
    likelihood, pi, gradient = np.zeros(3), np.zeros(len(problem.X)), np.zeros(gp.size)
    slopes = np.zeros_like(draws)
    for s, v in enumerate(draws.T):
        for b, (start, stop) in enumerate(pairwise(offsets_of(SIZES))):
            rows, T, w = slice(start, stop), problem.labels.T[b], WEIGHTS[b]
            mine = None if known is None else known[rows]
            value, labels = log_p(V[rows] @ v, T, H, mine, density)
            slope, _ = differences(lambda f, T=T, mine=mine: log_p(f, T, H, mine, density)[0], V[rows] @ v)
            likelihood[s] += w * value
            pi[rows] += labels / 3
            gradient += w * V[rows].T @ slope / 3
            slopes[:, s] += w * V[rows].T @ slope
    constant = likelihood - sums.likelihood[0]  # densities are known up to one factor per instance
    logistic = isinstance(density, HyperbolicSecant)
    np.testing.assert_allclose(constant, 0.0 if logistic else constant[0], atol=1e-9)
    np.testing.assert_allclose(local.pi, pi, atol=1e-9)
    np.testing.assert_allclose(sums.gradient, gradient, atol=1e-6)
    for found, expected in zip(GradientTask(gp, draws)(problem), (sums.likelihood[0], slopes), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("H", [np.inf, 20.0, 0.2])
@pytest.mark.parametrize("known", [None, KNOWN], ids=["unknown", "known"])
def test_at_one_draw_the_curvature_is_the_negative_hessian(known, H):
    problem, gp = make(4, SIZES, T=[0, 1, 0, 1, 1], M=3, bias=0.7, known=known, H=H, weights=WEIGHTS)
    V, v = dense_V(problem, gp), np.random.default_rng(1).normal(size=gp.size)
    _, sums = run_bag_pass(problem, gp, Draws.shared(v[:, None]))

    def total(v):
        parts = zip(WEIGHTS, pairwise(offsets_of(SIZES)), problem.labels.T, strict=True)
        return sum(
            w * log_p(V[a:b] @ v, T, H, None if known is None else known[a:b], HyperbolicSecant())[0]
            for w, (a, b), T in parts
        )

    _, hessian = differences(total, v, h=1e-3)
    np.testing.assert_allclose(sums.curvature, -hessian, atol=1e-5)


def test_the_curvature_over_draws_keeps_the_mean_vector_and_puts_its_variance_on_the_diagonal():
    problem, gp = make(5, SIZES, T=[0, 1, 0, 1, 1], M=4, bias=0.7, weights=WEIGHTS)
    V, draws = dense_V(problem, gp), np.random.default_rng(2).normal(size=(gp.size, 5))
    local, sums = run_bag_pass(problem, gp, Draws.shared(draws))
    f, expected = draws.T @ V.T, np.zeros((gp.size, gp.size))
    s = 1 / (1 + np.exp(-f))
    for b, (start, stop) in enumerate(pairwise(offsets_of(SIZES))):
        rows = slice(start, stop)
        P0 = np.prod(1 - s[:, rows], axis=1, keepdims=True)
        if problem.labels.T[b] == 0:
            r, d = np.zeros_like(s[:, rows]), s[:, rows] * (1 - s[:, rows])
        else:
            r = np.sqrt(P0) / (1 - P0) * s[:, rows]
            d = -P0 / (1 - P0) * s[:, rows] * (1 - s[:, rows])
        diagonal, mean = (d + r**2).mean(axis=0) - r.mean(axis=0) ** 2, r.mean(axis=0)
        np.testing.assert_allclose(local.diagonal[rows], diagonal, **CLOSE)
        np.testing.assert_allclose(local.vector[rows], mean, **CLOSE)
        expected += WEIGHTS[b] * V[rows].T @ (np.diag(diagonal) + np.outer(mean, mean)) @ V[rows]
    np.testing.assert_allclose(sums.curvature, expected, **CLOSE)
    np.testing.assert_array_equal(sums.curvature, sums.curvature.T)


def assert_same(one, other, **close):
    for field in ("curvature", "gradient", "likelihood", "log_z"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), **(close or CLOSE))


@pytest.mark.parametrize("density", [HyperbolicSecant(), SmoothLaplace(0.4, 1.0), CUSTOM], ids=name)
@pytest.mark.parametrize("residual", ["projected", "full"])
def test_kept_whitened_late_and_streamed_sums_agree(residual, density):
    # the curvature of a density of one's own is a difference of differences: rounding of f comes out larger
    close = {"rtol": 1e-7, "atol": 1e-7} if density is CUSTOM else CLOSE
    sizes = np.random.default_rng(0).integers(1, 8, size=40)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], 40)
    problem, gp = make(6, sizes, M=8, residual=residual, bias=1.0, density=density, weights=weights)
    draws = Draws.shared(antithetic_draws(gp.size, 8, seed=0))
    local, expected = run_bag_pass(problem, gp, draws)
    slopes = GradientTask(gp, draws.blocks[0])(problem)
    for rows, whole in ((2000, True), (17, False), (1, False)):
        other = replace(problem, keep=False, whole=whole, rows=rows)
        assert other.unwhitened(gp) == (residual == "projected")
        found, sums = run_bag_pass(other, gp, draws)
        assert_same(sums, expected, **close)
        for field in ("gradient", "diagonal", "vector", "pi"):
            np.testing.assert_allclose(getattr(found, field), getattr(local, field), **close)
        np.testing.assert_allclose(GradientTask(gp, draws.blocks[0])(other)[1], slopes[1], **close)
    shards = StreamedShards(problem.X, problem.labels, weights, Scaling.identity(2), density, rows=30)
    assert len(shards.ranges) > 3
    assert_same(bag_pass_over(shards, gp, draws)[0], expected, **close)


def test_blocks_that_fit_a_cache_change_nothing(monkeypatch):
    problem, gp = make(6, (5,) * 30, M=6)
    draws = Draws.shared(antithetic_draws(gp.size, 16, seed=0))
    expected = run_bag_pass(problem, gp, draws)[1]
    for cached in (1, 16 * 12, 10 * CACHED[8]):
        monkeypatch.setitem(CACHED, 8, cached)
        assert_same(run_bag_pass(problem, gp, draws)[1], expected)


def test_single_precision_stays_close():
    found = []
    for dtype in (np.float64, np.float32):
        problem, gp = make(7, (5,) * 40, D=4, M=15, lengthscale=2.0, bias=3.0, residual="projected", dtype=dtype)
        found.append(run_bag_pass(problem, gp, Draws.shared(antithetic_draws(gp.size, 16, seed=0)))[1])
    assert found[1].curvature.dtype == found[1].likelihood.dtype == np.float64
    assert_same(found[1], found[0], rtol=2e-4, atol=2e-3)


def test_rows_are_single_where_that_does_but_not_before_they_are_whitened(monkeypatch):
    """Whitening sums afterwards magnifies their rounding, so these stay in double precision."""
    asked, sums = [], NumpyBackend.weighted_sums

    def spied(self, V, weights, linear):
        asked.append(V.dtype)
        return sums(self, V, weights, linear)

    monkeypatch.setattr(NumpyBackend, "weighted_sums", spied)
    problem, gp = make(7, (5,) * 40, D=4, M=15, lengthscale=0.5, bias=3.0, residual="projected")
    draws, problem = Draws.shared(antithetic_draws(gp.size, 16, seed=0)), replace(problem, single=True)
    kept, streamed = replace(problem, keep=True), replace(problem, keep=False)
    assert streamed.unwhitened(gp) and not kept.unwhitened(gp)
    found = [run_bag_pass(one, gp, draws)[1] for one in (kept, streamed)]
    assert asked == [np.dtype(np.float32), np.dtype(np.float64)]
    assert_same(found[0], found[1], rtol=1e-4, atol=1e-3)


def test_weight_two_is_the_bag_twice_and_weight_zero_is_none():
    problem, gp = make(8, SIZES, M=4, weights=(1, 2, 0, 1, 1), bias=1.0, T=[0, 1, 1, 1, 0])
    blocks = [problem.X[a:b] for a, b in pairwise(offsets_of(SIZES))]
    other = replace(
        problem,
        X=np.concatenate([blocks[i] for i in (0, 1, 1, 3, 4)]),
        labels=replace(problem.labels, T=np.array([0, 1, 1, 1, 0]), offsets=offsets_of((1, 3, 3, 4, 2))),
        weights=np.ones(5),
    )
    draws = Draws.shared(antithetic_draws(gp.size, 8, seed=0))
    assert_same(run_bag_pass(problem, gp, draws)[1], run_bag_pass(other, gp, draws)[1])


def test_sums_add_and_their_bound_has_an_error_of_pairs():
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=400)
    likelihood = np.concatenate([pairs + 5.0, -pairs + 5.0]) + np.tile(rng.normal(size=400), 2)
    half = BagSums(np.eye(2), np.ones(2), 0.5 * likelihood[None], 1.0, tilted=-1.5)
    both = half + half
    assert (both.log_z, both.tilted) == (2.0, -3.0)
    bound = both.bound(kl=1.0)
    assert bound.total == pytest.approx(likelihood.mean() - 1.0 - 2.0)
    assert bound.as_dict()["elbo"] == bound.total
    assert bound.error == pytest.approx(1.0 / 20.0, rel=0.15)  # what pairs share, not what cancels
    assert BagSums(np.eye(1), np.ones(1), np.zeros((1, 1)), 0.0).bound(0.0).error == 0.0
