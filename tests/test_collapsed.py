"""The collapsed bound: value against dense algebra, gradient against differences, steps that never lower the bound."""

from itertools import islice, pairwise, product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from problems import CUSTOM, DENSITIES, central_difference, dense, log_psi, make, name, random_posterior, theta
from psimil.foundations.errors import DataWarning, NumericalFailure
from psimil.inference.ascent import KernelState, Pass, Schedule, ascend
from psimil.inference.collapsed import CollapsedBound, CollapsedStep
from psimil.inference.passes import Bound, Local, Statistics, run_pass
from psimil.inference.posterior import Posterior
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import GammaMixture, HyperbolicSecant, StudentT
from psimil.model.kernels import RBF, Constant, Linear, Matern32, Matern52

ARD = (0.9, 1.7, 2.5)
KERNELS = {
    "rbf": RBF(1.3, 1.4),
    "rbf-ard": RBF(1.3, ARD),
    "matern32": Matern32(0.8, 1.4),
    "matern52-ard": Matern52(2.0, ARD),
    "linear": Linear(0.7),
    "rbf+linear+constant": RBF(1.3, 1.4) + Linear(0.7) + Constant(0.5),
}
GRADIENT_DENSITIES = [HyperbolicSecant(), GammaMixture(1.0, 1.5), StudentT(3.0), CUSTOM]
WEIGHTS = [1.0, 2.0, 0.5, 1.0, 3.0]


def locals_of(problem, gp, seed=3):
    """theta and pi of a pass from a random q(v)."""
    return run_pass(problem, gp, random_posterior(gp.size, seed))[0]


def collapsed_bound(gp, local, problem, *, log_z=True):
    """F at the kernel of ``gp``, for theta and pi that are at hand."""
    return CollapsedBound(problem, KernelState(gp, Posterior.prior(gp.size)), local, log_z)(gp)


def last_pass(gp, local, step):
    """The record of a pass that found ``local``."""
    nothing = Statistics(np.zeros((gp.size, gp.size)), np.zeros(gp.size), 0.0, 0.0, 0.0, 0.0)
    return Pass(gp, Posterior.prior(gp.size), nothing, Bound(0.0, 0.0, 0.0, 0.0, 0.0, 0.0), step, local=local)


def jensen_oracle(density, variance):
    x, w = hermegauss(32)
    f = np.sqrt(variance)[:, None] * x
    return (np.log(2 * np.cosh(f / 2)) + log_psi(density, f)) @ (w / w.sum())


