"""One pass against dense algebra, and every update as the maximiser of its coordinate of the bound."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from problems import (
    CUSTOM,
    DENSITIES,
    dense,
    elbo,
    gaussian_kl,
    joint_exact,
    labellings,
    log_psi,
    make,
    marginals,
    name,
    optimal_joints,
    random_posterior,
    solve_q,
    theta,
    unwhitened,
)
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import KernelState, Posterior
from psimil.paper.ascent import ascend
from psimil.paper.natural_steps import global_update
from psimil.paper.passes import run_pass

SETTINGS = list(product(["full", "projected"], [0.0, 1.7]))
WEIGHTS = [1.0, 2.0, 0.5, 1.0, 3.0]


def one_pass(problem, gp, seed=3, pi=None):
    posterior = random_posterior(gp.size, seed)
    local, statistics = run_pass(problem, gp, posterior, pi)
    return posterior, local, statistics


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_local_quantities_and_statistics_equal_dense_algebra(density, residual, bias):
    problem, gp = make(density=density, residual=residual, bias=bias, weights=WEIGHTS, H=100.0, rows=3)
    assert problem.X.shape == (12, 2)
    assert len(problem.ranges) > 2
    posterior, local, statistics = one_pass(problem, gp)
    model = dense(problem, gp)
    m, S = unwhitened(gp, posterior)
    mu, s2 = model.moments(m, S)
    c = np.sqrt(mu**2 + s2)
    tolerance = 1e-6 if density is CUSTOM else 1e-9
    np.testing.assert_allclose(local.mu, mu, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(local.s2, s2, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(local.theta, theta(density, c), rtol=tolerance)
    joints = optimal_joints(problem, mu)
    pi = np.concatenate([marginals(q, int(np.log2(len(q)))) for q in joints])
    np.testing.assert_allclose(local.pi, pi, rtol=1e-8)
    # statistics in the coordinates of u: A' Theta A = L^-T (V' Theta V) L^-1
    w = np.repeat(WEIGHTS, np.diff(problem.labels.offsets))
    L = np.linalg.cholesky(model.K)
    V = model.A @ L
    gram = (V * (w * theta(density, c))[:, None]).T @ V
    np.testing.assert_allclose(statistics.V_theta_V, gram, rtol=10 * tolerance, atol=1e-9)
    np.testing.assert_allclose(statistics.V_kappa, V.T @ (w * (pi - 0.5)), rtol=1e-8, atol=1e-9)
    assert statistics.scale_mixture == pytest.approx(w @ log_psi(density, c), rel=1e-9)


def test_unit_replaces_the_prior_variance_behind_theta_only():
    """E f^2 = mu^2 + s2 + 1 - v without its sign, as in the authors' code; everything else is as in "full"."""
    problem, gp = make(residual="unit", variance=6.0, lengthscale=2.5, weights=WEIGHTS, H=100.0)
    posterior = Posterior(np.zeros(gp.size), 10.0 * np.eye(gp.size))
    local, _ = run_pass(problem, gp, posterior)
    model = dense(problem, gp)
    mu, s2 = model.moments(*unwhitened(gp, posterior))
    np.testing.assert_allclose(local.s2, s2, rtol=1e-9)
    second = mu**2 + s2 - 5.0
    assert (second < 0).any()
    np.testing.assert_allclose(local.theta, theta(problem.density, np.sqrt(np.abs(second))), rtol=1e-8)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
