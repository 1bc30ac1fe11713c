"""The kernel on the variational bound: its gradient against differences, and what the search may and may not do."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from problems import central_difference, make, name
from psimil.foundations.errors import NumericalFailure
from psimil.foundations.logistic import antithetic_draws
from psimil.foundations.phases import LEARNING, following
from psimil.inference import kernel_learning
from psimil.inference.bag_pass import GradientTask, draws_of, first_noise
from psimil.inference.kernel_learning import (
    EVALUATIONS,
    FEWER,
    PRIOR_DEVIATION,
    REACH,
    SMOOTHER,
    Profile,
    bound_gradient,
    learn_kernel,
    smoother_unless_worse,
)
from psimil.inference.sparse_gp import Posterior, SparseGP
from psimil.inference.variational import climb, iterate_at, newton
from psimil.model.densities import HyperbolicSecant, SmoothLaplace
from psimil.model.kernels import RBF, Constant, Linear, Matern32, Matern52

KERNELS = [
    RBF(1.5, 1.2),
    RBF(0.7, (0.9, 1.7)),
    Matern32(1.1, 0.8),
    Matern52(2.0, (1.3, 0.6)),
    Linear(0.4) + RBF(1.5, 1.2),
    Linear(0.3) + RBF(1.5, (1.2, 0.8)) + Constant(0.3),
]
SIZES = (1, 3, 2, 4, 2)


def likelihood(problem, gp, draws, p):
    """The mean of log p(T | V v) over fixed draws, for other log parameters."""
    return float(GradientTask(gp.with_parameters(p), draws)(problem)[0].mean())


@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_gradient_against_differences(kernel, bias):
    problem, gp = make(1, SIZES, T=[0, 1, 0, 1, 1], kernel=kernel, bias=bias, M=5, weights=[1, 2, 0.5, 1, 3], H=50.0)
    assert gp.jitter == 0.0
    draws = antithetic_draws(gp.size, 6, seed=0) + 0.3
    expected = central_difference(lambda p: likelihood(problem, gp, draws, p), kernel.log_parameters)
    found = bound_gradient(problem, gp, draws)
    assert np.abs(found).max() > 1e-2
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("density", [HyperbolicSecant(), SmoothLaplace(0.4, 1.0)], ids=name)
def test_the_gradient_with_known_instances_and_another_density(density):
    known = np.array([-1, 0, -1, 1, -1, -1, -1, -1, -1, 0, -1, -1])
    problem, gp = make(2, SIZES, T=[0, 1, 0, 1, 1], known=known, density=density, bias=1.0, H=20.0)
    draws = antithetic_draws(gp.size, 6, seed=1)
    expected = central_difference(lambda p: likelihood(problem, gp, draws, p), gp.kernel.log_parameters)
    np.testing.assert_allclose(bound_gradient(problem, gp, draws), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[4]], ids=repr)
@pytest.mark.parametrize("residual", ["projected", "full"])
def test_kept_and_chunked_shards_give_the_same_gradient(kernel, residual):
    sizes = np.random.default_rng(0).integers(1, 8, size=40)
    problem, gp = make(3, sizes, M=8, kernel=kernel, residual=residual, bias=1.0)
    draws = antithetic_draws(gp.size, 8, seed=0)
    expected = bound_gradient(problem, gp, draws)
    for rows, whole in ((2000, True), (17, False), (1, False)):
        other = replace(problem, keep=False, whole=whole, rows=rows)
        assert other.unwhitened(gp) == (residual == "projected")
        np.testing.assert_allclose(bound_gradient(other, gp, draws), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(bound_gradient(problem, gp, draws), expected, rtol=1e-12)  # what is kept was not spoilt


def test_at_the_optimum_of_q_the_gradient_is_that_of_the_whole_bound():
    """The envelope theorem: how q(v) follows the kernel does not matter to first order."""
    problem, gp = make(4, (3,) * 30, M=5, residual="projected", bias=1.0, variance=2.0)
    noise = antithetic_draws(gp.size, 512, seed=0)

    def optimum(p):
        other = gp.with_parameters(p)
        start = newton(problem, other, np.zeros(gp.size))
        *_, found = islice(climb(problem, other, start, noise), 12)
        return found

    expected = central_difference(lambda p: optimum(p).bound.total, gp.kernel.log_parameters, h=0.1)
    draws = draws_of(optimum(gp.kernel.log_parameters).posterior, noise)
    np.testing.assert_allclose(bound_gradient(problem, gp, draws), expected, rtol=0.1, atol=0.05)


def learned(problem, gp, **choices):
    heard = []
    return learn_kernel(problem, gp, 0, lambda one: heard.append(one) or False, **choices), heard


def data(**options):
    """Bags whose positive instances are those on one side."""
    problem, gp = make(5, (3,) * 40, **{"D": 2, "M": 10, "bias": 2.0, "residual": "projected", **options})
    problem.X[:] += np.repeat(problem.labels.T, 3)[:, None] * np.where(np.arange(120) % 3, 0.0, 2.0)[:, None]
    return problem, gp


def settled(problem, gp, seed=7):
    """The bound with q(v) at its optimum, on draws that no search has seen."""
    noise = antithetic_draws(gp.size, 512, seed)
    *_, found = islice(climb(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise), 10)
    return found.bound.total


@pytest.mark.parametrize("kernel", [RBF(20.0, 0.3), RBF(0.02, 6.0), Linear(0.5) + RBF(1.0, (1.0, 1.0)), Matern32()])
def test_the_kernel_is_never_worse_than_the_start(kernel):
    problem, gp = data(kernel=kernel.resolve(2))
    found, heard = learned(problem, gp)
    assert found.bound.total >= heard[0].bound.total
    assert settled(problem, found.gp) > settled(problem, gp) - 0.1
    assert len(heard) <= EVALUATIONS
    assert [one.step for one in heard] == list(range(1, len(heard) + 1))
    bounds = [one.bound.total - penalty(one.gp, gp) for one in heard]
    assert bounds == sorted(bounds)
    again, _ = learned(problem, gp)
    np.testing.assert_array_equal(again.gp.kernel.log_parameters, found.gp.kernel.log_parameters)
    noise = first_noise(gp, len(problem.X), 0, FEWER)
    assert iterate_at(problem, found.gp, found.posterior, noise).bound.total == pytest.approx(found.bound.total)


def test_length_scales_of_features_part_where_the_bound_gains():
    """The second feature is noise: its scale becomes the longer one, under a prior that both are alike."""
    problem, gp = data(kernel=RBF(1.0, 1.5))
    problem.X[:, 1] = np.random.default_rng(0).standard_normal(len(problem.X))
    common, _ = learned(problem, gp)
    apart, heard = learned(problem, gp, thorough=True)
    one, other = apart.gp.kernel.lengthscale
    assert other > 1.2 * one
    assert [each.step for each in heard] == list(range(1, len(heard) + 1))
    smoother, _ = learned(problem, gp.rebuilt(gp.kernel.stretched(SMOOTHER)))
    assert apart.bound.total > max(common.bound.total, smoother.bound.total)
    assert heard[0].gp.kernel == gp.kernel
    starts = [each.gp.kernel.log_parameters for each in heard]
    assert any(np.allclose(one, gp.kernel.stretched(SMOOTHER).log_parameters) for one in starts if len(one) == 2)
    assert settled(problem, apart.gp) > settled(problem, common.gp) - 0.1
    few, heard = learned(problem, gp, thorough=True, evaluations=3)
    assert (len(heard), np.ndim(few.gp.kernel.lengthscale)) == (3, 0)


@pytest.mark.parametrize(("gap", "spread", "taken"), [(0.1, 0.1, 1), (-0.01, 0.1, 1), (-0.05, 0.1, 0), (-0.2, 0.1, 0)])
def test_the_smoother_kernel_is_taken_unless_bags_left_out_speak_against_it(monkeypatch, gap, spread, taken):
    """Forty bags: the standard error of a mean difference whose deviation is 0.1 is 0.016."""
    problem, gp = data(kernel=RBF(1.0, 1.5))
    noise = antithetic_draws(gp.size, 16, 0)
    pair = [iterate_at(problem, one, Posterior.prior(gp.size), noise) for one in (gp, gp.rebuilt(RBF(16.0, 6.0)))]
    change = gap + spread * np.where(np.arange(40) % 2, 1.0, -1.0)
    scores = iter([np.zeros(40), change])
    monkeypatch.setattr(kernel_learning, "bag_log_likelihoods", lambda *_: (next(scores), None))
    found = smoother_unless_worse(*pair, problem, noise)
    assert found.gp is pair[taken].gp
    assert found.bound.total > pair[taken].bound.total  # q(v) has settled


def test_a_narrow_prior_keeps_length_scales_together(monkeypatch):
    problem, gp = data(kernel=RBF(1.0, 1.5))
    problem.X[:, 1] = np.random.default_rng(0).standard_normal(len(problem.X))
    monkeypatch.setattr(kernel_learning, "PARTING_DEVIATION", 1e-3)
    one, other = learned(problem, gp, thorough=True)[0].gp.kernel.lengthscale
    assert other == pytest.approx(one, rel=1e-3)


def test_nothing_parts_once_a_callback_has_asked_to_stop():
    problem, gp = data(kernel=RBF(1.0, 1.5))
    found = learn_kernel(problem, gp, 0, lambda _: True, thorough=True)
    assert np.ndim(found.gp.kernel.lengthscale) == 0


def penalty(gp, start):
    moved = gp.kernel.log_parameters - start.kernel.log_parameters
    return 0.5 * np.square(moved / PRIOR_DEVIATION).sum()


def test_bad_kernels_are_left_far_behind_and_different_starts_end_alike():
    problem, _ = data()
    ends = []
    for kernel in (RBF(8.0, 0.4), RBF(0.3, 4.0)):
        gp = data(kernel=kernel)[1]
        found, _ = learned(problem, gp)
        assert settled(problem, found.gp) > settled(problem, gp) + 0.5
        ends.append(settled(problem, found.gp))
    assert abs(ends[0] - ends[1]) < 0.05 * 40


def test_a_profile_is_the_bound_less_a_weak_prior_on_how_far_the_kernel_went():
    problem, gp = data()
    noise = first_noise(gp, len(problem.X), 0)
    profile = Profile(problem, gp, noise, newton(problem, gp, np.zeros(gp.size)))
    start, moved = gp.kernel.log_parameters, np.array([0.5, -0.3])
    here = profile(start)
    assert here.value == here.iterate.bound.total == profile.best
    there = profile(start + moved)
    assert there.value == pytest.approx(there.iterate.bound.total - np.square(moved / PRIOR_DEVIATION).sum() / 2)
    draws = draws_of(there.iterate.posterior, noise)
    slope = bound_gradient(problem, there.iterate.gp, draws) - moved / PRIOR_DEVIATION**2
    np.testing.assert_allclose(there.gradient, slope, rtol=1e-9)
    assert profile.posterior is max(here, there, key=lambda one: one.value).iterate.posterior


@pytest.mark.parametrize("calls", [1, 3])
def test_a_callback_can_stop_it(calls):
    problem, gp = data(kernel=RBF(20.0, 0.3))
    asked = []
    found = learn_kernel(problem, gp, 0, lambda one: asked.append(one) or len(asked) == calls)
    assert len(asked) == calls
    same = np.allclose(found.gp.kernel.log_parameters, gp.kernel.log_parameters, atol=1e-12)
    assert same == (calls == 1)
    assert found.bound == asked[-1].bound


def test_the_number_of_evaluations_is_a_limit_that_is_told():
    problem, gp = data(kernel=RBF(20.0, 0.3))
    steps = []
    with following(steps.append):
        _, heard = learned(problem, gp, evaluations=4)
    assert [(s.phase, s.done, s.of) for s in steps if s.phase == LEARNING] == [(LEARNING, i, 4) for i in range(1, 5)]
    assert len(heard) == 4
    once = learned(problem, gp, evaluations=1)[0].gp.kernel
    np.testing.assert_allclose(once.log_parameters, gp.kernel.log_parameters, rtol=1e-12)


def test_no_parameter_leaves_its_reach(monkeypatch):
    problem, gp = data(kernel=RBF(20.0, 0.3))
    monkeypatch.setattr(kernel_learning, "REACH", 0.25)
    asked, true_call = [], Profile.__call__
    monkeypatch.setattr(Profile, "__call__", lambda profile, p: asked.append(p.copy()) or true_call(profile, p))
    found, _ = learned(problem, gp)
    start = gp.kernel.log_parameters
    assert np.abs(np.array(asked) - start).max() == pytest.approx(0.25)
    assert np.abs(found.gp.kernel.log_parameters - start).max() <= 0.25 + 1e-12
    assert any(np.array_equal(p, found.gp.kernel.log_parameters) for p in asked)
    assert pytest.approx(np.log(100.0)) == REACH


def test_a_kernel_whose_matrix_cannot_be_factorised_is_stepped_around(monkeypatch):
    problem, gp = data(kernel=RBF(20.0, 0.3))
    true_build, refused, start = SparseGP.with_parameters, [], gp.kernel.log_parameters

    def build(self, p):
        if np.abs(p - start).max() > 0.5 and len(refused) < 2:
            refused.append(p)
            raise NumericalFailure("no factor")
        return true_build(self, p)

    monkeypatch.setattr(SparseGP, "with_parameters", build)
    found, heard = learned(problem, gp)
    assert refused
    assert found.gp.kernel != gp.kernel
    assert found.bound.total > heard[0].bound.total