@pytest.mark.parametrize("log_z", [True, False])
@pytest.mark.parametrize("density", GRADIENT_DENSITIES, ids=name)
@pytest.mark.parametrize("residual", ["full", "projected"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient_equals_differences(kernel, residual, density, log_z):
    """dF / d log parameter to 1e-6, with a constant mean, weights and several chunks."""
    M = 3 if kernel == "linear" else 5  # rank D
    problem, gp = make(
        2, D=3, M=M, density=density, residual=residual, bias=1.3, kernel=KERNELS[kernel], weights=WEIGHTS, rows=4
    )
    assert gp.jitter == 0.0
    local = locals_of(problem, gp)
    found = collapsed_bound(gp, local, problem, log_z=log_z)
    assert found.gradient.shape == gp.kernel.log_parameters.shape

    def value(x):
        return collapsed_bound(gp.with_parameters(x), local, problem, log_z=log_z).value

    expected = central_difference(value, gp.kernel.log_parameters)
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("memory", [{"keep": True}, {"keep": False}, {"whole": False}], ids=str)
@pytest.mark.parametrize("residual", ["full", "projected"])
@pytest.mark.parametrize("bias", [0.0, 1.3])
def test_gradient_without_a_mean_and_streamed(residual, bias, memory):
    problem, gp = make(5, D=3, M=6, density=GammaMixture(1.0, 1.0), residual=residual, bias=bias, rows=4, **memory)
    local = locals_of(problem, gp)
    expected = central_difference(
        lambda x: collapsed_bound(gp.with_parameters(x), local, problem).value, gp.kernel.log_parameters
    )
    np.testing.assert_allclose(collapsed_bound(gp, local, problem).gradient, expected, rtol=1e-6)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize(("residual", "bias"), list(product(["full", "projected"], [0.0, 1.7])))
def test_value_is_the_maximum_over_q_by_dense_algebra(density, residual, bias):
    """F of DESIGN section 3 in the coordinates of u, plus Jensen's log Z; and the q(v) that attains it."""
    problem, gp = make(1, density=density, residual=residual, bias=bias, weights=WEIGHTS, rows=5)
    local = locals_of(problem, gp)
    found = collapsed_bound(gp, local, problem)
    model = dense(problem, gp)
    w = np.repeat(WEIGHTS, np.diff(problem.labels.offsets))
    precision, kappa = w * local.theta, w * (local.pi - 0.5)
    P = np.linalg.inv(model.K) + (model.A * precision[:, None]).T @ model.A
    g = model.A.T @ kappa
    log_dets = np.linalg.slogdet(P)[1] + np.linalg.slogdet(model.K)[1]
    prior = np.einsum("nm,mk,nk->n", model.A, model.K, model.A) + model.k
    expected = 0.5 * g @ np.linalg.solve(P, g) - 0.5 * log_dets - 0.5 * precision @ model.k
    log_z = w @ jensen_oracle(density, prior)
    if isinstance(density, HyperbolicSecant):
        log_z = 0.0  # the same for every kernel, left out
    expected -= log_z
    assert found.value == pytest.approx(expected, rel=1e-9)
    without = collapsed_bound(gp, local, problem, log_z=False)
    assert without.value - found.value == pytest.approx(log_z, rel=1e-8)
    L = np.linalg.cholesky(model.K)
    np.testing.assert_allclose(L @ found.posterior.m, np.linalg.solve(P, g), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(L @ found.posterior.S @ L.T, np.linalg.inv(P), rtol=1e-6, atol=1e-8)


def test_value_ties_to_the_bound():
    """F plus the terms without q(v) is L at the collapsed q(v), with theta, pi and c held."""
    problem, gp = make(8, H=100.0, bias=1.0)
    local = locals_of(problem, gp)
    found = collapsed_bound(gp, local, problem, log_z=False)
    model, L = dense(problem, gp), np.eye(6)
    L[:5, :5] = np.linalg.cholesky(model.K[:5, :5])
    mu, s2 = model.moments(L @ found.posterior.m, L @ found.posterior.S @ L.T)
    c = np.sqrt(local.mu**2 + local.s2)
    gaussian = (local.pi - 0.5) @ mu - 0.5 * theta(problem.density, c) @ (mu**2 + s2)
    assert found.value == pytest.approx(gaussian - found.posterior.kl, rel=1e-9)


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0), StudentT(4.0), CUSTOM], ids=name)
@pytest.mark.parametrize("residual", ["full", "projected"])
@pytest.mark.parametrize("kernel", ["rbf", "rbf-ard", "matern32", "rbf+linear+constant"])
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_kernel_steps_never_lower_the_bound(density, residual, kernel, rule):
    for seed, H in ((0, np.inf), (1, 100.0)) if rule == "exact" else ((1, 100.0),):
        sizes = np.random.default_rng(seed).integers(1, 6, size=12)
        problem, gp = make(
            seed, sizes, D=3, M=6, density=density, residual=residual, kernel=KERNELS[kernel], bias=2.0, H=H, rule=rule
        )
        steps = ascend(
            problem, KernelState(gp, Posterior.prior(gp.size)), step_kernel=CollapsedStep(), schedule=Schedule(2, 2, 4)
        )
        records = list(islice(steps, 12))
        L = np.array([r.bound.total for r in records])
        assert (L[:-1] - L[1:]).max() <= 1e-9 * np.abs(L).max()
        moved = [a.gp is not b.gp for a, b in pairwise(records)]
        assert moved == [i in (2, 4, 6, 8) for i in range(1, 12)]
        assert [r.kernel_moved for r in records] == [True] * 8 + [False] * 4
        assert np.abs(records[-1].gp.kernel.log_parameters - gp.kernel.log_parameters).max() > 1e-3


def test_learned_kernel_is_stationary_for_the_bound():
    problem, gp = make(3, np.full(20, 3), D=2, M=8, bias=2.0, residual="full")
    steps = ascend(
        problem,
        KernelState(gp, Posterior.prior(gp.size)),
        step_kernel=CollapsedStep(steps=20),
        schedule=Schedule(1, 1, 60),
    )
    record = list(islice(steps, 61))[-1]
    gradient = collapsed_bound(record.gp, record.local, problem).gradient
    inside = np.abs(record.gp.kernel.log_parameters) < 8  # a parameter that runs off has no finite optimum
    assert np.abs(gradient[inside]).max() < 1e-2


def test_a_step_that_fails_numerically_is_refused_with_a_warning(monkeypatch):
    def fail(*_args, **_kwargs):
        raise NumericalFailure("no factor")

    problem, gp = make(0)
    monkeypatch.setattr(SparseGP, "with_parameters", fail)
    state = KernelState(gp, Posterior.prior(gp.size))
    with pytest.warns(DataWarning, match="kernel step refused at iteration 7"):
        assert CollapsedStep()(state, last_pass(gp, locals_of(problem, gp), 7), problem) is state


def test_a_step_changes_no_parameter_by_more_than_ten():
    problem, gp = make(0, np.full(30, 2), variance=1e-6, lengthscale=50.0)
    local = Local(*(np.asarray(v) for v in (np.zeros(60), np.ones(60), np.full(60, 0.25), np.tile([0.0, 1.0], 30))))
    after = CollapsedStep(steps=50)(KernelState(gp, Posterior.prior(gp.size)), last_pass(gp, local, 1), problem)
    change = after.gp.kernel.log_parameters - gp.kernel.log_parameters
    assert np.abs(change).max() <= np.log(10.0) + 1e-12
