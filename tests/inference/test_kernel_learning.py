"""The kernel by log p(T): what the search may and may not do; its gradient has tests of its own."""

import numpy as np
import pytest

from problems import make
from psimil.foundations.errors import NumericalFailure
from psimil.foundations.logistic import antithetic_draws
from psimil.foundations.phases import LEARNING, following
from psimil.inference import kernel_learning
from psimil.inference.draws import Draws
from psimil.inference.evidence import FAR, NaturalSites, evidence_gradient, settled
from psimil.inference.kernel_learning import EVALUATIONS, PRIOR_DEVIATION, REACH, SMOOTHER, Profile, learn_kernel
from psimil.inference.variational import divergence, iterate_at, newton
from psimil.model.kernels import RBF, Linear, Matern32
from psimil.model.sparse_gp import Posterior, SparseGP


def learned(problem, gp, **choices):
    heard = []
    return learn_kernel(problem, gp, 0, lambda one: heard.append(one) or False, **choices), heard


def data(**options):
    """Bags whose positive instances are those on one side."""
    problem, gp = make(5, (3,) * 40, **{"D": 2, "M": 10, "bias": 2.0, "residual": "projected", **options})
    problem.X[:] += np.repeat(problem.labels.T, 3)[:, None] * np.where(np.arange(120) % 3, 0.0, 2.0)[:, None]
    return problem, gp


def evidence(problem, gp, seed=7):
    """The estimate of log p(T) with q(v) at its fixed point, on draws that no search has seen."""
    noise = Draws.shared(antithetic_draws(gp.size, 512, seed))
    return settled(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise, 10).log_evidence


def penalty(gp, start):
    moved = gp.kernel.log_parameters - start.kernel.log_parameters
    return 0.5 * np.square(moved / PRIOR_DEVIATION).sum()


@pytest.mark.parametrize("kernel", [RBF(20.0, 0.3), RBF(0.02, 6.0), Linear(0.5) + RBF(1.0, (1.0, 1.0)), Matern32()])
def test_the_kernel_is_never_worse_than_the_start(kernel):
    problem, gp = data(kernel=kernel.resolve(2))
    found, heard = learned(problem, gp)
    assert found.log_evidence >= heard[0].log_evidence
    assert evidence(problem, found.gp) > evidence(problem, gp) - 0.1
    assert len(heard) <= EVALUATIONS
    assert [one.step for one in heard] == list(range(1, len(heard) + 1))
    values = [one.log_evidence - penalty(one.gp, gp) for one in heard]
    assert values == sorted(values)
    again, _ = learned(problem, gp)
    np.testing.assert_array_equal(again.gp.kernel.log_parameters, found.gp.kernel.log_parameters)


def test_length_scales_of_features_part_where_a_wiggly_kernel_is_clearly_better(monkeypatch):
    """The second feature is noise: its scale becomes the longer one, under a prior that both are alike."""
    monkeypatch.setattr(kernel_learning, "CLEARLY", -1e6)
    problem, gp = data(kernel=RBF(1.0, 1.5))
    problem.X[:, 1] = np.random.default_rng(0).standard_normal(len(problem.X))
    common, _ = learned(problem, gp)
    stretched = gp.rebuilt(gp.kernel.stretched(SMOOTHER))
    apart, heard = learned(problem, gp, thorough=True)
    one, other = apart.gp.kernel.lengthscale
    assert other > 1.2 * one
    assert [each.step for each in heard] == list(range(1, len(heard) + 1))
    assert apart.log_evidence > common.log_evidence
    assert heard[0].gp.kernel == gp.kernel
    starts = [each.gp.kernel.log_parameters for each in heard]
    assert any(np.allclose(one, stretched.kernel.log_parameters) for one in starts if len(one) == 2)
    assert evidence(problem, apart.gp) > evidence(problem, common.gp) - 0.1
    few, heard = learned(problem, gp, thorough=True, evaluations=3)
    assert (len(heard), np.ndim(few.gp.kernel.lengthscale)) == (3, 0)


def test_the_smooth_kernel_is_taken_where_the_other_is_not_clearly_better(monkeypatch):
    problem, gp = data(kernel=RBF(1.0, 1.5))
    problem.X[:, 1] = np.random.default_rng(0).standard_normal(len(problem.X))
    monkeypatch.setattr(kernel_learning, "CLEARLY", 1e6)
    found, heard = learned(problem, gp, thorough=True)
    assert found.gp.kernel.lengthscale == pytest.approx(SMOOTHER * 1.5, rel=1e-12)
    assert found.gp.kernel.variance != pytest.approx(SMOOTHER**2)  # which was learned
    assert all(np.ndim(one.gp.kernel.lengthscale) == 0 for one in heard)


def test_a_narrow_prior_keeps_length_scales_together(monkeypatch):
    problem, gp = data(kernel=RBF(1.0, 1.5))
    problem.X[:, 1] = np.random.default_rng(0).standard_normal(len(problem.X))
    monkeypatch.setattr(kernel_learning, "CLEARLY", -1e6)
    monkeypatch.setattr(kernel_learning, "PARTING_DEVIATION", 1e-3)
    one, other = learned(problem, gp, thorough=True)[0].gp.kernel.lengthscale
    assert other == pytest.approx(one, rel=1e-3)


def test_nothing_parts_once_a_callback_has_asked_to_stop():
    problem, gp = data(kernel=RBF(1.0, 1.5))
    found = learn_kernel(problem, gp, 0, lambda _: True, thorough=True)
    assert np.ndim(found.gp.kernel.lengthscale) == 0


