"""The loop of passes: which of them the kernel moves after, and the log Z that their bounds take off."""

from dataclasses import dataclass, replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from problems import make
from psimil.inference.shards import prior_log_z
from psimil.model.densities import GammaMixture, jensen
from psimil.model.sparse_gp import KernelState, Posterior
from psimil.paper import ascent
from psimil.paper.ascent import GROWTH, LARGEST_WEIGHT, Schedule, ascend, pass_over
from psimil.paper.passes import Bound


def test_the_bound_is_what_data_and_labels_give_less_what_the_prior_and_log_z_take():
    bound = Bound(kl=1.0, potential=20.0, scale_mixture=300.0, bags=4000.0, entropy=50000.0, log_z=600000.0)
    assert bound.total == 20.0 + 300.0 + 4000.0 + 50000.0 - 1.0 - 600000.0
    assert bound.as_dict()["elbo"] == bound.total
    assert bound.as_dict()["log_z"] == 600000.0


def test_log_z_of_the_logistic_model_counts_every_instance_with_its_weight():
    problem, gp = make(sizes=(1, 3, 2), weights=[1.0, 2.0, 0.5])
    found = pass_over(problem, gp, Posterior.prior(gp.size)).bound.log_z
    assert found == pytest.approx(-(1.0 + 6.0 + 1.0) * np.log(np.pi), rel=1e-14)


@pytest.mark.parametrize("residual", ["projected", "full"])
def test_log_z_of_other_models_adds_up_what_jensen_says_of_every_instance(residual):
    density = GammaMixture(1.0, 1.5)
    problem, gp = make(density=density, residual=residual, bias=1.0, weights=[1, 2, 0.5, 1, 3], rows=4)
    assert len(problem.ranges) > 1
    V = gp.features(problem.X)
    expected = problem.instance_weights @ jensen(density, gp.prior_variance(problem.X, V))[0]
    for shard in (problem, replace(problem, keep=False), replace(problem, keep=False, whole=False)):
        assert prior_log_z(shard, gp) == pytest.approx(expected, rel=1e-10)
        assert pass_over(shard, gp, Posterior.prior(gp.size)).bound.log_z == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_latents_begin_with_a_standard_deviation_of_a_tenth(bias):
    _, gp = make(bias=bias, variance=4.0)
    V, posterior = gp.features(gp.Z), KernelState.first(gp).posterior
    np.testing.assert_allclose(np.einsum("nm,mk,nk->n", V, posterior.S, V), 0.01, rtol=1e-9)
    assert not posterior.m.any()


@pytest.mark.parametrize(("warmup", "every", "times"), [(1, 1, 1), (2, 3, 2), (3, 1, 3)])
def test_the_bound_has_not_settled_until_the_kernel_has_moved_for_the_last_time(warmup, every, times):
    problem, gp = make()
    moved_after = []

    def step(state, record, shards):
        assert record.local is not None and shards is problem
        moved_after.append(record.step)
        return state

    schedule = Schedule(warmup, every, times)
    passes = ascend(problem, KernelState.first(gp), step, schedule)
    flags = [record.unfinished for record in islice(passes, 9)]
    last = warmup + every * (times - 1)
    assert moved_after == list(range(warmup, last + 1, every))
    assert flags == [True] * last + [False] * (9 - last)


def test_a_kernel_that_is_kept_never_unsettles_the_bound():
    problem, gp = make()
    passes = ascend(problem, KernelState.first(gp))
    assert not any(record.unfinished for record in islice(passes, 4))


@dataclass(frozen=True)
class Made:
    """A pass whose bound is made up, and whose update moves the mean by one."""

    gp: Any
    posterior: Posterior
    bound: Any
    step: int = 0
    unfinished: bool = False
    weight: float = 1.0
    local: Any = None

    @property
    def next_posterior(self):
        return Posterior(self.posterior.m + 1.0, self.posterior.R)


def made(bounds, *, accelerate=True, move=None, schedule=None, begun=None):
    """(pass number, weight, mean) of the passes that count, for these bounds of all passes, counted or not."""
    totals = iter(bounds)

    def run(shards, gp, posterior, pi=None):
        return Made(gp, posterior, SimpleNamespace(total=next(totals)))

    state = KernelState("kernel", Posterior.prior(1))
    loop = ascend(None, state, move, schedule or Schedule(), accelerate=accelerate, begun=begun)
    found = []
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError):  # no bound is left
        patch.setattr(ascent, "pass_over", run)
        for record in loop:
            found.append((record.step, record.weight, float(record.posterior.m[0])))
    return found


def test_steps_grow_from_the_second_pass_on_until_they_are_long_enough():
    weights = [weight for _, weight, _ in made(range(20))]
    assert weights[:2] == [1.0, 1.0]
    np.testing.assert_allclose(weights[2:], np.minimum(GROWTH ** np.arange(1, 19), LARGEST_WEIGHT), rtol=1e-12)


def test_plain_steps_go_as_far_as_the_update():
    assert made(range(4), accelerate=False) == [(1, 1.0, 0.0), (2, 1.0, 1.0), (3, 1.0, 2.0), (4, 1.0, 3.0)]


@pytest.mark.parametrize("before", [2, 4, 10])
def test_a_longer_step_that_lowers_the_bound_is_taken_back_however_little_longer_it_is(before):
    rising = list(range(before))
    found = made([*rising, before - 1.5, before])
    assert [step for step, _, _ in found] == list(range(1, before + 2))
    (_, _, last), (_, weight, again) = found[-2:]
    assert weight == 1.0
    assert again == last + 1.0


def test_a_plain_step_is_never_taken_back():
    assert [step for step, _, _ in made([5.0, 4.0, 3.0], accelerate=False)] == [1, 2, 3]


def test_a_bound_under_another_kernel_may_be_lower():
    def move(state, last, shards):
        return KernelState("another kernel", state.posterior)

    found = made([0, 1, 2, 3, -50, -49], move=move, schedule=Schedule(4, 1, 1))
    assert [step for step, _, _ in found] == [1, 2, 3, 4, 5, 6]
    assert found[4][1] == found[3][1]  # steps are as long after the move as before


def test_a_loop_goes_on_after_the_pass_that_it_is_given():
    whole = made(range(8))
    begun = Made(
        "kernel", Posterior(np.array([whole[4][2]]), np.eye(1)), SimpleNamespace(total=4), 5, weight=whole[4][1]
    )
    np.testing.assert_allclose(made(range(5, 8), begun=begun), whole[5:], rtol=1e-12)