@pytest.mark.parametrize("H", [1.0, 100.0, 1e12, np.inf])
@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_reported_bound_is_the_elbo_of_the_augmented_model(density, rule, H, residual, bias):
    """I1, constants included; log Z is checked by its own tests."""
    problem, gp = make(density=density, residual=residual, bias=bias, weights=WEIGHTS, H=H, rule=rule)
    posterior = random_posterior(gp.size, 5)
    record = next(ascend(problem, KernelState(gp, posterior)))
    model, (m, S) = dense(problem, gp), unwhitened(gp, posterior)
    mu, s2 = model.moments(m, S)
    joints = optimal_joints(problem, mu, record.local.pi if rule == "mean_field" else None)
    expected = elbo(problem, model, m, S, np.sqrt(mu**2 + s2), joints)
    assert record.bound.total + record.bound.log_z == pytest.approx(expected, rel=1e-8)
    assert record.bound.kl == pytest.approx(gaussian_kl(m, S, model.K), rel=1e-9)
    assert record.bound.as_dict()["elbo"] == record.bound.total


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_c_is_the_maximiser(density):
    problem, gp = make(density=density, H=100.0, bias=1.0)
    posterior, local, _ = one_pass(problem, gp)
    model, (m, S) = dense(problem, gp), unwhitened(gp, posterior)
    joints = optimal_joints(problem, local.mu)
    c = np.sqrt(local.mu**2 + local.s2)
    top = elbo(problem, model, m, S, c, joints)
    rng = np.random.default_rng(0)
    for size in 10.0 ** rng.uniform(-3, 0.5, size=30):
        moved = np.abs(c + size * rng.normal(size=len(c))) + 1e-6
        assert elbo(problem, model, m, S, moved, joints) < top + 1e-9 * abs(top)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_q_of_u_is_the_maximiser(density, residual, bias):
    problem, gp = make(density=density, H=100.0, residual=residual, bias=bias, weights=WEIGHTS)
    before, local, statistics = one_pass(problem, gp)
    after = global_update(statistics.V_theta_V, statistics.V_kappa)
    model = dense(problem, gp)
    joints, c = optimal_joints(problem, local.mu), np.sqrt(local.mu**2 + local.s2)
    m, S = unwhitened(gp, after)
    expected_m, expected_S = solve_q(problem, model, theta(density, c), local.pi - 0.5)
    np.testing.assert_allclose(m, expected_m, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(S, expected_S, rtol=1e-5, atol=1e-7)
    top = elbo(problem, model, m, S, c, joints)
    assert elbo(problem, model, *unwhitened(gp, before), c, joints) < top
    rng = np.random.default_rng(1)
    root = np.linalg.cholesky(S)
    for size in 10.0 ** rng.uniform(-3, 0, size=30):
        step = np.eye(len(m)) + size * rng.normal(size=S.shape) / len(m)
        moved = root @ step
        shift = m + size * root @ rng.normal(size=len(m))
        assert elbo(problem, model, shift, moved @ moved.T, c, joints) < top + 1e-9 * abs(top)


@pytest.mark.parametrize("H", [2.0, 100.0, np.inf])
def test_joint_label_posterior_is_the_maximiser(H):
    problem, gp = make(H=H, bias=1.0, weights=WEIGHTS)
    posterior, local, statistics = one_pass(problem, gp)
    model, (m, S) = dense(problem, gp), unwhitened(gp, posterior)
    c = np.sqrt(local.mu**2 + local.s2)
    joints = optimal_joints(problem, local.mu)
    top = elbo(problem, model, m, S, c, joints)
    data = statistics.potential + statistics.bags + statistics.entropy + statistics.scale_mixture
    assert data - posterior.kl == pytest.approx(top, rel=1e-9)
    rng = np.random.default_rng(2)
    for size in 10.0 ** rng.uniform(-3, 0.5, size=30):
        tilted = [q * np.exp(size * rng.normal(size=len(q))) for q in joints]
        moved = [q / q.sum() for q in tilted]
        assert elbo(problem, model, m, S, c, moved) < top + 1e-10 * abs(top)


@pytest.mark.parametrize("H", [100.0, 1e12])
def test_mean_field_pass_never_lowers_the_bound_from_any_pi(H):
    problem, gp = make(H=H, rule="mean_field", sizes=(5, 3, 4, 2))
    model = dense(problem, gp)
    for seed in range(30):
        pi = np.random.default_rng(seed).uniform(size=len(problem.X))
        posterior, local, _ = one_pass(problem, gp, seed, pi)
        m, S = unwhitened(gp, posterior)
        c = np.sqrt(local.mu**2 + local.s2)
        values = [elbo(problem, model, m, S, c, optimal_joints(problem, local.mu, p)) for p in (pi, local.pi)]
        assert values[1] >= values[0] - 1e-9 * abs(values[0])


def test_known_labels_enter_the_pass():
    known = [-1, 1, -1, 0, -1, -1, 0, -1, -1, 1, -1, -1]
    problem, gp = make(H=50.0, known=known, T=[1, 1, 0, 0, 1])
    _, local, _ = one_pass(problem, gp)
    offsets = problem.labels.offsets
    for b in range(5):
        rows = slice(offsets[b], offsets[b + 1])
        joint = joint_exact(local.mu[rows], problem.labels.T[b], 50.0, np.array(known)[rows])
        assert len(joint) == len(labellings(rows.stop - rows.start))
        np.testing.assert_allclose(local.pi[rows], marginals(joint, rows.stop - rows.start), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_streaming_and_chunks_give_the_same_pass(residual, bias):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, size=60)
    problem, gp = make(sizes=sizes, residual=residual, bias=bias, M=8, H=100.0)
    posterior, local, statistics = one_pass(problem, gp)
    for rows in (1, 7, 64, 10**6):
        for keep, whole in product((True, False), repeat=2):
            other = replace(problem, rows=rows, keep=keep, whole=whole)
            _, found, sums = one_pass(other, gp)
            for field in ("mu", "s2", "theta", "pi"):
                np.testing.assert_allclose(getattr(found, field), getattr(local, field), rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(sums.V_theta_V, statistics.V_theta_V, rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(sums.V_kappa, statistics.V_kappa, rtol=1e-11, atol=1e-12)
            assert sums.potential + sums.bags + sums.entropy == pytest.approx(
                statistics.potential + statistics.bags + statistics.entropy, rel=1e-11
            )
    assert posterior.kl > 0


@pytest.mark.parametrize("rows", [1, 5, 8, 100])
def test_ranges_hold_whole_bags_in_order(rows):
    problem, _ = make(sizes=(4, 1, 9, 3, 3, 1), rows=rows)
    chunks = problem.ranges
    assert [c.first for c in chunks] == [0, *(c.last for c in chunks[:-1])]
    assert chunks[-1].last == 6
    for c in chunks:
        assert (c.start, c.stop) == (problem.labels.offsets[c.first], problem.labels.offsets[c.last])
        assert (c.rows.start, c.rows.stop) == (c.start, c.stop)
        assert c.stop - c.start < rows + 9  # a bag goes to the range that it begins in


def test_kl_and_covariance_of_q():
    """I17 and I18: KL >= 0 and 0 only at the prior; S is symmetric, positive, and below the prior."""
    assert Posterior.prior(4).kl == 0.0
    problem, gp = make(density=HyperbolicSecant(), bias=2.0)
    _, _, statistics = one_pass(problem, gp)
    q = global_update(statistics.V_theta_V, statistics.V_kappa)
    assert q.kl > 0
    assert q.S.shape == (6, 6)
    np.testing.assert_allclose(q.S, q.S.T, atol=1e-15)
    eigenvalues = np.linalg.eigvalsh(q.S)
    assert eigenvalues.min() > 0
    assert eigenvalues.max() <= 1 + 1e-12
    np.testing.assert_allclose(q.S @ (np.eye(6) + statistics.V_theta_V), np.eye(6), atol=1e-10)