def test_bad_kernels_are_left_far_behind_and_different_starts_end_alike():
    problem, _ = data()
    ends = []
    for kernel in (RBF(8.0, 0.4), RBF(0.3, 4.0)):
        gp = data(kernel=kernel)[1]
        found, _ = learned(problem, gp)
        assert evidence(problem, found.gp) > evidence(problem, gp) + 0.5
        ends.append(evidence(problem, found.gp))
    assert abs(ends[0] - ends[1]) < 0.05 * 40


def test_sites_carry_a_posterior_to_another_kernel():
    """With the kernel kept they are the posterior that a whole step leads to; with another, the prior times them."""
    problem, gp = data()
    noise = Draws.shared(antithetic_draws(gp.size, 256, 0))
    found = settled(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise, 10)
    sites = NaturalSites.of(problem, found)
    assert divergence(sites.posterior(problem, gp), found.whole_step) < 1e-10
    other = gp.with_parameters(gp.kernel.log_parameters + np.array([0.3, 0.2]))
    V = problem.features(other, problem.blocks[0])[0]
    Lambda, r = np.diag(sites.curvature.diagonal), sites.curvature.vector
    for a, b, sign in zip(problem.labels.offsets, problem.labels.offsets[1:], 2 * problem.labels.T - 1, strict=False):
        Lambda[a:b, a:b] += sign * np.outer(r[a:b], r[a:b])
    precision = np.eye(gp.size) + V.T @ Lambda @ V
    carried = sites.posterior(problem, other)
    np.testing.assert_allclose(carried.R @ carried.R.T, precision, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(carried.m, np.linalg.solve(precision, V.T @ sites.linear), rtol=1e-8, atol=1e-9)


def test_a_profile_is_the_evidence_less_a_weak_prior_on_how_far_the_kernel_went():
    problem, gp = data()
    noise = Draws.shared(antithetic_draws(gp.size, 64, 0))
    begun = iterate_at(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise)
    profile = Profile(problem, gp, noise, NaturalSites.of(problem, begun))
    start, moved = gp.kernel.log_parameters, np.array([0.5, -0.3])
    here = profile(start)
    assert here.value == here.iterate.log_evidence == profile.value
    there = profile(start + moved)
    assert there.value == pytest.approx(there.iterate.log_evidence - np.square(moved / PRIOR_DEVIATION).sum() / 2)
    slope = evidence_gradient(problem, there.iterate) - moved / PRIOR_DEVIATION**2
    np.testing.assert_allclose(there.gradient, slope, rtol=1e-9)
    best = max(here, there, key=lambda one: one.value)
    np.testing.assert_array_equal(profile.sites.linear, NaturalSites.of(problem, best.iterate).linear)
    still = Profile(problem, gp, noise, profile.sites, moving=np.array([True, False]))(start + moved)
    assert still.gradient[1] == 0.0 != still.gradient[0]


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
        _, heard = learned(problem, gp, evaluations=2)
    assert [(s.done, s.of) for s in steps if s.phase == LEARNING] == [(1, 2), (2, 2)]
    assert len(heard) == 2
    once = learned(problem, gp, evaluations=1)[0].gp.kernel
    np.testing.assert_allclose(once.log_parameters, gp.kernel.log_parameters, rtol=1e-12)


def test_no_parameter_leaves_its_reach(monkeypatch):
    problem, gp = data(kernel=RBF(20.0, 0.3))
    monkeypatch.setattr(kernel_learning, "REACH", 0.25)
    asked, true_call = [], Profile.__call__
    monkeypatch.setattr(Profile, "__call__", lambda profile, p, *q: asked.append(p.copy()) or true_call(profile, p, *q))
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
    assert found.log_evidence > heard[0].log_evidence


def far_away(gp):
    """A q(v) that is sure of what no bag says."""
    return Posterior(np.full(gp.size, 1.0), 3.0 * np.eye(gp.size))


def test_more_steps_are_taken_where_the_posterior_is_far_from_its_fixed_point():
    problem, gp = data(kernel=RBF(1.0, 1.5))
    noise = Draws.shared(antithetic_draws(gp.size, 256, 0))
    near, far = (settled(problem, gp, q, noise, 2) for q in (newton(problem, gp, np.zeros(gp.size)), far_away(gp)))
    assert near.step <= 3 < far.step
    assert far.distance < FAR < iterate_at(problem, gp, far_away(gp), noise).distance
    assert far.log_evidence == pytest.approx(near.log_evidence, abs=1.0)


def test_a_kernel_whose_posterior_is_not_found_is_no_candidate(monkeypatch):
    """But for the first one, which there is nothing to compare with."""
    problem, gp = data(kernel=RBF(1.0, 1.5))
    noise = Draws.shared(antithetic_draws(gp.size, 256, 0))
    begun = iterate_at(problem, gp, newton(problem, gp, np.zeros(gp.size)), noise)
    profile = Profile(problem, gp, noise, NaturalSites.of(problem, begun))
    monkeypatch.setattr(kernel_learning, "FAR", 0.0)
    assert profile(gp.kernel.log_parameters) is not None
    assert profile(gp.kernel.log_parameters) is None
    monkeypatch.setattr(kernel_learning, "FAR", FAR)
    assert profile(gp.kernel.log_parameters) is not None
