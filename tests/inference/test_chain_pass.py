"""Passes over bags whose labels form chains, against enumeration of all labels and dense matrices."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp

from chained import (
    LOGISTIC,
    bag_derivatives,
    dense_curvature,
    dense_V,
    label_posterior,
    links_for,
    log_factor,
    make_chained,
    sign_of,
)
from problems import log_psi, make, name, offsets_of
from psimil.compute.numpy_backend import NUMPY
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import bag_pass_over, run_bag_pass
from psimil.inference.coupling import coupled
from psimil.inference.draws import Draws
from psimil.inference.sampled import GradientTask
from psimil.inference.shards import StreamedShards
from psimil.inference.sites import MOST_SPREAD, Curvature
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import SmoothLaplace
from psimil.model.scaling import Scaling

SIZES, T = (1, 4, 3, 6, 2, 5, 2, 3), (0, 1, 0, 1, 1, 0, 0, 1)
OFFSETS = offsets_of(SIZES)
WEIGHTS = (1.0, 2.0, 0.5, 1.0, 3.0, 1.5, 1.0, 0.0)
LINKS = links_for(SIZES, seed=0)
LINKS[slice(*OFFSETS[6:8])] = 0.0  # a negative bag without links, whose instances are factors by themselves
KNOWN = np.concatenate([[-1], [-1, 0, 1, -1], [0, -1, -1], [-1, -1, 0, -1, -1, 1], [-1, -1], [-1, 0, 0, -1, -1]])
KNOWN = np.concatenate([KNOWN, [-1, -1], [-1, 0, -1]])
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
LAPLACE = SmoothLaplace(0.4, 1.0)

EVERY_H = pytest.mark.parametrize("H", [np.inf, 20.0, 0.2])
SOME_KNOWN = pytest.mark.parametrize("known", [None, KNOWN], ids=["unknown", "known"])


def bags():
    return [(b, slice(start, stop)) for b, (start, stop) in enumerate(pairwise(OFFSETS))]


def of(known, rows):
    return None if known is None else known[rows]


def chained(seed=3, **options):
    return make_chained(
        seed, SIZES, links=LINKS, **{"T": T, "weights": WEIGHTS, "M": 4, "bias": 0.7, "residual": "projected"} | options
    )


def extra(density, f):
    """Slope and -curvature that a density adds at f (n,), by a complex step and its differences."""

    def slope(x):
        return np.imag(log_psi(density, x + 1e-30j)) / 1e-30 + 0.5 * np.tanh(x / 2)

    if density == LOGISTIC:
        return np.zeros_like(f), np.zeros_like(f)
    return slope(f), -(slope(f + 1e-5) - slope(f - 1e-5)) / 2e-5


@EVERY_H
@SOME_KNOWN
@pytest.mark.parametrize("density", [LOGISTIC, LAPLACE], ids=name)
def test_at_one_draw_sums_are_value_gradient_and_hessian_of_enumerated_labels(density, known, H):
    problem, gp = chained(known=known, H=H, density=density)
    V, v = dense_V(problem, gp), np.random.default_rng(1).normal(size=gp.size)
    sites, sums = run_bag_pass(problem, gp, Draws.shared(v[:, None]))
    value, gradient, curvature = 0.0, np.zeros(gp.size), np.zeros((gp.size, gp.size))
    for b, rows in bags():
        f, told = V[rows] @ v, (T[b], H, of(known, rows))
        slope, bend = bag_derivatives(f, LINKS[rows], *told)
        more, bent = extra(density, f)
        value += WEIGHTS[b] * log_factor(f[None], LINKS[rows], *told, density)[0]
        gradient += WEIGHTS[b] * V[rows].T @ (slope + more)
        curvature += WEIGHTS[b] * V[rows].T @ (bend + np.diag(bent)) @ V[rows]
        np.testing.assert_allclose(sites.pi[rows], label_posterior(f, LINKS[rows], *told)[0], atol=1e-12)
    close = CLOSE if density == LOGISTIC else {"rtol": 1e-8, "atol": 1e-8}
    np.testing.assert_allclose(sums.gradient, gradient, **close)
    np.testing.assert_allclose(sums.curvature, curvature, **close)
    if density == LOGISTIC:  # others are known up to a factor for each instance
        np.testing.assert_allclose(sums.likelihood, value, **close)
    found = GradientTask(gp, v[:, None])(problem)
    np.testing.assert_allclose(found[0], sums.likelihood[0], **close)
    np.testing.assert_allclose(found[1][:, 0], gradient, **close)


@pytest.mark.parametrize("density", [LAPLACE], ids=name)
def test_values_of_another_density_differ_between_draws_as_enumeration_says(density):
    problem, gp = chained(density=density)
    V, draws = dense_V(problem, gp), np.random.default_rng(2).normal(size=(gp.size, 4))
    found = run_bag_pass(problem, gp, Draws.shared(draws))[1].likelihood[0]
    parts = (WEIGHTS[b] * log_factor((V[i] @ draws).T, LINKS[i], T[b], density=density) for b, i in bags())
    expected = sum(parts)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), **CLOSE)


@EVERY_H
@SOME_KNOWN
def test_over_draws_the_diagonal_of_the_curvature_is_the_mean_of_the_diagonals(known, H):
    """And what neighbours share beside r r' is its mean; what lies farther off is that of a chain with these two."""
    problem, gp = chained(known=known, H=H)
    V, draws = dense_V(problem, gp), np.random.default_rng(2).normal(size=(gp.size, 5))
    sites, sums = run_bag_pass(problem, gp, Draws.shared(draws))
    Lambda = dense_curvature(sites, OFFSETS, sign_of(T, H))
    w = np.repeat(WEIGHTS, SIZES)
    np.testing.assert_allclose(sums.curvature, V.T @ (w[:, None] * Lambda) @ V, **CLOSE)
    np.testing.assert_array_equal(sums.curvature, sums.curvature.T)
    for b, rows in bags():
        found = [bag_derivatives(f, LINKS[rows], T[b], H, of(known, rows)) for f in (V[rows] @ draws).T]
        gradient, hessian = (np.mean(one, axis=0) for one in zip(*found, strict=True))
        np.testing.assert_allclose(sites.gradient[rows], gradient, **CLOSE)
        np.testing.assert_allclose(np.diag(Lambda[rows, rows]), np.diag(hessian), **CLOSE)
        if T[b] == 0 and np.isinf(H):
            assert not sites.vector[rows].any()
            np.testing.assert_allclose(np.diag(Lambda[rows, rows], 1), np.diag(hessian, 1), **CLOSE)


