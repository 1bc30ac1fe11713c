"""J of Eq. (29): value against dense algebra, gradient against differences, and the step that it steers."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from problems import (
    central_difference,
    dense,
    gaussian_kl,
    log_psi,
    make,
    name,
    normal_grid,
    random_posterior,
    unwhitened,
)
from psimil.foundations.errors import DataWarning
from psimil.model.densities import GammaMixture, HyperbolicSecant, StudentT
from psimil.model.kernels import RBF, Linear, Matern32, Matern52
from psimil.model.sparse_gp import KernelState, SparseGP
from psimil.paper.ascent import pass_over
from psimil.paper.kernel_steps import PaperStep
from psimil.paper.objective import PaperObjective, unwhiten, whiten
from psimil.paper.passes import run_pass

DENSITIES = [HyperbolicSecant(), GammaMixture(1.0, 1.5), StudentT(3.0)]
WEIGHTS = [1.0, 2.0, 0.5, 1.0, 3.0]
KERNELS = {
    "rbf": RBF(0.7, 1.4),
    "rbf-ard": RBF(0.7, (0.9, 1.7, 2.5)),
    "matern32": Matern32(0.8, 1.4),
    "matern52": Matern52(0.6, 2.0),
    "sum": Linear(0.2) + RBF(0.7, 1.4),
}


def objective(kernel=None, residual="full", bias=0.0, density=DENSITIES[0], seed=2, **options):
    problem, gp = make(
        seed,
        D=3,
        M=5,
        density=density,
        residual=residual,
        bias=bias,
        kernel=kernel or KERNELS["rbf"],
        weights=WEIGHTS,
        rows=4,
    )
    assert gp.jitter == 0.0
    q = random_posterior(gp.size, 4)
    local, _ = run_pass(problem, gp, q)
    m, S = unwhiten(gp, q)
    return PaperObjective(m, S, local.pi, problem, **options), gp, q


@pytest.mark.parametrize("samples", [None, 40])
@pytest.mark.parametrize("log_z", ["none", "jensen", "rff"])
@pytest.mark.parametrize("residual", ["full", "projected", "unit"])
@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize("bias", [pytest.param(0.0, marks=pytest.mark.slow), 1.3])
def test_gradient_equals_differences(bias, density, residual, log_z, samples):
    J, gp, _ = objective(residual=residual, bias=bias, density=density, samples=samples, log_z=log_z, seed=2)
    value, gradient, sample_size = J(gp)
    assert np.isfinite(value)
    assert gradient.shape == (2,)
    assert np.isinf(sample_size) == (log_z != "rff")
    expected = central_difference(lambda x: J(gp.with_parameters(x))[0], gp.kernel.log_parameters)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scaled", [False, True])
def test_gradient_for_other_kernels_and_the_published_scaling(kernel, scaled):
    J, gp, _ = objective(KERNELS[kernel], density=GammaMixture(1.0, 1.0), log_z="jensen", scaled=scaled, kl_weight=0.5)
    expected = central_difference(lambda x: J(gp.with_parameters(x))[0], gp.kernel.log_parameters)
    np.testing.assert_allclose(J(gp)[1], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def expected_terms(J, gp, q):
    """KL, potential and E log psi by dense algebra, with 32 Gauss-Hermite nodes; "unit" concerns the passes only."""
    model = dense(J.shard, gp)
    m, S = unwhitened(gp, q)
    return terms_of(J, model, m, S)


def terms_of(J, model, m, S):
    mu, s2 = model.moments(m, S)
    w = np.repeat(WEIGHTS, np.diff(J.shard.labels.offsets))
    x, weights = hermegauss(32)
    f = mu[:, None] + np.sqrt(s2)[:, None] * x
    tight = w @ (log_psi(J.shard.density, f) @ (weights / weights.sum()))
    return gaussian_kl(m, S, model.K), (w * (J.pi - 0.5)) @ mu, tight, (mu, s2, w)


@pytest.mark.parametrize("residual", ["full", "projected", "unit"])
@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize("bias", [0.0, 1.3])
def test_value_equals_dense_algebra(bias, density, residual):
    J, gp, q = objective(residual=residual, bias=bias, density=density, log_z="none")
    kl, potential, tight, _ = expected_terms(J, gp, q)
    assert J(gp)[0] == pytest.approx(-kl + potential + tight, rel=1e-9)
    N, M = len(J.shard.X), gp.size
    assert replace(J, scaled=True)(gp)[0] == pytest.approx(-kl / M + (potential + tight) / N, rel=1e-9)
    assert replace(J, kl_weight=0.3)(gp)[0] == pytest.approx(-0.3 * kl + potential + tight, rel=1e-9)


@pytest.mark.parametrize("residual", ["full", "projected"])
def test_log_z_of_jensen_is_that_of_the_model(residual):
    """docs/mathematics/derivations.md, section 10: the prior variance is k_nn + b^2, |v_n|^2 + b^2 if projected."""
    J, gp, _ = objective(residual=residual, bias=1.3, density=GammaMixture(1.0, 1.5), log_z="none")
    model = dense(J.shard, gp)
    prior = np.einsum("nm,mk,nk->n", model.A, model.K, model.A) + model.k
    x, weights = normal_grid()
    f = np.sqrt(prior)[:, None] * x
    w = np.repeat(WEIGHTS, np.diff(J.shard.labels.offsets))
    expected = w @ ((np.log(2 * np.cosh(f / 2)) + log_psi(J.shard.density, f)) @ weights)
    assert J(gp)[0] - replace(J, log_z="jensen")(gp)[0] == pytest.approx(expected, rel=1e-3)


def test_monte_carlo_agrees_with_quadrature_within_its_error():
    J, gp, q = objective(density=GammaMixture(1.0, 1.5), log_z="none")
    exact = J(gp)[0]
    *_, (mu, s2, w) = expected_terms(J, gp, q)
    samples = 4000
    noise = np.random.default_rng(9).standard_normal((len(mu), samples))
    variance = log_psi(J.shard.density, mu[:, None] + np.sqrt(s2)[:, None] * noise).var(axis=1)
    error = np.sqrt((w**2) @ variance / samples)
    for seed in range(3):
        sampled = replace(J, samples=samples, seed=seed)(gp)[0]
        assert abs(sampled - exact) <= 6 * error
        assert replace(J, samples=samples, seed=seed)(gp)[0] == sampled
    assert replace(J, samples=samples, seed=0)(gp)[0] != replace(J, samples=samples, seed=1)(gp)[0]


def test_tight_bound_is_above_the_augmented_one():
    """J keeps E log psi where L has its tangent: higher at every kernel, by convexity of log psi(sqrt t)."""
    for density in DENSITIES:
        J, gp, q = objective(density=density, log_z="none")
        for shift in (-0.5, 0.0, 0.5):
            other = gp.with_parameters(gp.kernel.log_parameters + shift)
            moved = whiten(other, *unwhiten(gp, q))
            *_, (mu, s2, w) = expected_terms(J, other, moved)
            model, (m, S) = dense(J.shard, other), unwhitened(other, moved)
            augmented = (
                -gaussian_kl(m, S, model.K) + (w * (J.pi - 0.5)) @ mu + w @ log_psi(density, np.sqrt(mu**2 + s2))
            )
            assert J(other)[0] >= augmented - 1e-9


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_whitening_is_undone(bias):
    problem, gp = make(1, bias=bias)
    q = random_posterior(gp.size, 6)
    m, S = unwhiten(gp, q)
    expected_m, expected_S = unwhitened(gp, q)
    np.testing.assert_allclose(m, expected_m, rtol=1e-10)
    np.testing.assert_allclose(S, expected_S, rtol=1e-9, atol=1e-12)
    back = whiten(gp, m, S)
    np.testing.assert_allclose(back.m, q.m, rtol=1e-8)
    np.testing.assert_allclose(back.S, q.S, rtol=1e-7, atol=1e-10)
    assert len(problem.X) == 12


@pytest.mark.parametrize("kernel", KERNELS)
def test_kept_distances_change_nothing(kernel):
    """Against the kernel evaluated anew, at several parameters with the same objective."""
    J, gp, _ = objective(KERNELS[kernel], samples=7, log_z="none")
    anew = replace(J, shard=replace(J.shard, keep=False, whole=False))
    for shift in (0.0, 0.7, -0.4):
        other = gp.with_parameters(gp.kernel.log_parameters + shift)
        for kept, computed in zip(J(other), anew(other), strict=True):
            np.testing.assert_allclose(kept, computed, rtol=1e-9)


@pytest.mark.parametrize("published", [False, True])
def test_paper_step_is_gradient_ascent_by_log_variance_and_log_squared_scale(published):
    """Three steps by hand: J / N (or with KL / 2 M) from dense algebra, its slope by differences."""
    J, gp, q = objective(log_z="none")
    N, M, rate = len(J.shard.X), gp.size, 0.1
    v, squared = gp.kernel.variance, gp.kernel.lengthscale**2

    def height(x):
        other = SparseGP.build(RBF(float(np.exp(x[0])), float(np.exp(0.5 * x[1]))), gp.Z, residual="full")
        model = dense(J.shard, other)
        kl, potential, tight, _ = terms_of(J, model, *unwhitened(gp, q))
        return (potential + tight) / N - kl * (0.5 / M if published else 1 / N)

    x = np.log([v, squared])
    for _ in range(3):
        x = x + rate * central_difference(height, x)
    record = replace(pass_over(J.shard, gp, q), step=1)
    step = PaperStep(steps=3, rate=rate, samples=None, log_z="none", published=published, tolerance=-np.inf)
    after = step(KernelState(gp, q), record, J.shard)
    np.testing.assert_allclose([after.gp.kernel.variance, after.gp.kernel.lengthscale**2], np.exp(x), rtol=1e-6)
    assert np.abs(x - np.log([v, squared])).min() > 1e-4


def test_few_large_steps_follow_the_path_of_many_small_ones():
    J, gp, q = objective(log_z="none")
    record = replace(pass_over(J.shard, gp, q), step=1)
    settings = {"samples": None, "log_z": "none"}
    few, many = (
        PaperStep(**settings, **choice)(KernelState(gp, q), record, J.shard).gp.kernel.log_parameters
        for choice in ({}, {"steps": 100, "rate": 0.01})
    )
    way = np.abs(many - gp.kernel.log_parameters).max()
    assert way > 0.02
    assert np.abs(few - many).max() < 0.05 * way


def test_paper_step_stays_where_the_steps_cannot_gain_the_tolerance(monkeypatch):
    J, gp, q = objective(log_z="none")
    record = replace(pass_over(J.shard, gp, q), step=1)
    state, calls, original = KernelState(gp, q), [], PaperObjective.__call__
    monkeypatch.setattr(PaperObjective, "__call__", lambda self, gp: calls.append(gp) or original(self, gp))
    assert PaperStep(samples=None, log_z="none", tolerance=10.0)(state, record, J.shard) is state
    assert len(calls) == 1
    assert PaperStep(samples=None, log_z="none")(state, record, J.shard) is not state


def test_paper_step_climbs_and_keeps_q_of_u():
    J, gp, q = objective(density=GammaMixture(1.0, 1.0), log_z="jensen")
    record = replace(pass_over(J.shard, gp, q), step=1)
    step = PaperStep(steps=40, samples=None, log_z="jensen")
    after = step(KernelState(gp, q), record, J.shard)
    J = PaperObjective(*unwhiten(gp, q), record.local.pi, J.shard, None, "jensen", seed=1)
    assert J(after.gp)[0] > J(gp)[0]
    for before, now in zip(unwhiten(gp, q), unwhiten(after.gp, after.posterior), strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-6, atol=1e-8)


def test_paper_step_refuses_to_move_on_a_collapsed_estimate():
    problem, gp = make(0, (1,) * 1200, density=GammaMixture(1.0, 2.5), variance=0.5, lengthscale=1.4, M=5)
    q = random_posterior(gp.size)
    record = replace(pass_over(problem, gp, q), step=3)
    state = KernelState(gp, q)
    with pytest.warns(DataWarning, match="effective samples at iteration 3"):
        assert PaperStep(steps=2, samples=5)(state, record, problem) is state