def random_curvature(rng, chains):
    N = OFFSETS[-1]
    rho = rng.uniform(0.0, 1.0, (chains, N))
    rho[:, OFFSETS[1:] - 1] = 0.0
    pairs = tuple((rng.normal(size=N), one) for one in rho)
    return Curvature(rng.normal(size=N), rng.normal(size=N), pairs), Labels(np.array(T), OFFSETS)


@pytest.mark.parametrize("chains", [0, 1, 2])
def test_products_and_sums_with_the_curvature_are_those_of_the_dense_matrix(chains):
    rng = np.random.default_rng(chains)
    found, labels = random_curvature(rng, chains)
    sign, w = rng.choice([-1.0, 1.0], len(T)), np.repeat(rng.uniform(0.0, 2.0, len(T)), SIZES)
    Lambda = dense_curvature(found, OFFSETS, sign)
    x, V, linear = rng.normal(size=(3, len(w))), rng.normal(size=(len(w), 5)), rng.normal(size=len(w))
    np.testing.assert_allclose(found.times(x, labels, sign), x @ Lambda, **CLOSE)
    total, gradient = found.sums(V, w, linear, labels, sign, NUMPY)
    np.testing.assert_allclose(total, V.T @ (w[:, None] * Lambda) @ V, **CLOSE)
    np.testing.assert_allclose(gradient, V.T @ (w * linear), **CLOSE)


@EVERY_H
@SOME_KNOWN
def test_a_tilted_pass_weighs_draws_by_factors_over_their_sites(known, H):
    """Sites by sums over draws with dense matrices; a negative bag without links falls into its instances."""
    problem, gp = chained(known=known, H=H, variance=0.8)
    V, draws = dense_V(problem, gp), 0.7 * np.random.default_rng(4).normal(size=(gp.size, 40))
    plain, _ = run_bag_pass(problem, gp, Draws.shared(draws))
    new, sums = run_bag_pass(problem, gp, Draws.shared(draws), tilted=True)
    Lambda, total = dense_curvature(plain, OFFSETS, sign_of(T, H)), 0.0
    now = dense_curvature(new, OFFSETS, sign_of(T, H))
    for b, bag in bags():
        apart = T[b] == 0 and np.isinf(H) and known is None and not LINKS[bag].any()
        for rows in [slice(i, i + 1) for i in range(bag.start, bag.stop)] if apart else [bag]:
            f, told = (V[rows] @ draws).T, (T[b], H, of(known, rows))
            x, own = f - f.mean(axis=0), Lambda[rows, rows]
            log_site = x @ plain.gradient[rows] - 0.5 * np.einsum("si,ij,sj->s", x, own, x)
            log_w = log_factor(f, LINKS[rows], *told) - log_site
            assert log_w.std() < MOST_SPREAD
            total += WEIGHTS[b] * (logsumexp(log_w) - np.log(40))
            p = np.exp(log_w - logsumexp(log_w))
            found = (bag_derivatives(g, LINKS[rows], *told) for g in f)
            slopes, bends = (np.array(one) for one in zip(*found, strict=True))
            pi = p @ np.array([label_posterior(g, LINKS[rows], *told)[0] for g in f])
            np.testing.assert_allclose(new.gradient[rows], p @ slopes, **CLOSE)
            np.testing.assert_allclose(new.pi[rows], pi, **CLOSE)
            lost = p @ np.square(slopes + x @ own - p @ slopes)
            diagonal = np.einsum("s,sii->i", p, bends) - lost
            np.testing.assert_allclose(np.diag(now[rows, rows]), diagonal, **CLOSE)
    assert sums.tilted == pytest.approx(total, rel=1e-9)


def assert_same(one, other, **close):
    for field in ("curvature", "gradient", "likelihood", "log_z", "tilted"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), **(close or CLOSE))


MANY = np.random.default_rng(0).integers(1, 8, size=40)
SOME = np.where(np.random.default_rng(1).random(MANY.sum()) < 0.2, 0, -1)  # zeros alone agree with any bag, all but one


def many(known=None, **options):
    known = None if known is None else np.where(np.isin(np.arange(MANY.sum()), offsets_of(MANY)[:-1]), -1, known)
    return make_chained(6, MANY, M=8, residual="projected", bias=1.0, known=known, **options)


@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize("known", [None, SOME], ids=["unknown", "known"])
@pytest.mark.parametrize("density", [LOGISTIC, LAPLACE], ids=name)
def test_parts_of_any_size_and_streamed_shards_add_up_to_the_same(density, known, tilted):
    problem, gp = many(known, density=density)
    draws = Draws.shared(antithetic_draws(gp.size, 8, seed=0))
    local, expected = run_bag_pass(problem, gp, draws, tilted=tilted)
    for rows, whole in ((2000, True), (17, False), (1, False)):
        other = replace(problem, keep=False, whole=whole, rows=rows)
        found, sums = run_bag_pass(other, gp, draws, tilted=tilted)
        assert_same(sums, expected)
        assert len(found.chains) == len(local.chains) == (1 if known is None else 2)
        np.testing.assert_allclose(found.gradient, local.gradient, **CLOSE)
        np.testing.assert_allclose(found.diagonal, local.diagonal, **CLOSE)
    shards = StreamedShards(problem.X, problem.labels, problem.weights, Scaling.identity(2), density, rows=30)
    assert len(shards.ranges) > 3
    assert_same(bag_pass_over(shards, gp, draws, tilted=tilted)[0], expected)


def test_torch_gives_the_same_sums():
    pytest.importorskip("torch")
    from psimil.compute.torch_backend import TorchBackend

    problem, gp = many()
    draws = Draws.shared(antithetic_draws(gp.size, 8, seed=0))
    expected = run_bag_pass(problem, gp, draws, tilted=True)[1]
    for whole in (True, False):
        other = replace(problem, backend=TorchBackend("cpu"), whole=whole, keep=whole, rows=20)
        assert_same(run_bag_pass(other, gp, draws, tilted=True)[1], expected)
        single = replace(other, single=True)
        assert_same(run_bag_pass(single, gp, draws, tilted=True)[1], expected, rtol=3e-4, atol=3e-3)


@pytest.mark.parametrize("tilted", [False, True])
def test_single_precision_stays_close(tilted):
    """Of features, of what is worked out for each draw, or of both."""
    found = []
    for dtype, single in ((np.float64, False), (np.float64, True), (np.float32, False), (np.float32, True)):
        problem, gp = make_chained(7, (5,) * 40, D=4, M=15, lengthscale=2.0, residual="projected", dtype=dtype)
        draws = Draws.shared(antithetic_draws(gp.size, 16, seed=0))
        found.append(run_bag_pass(replace(problem, single=single), gp, draws, tilted=tilted)[1])
    assert all(sums.curvature.dtype == np.float64 for sums in found)
    for sums in found[1:]:
        assert_same(sums, found[0], rtol=3e-4, atol=3e-3)


@pytest.mark.parametrize("tilted", [False, True])
def test_links_of_no_strength_are_independent_labels_bit_by_bit(tilted):
    problem, gp = many()
    independent, _ = make(6, MANY, M=8, residual="projected", bias=1.0)
    draws = Draws.shared(antithetic_draws(gp.size, 8, seed=0))
    linked = run_bag_pass(problem, gp, draws, tilted=tilted)[1]
    expected = run_bag_pass(independent, gp, draws, tilted=tilted)
    sites, sums = run_bag_pass(coupled(problem, 0.0), gp, draws, tilted=tilted)
    assert sites.chains == ()
    for field in ("gradient", "diagonal", "vector", "pi"):
        np.testing.assert_array_equal(getattr(sites, field), getattr(expected[0], field))
    for field in ("curvature", "gradient", "likelihood", "tilted"):
        np.testing.assert_array_equal(getattr(sums, field), getattr(expected[1], field))
    none = replace(problem, labels=replace(problem.labels, links=np.zeros_like(problem.labels.links)))
    assert_same(run_bag_pass(none, gp, draws, tilted=tilted)[1], sums)
    assert not np.allclose(linked.likelihood, sums.likelihood, atol=0.1)


def test_a_shard_is_coupled_without_a_trace_and_by_products_of_strengths():
    problem, gp = many()
    draws, before = Draws.shared(antithetic_draws(gp.size, 4, seed=0)), problem.labels.links.copy()
    first = run_bag_pass(problem, gp, draws)[1]
    twice = coupled(coupled(problem, 0.5), 3.0)
    np.testing.assert_allclose(twice.labels.links, 1.5 * before)
    tripled = replace(problem, labels=replace(problem.labels, links=1.5 * before))
    assert_same(run_bag_pass(twice, gp, draws)[1], run_bag_pass(tripled, gp, draws)[1])
    np.testing.assert_array_equal(problem.labels.links, before)
    assert_same(run_bag_pass(problem, gp, draws)[1], first)
