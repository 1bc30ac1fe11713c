"""Gradient ascent on the paper's J, on objectives that are made up: how far it goes, and which kernel it keeps."""

from dataclasses import replace

import numpy as np
import pytest

from problems import make, random_posterior
from psimil.foundations.errors import DataWarning
from psimil.model.sparse_gp import KernelState
from psimil.paper import kernel_steps
from psimil.paper.ascent import pass_over
from psimil.paper.kernel_steps import PaperStep


@pytest.fixture
def climb(monkeypatch):
    """Log parameters of the kernels that J was asked for, relative to the first, the state after, and J's settings."""

    def climb(J, step, iteration=1):
        problem, gp = make()
        q = random_posterior(gp.size)
        record = replace(pass_over(problem, gp, q), step=iteration)
        asked, settings = [], []

        class Objective:
            def __init__(self, m, S, pi, shard, *rest):
                settings.append(rest)

            def __call__(self, gp):
                asked.append(gp.kernel.log_parameters - start)
                return J(asked[-1])

        start = gp.kernel.log_parameters
        monkeypatch.setattr(kernel_steps, "PaperObjective", Objective)
        state = KernelState(gp, q)
        after = step(state, record, problem)
        moved = None if after is state else after.gp.kernel.log_parameters - start
        return np.array(asked), moved, settings[0]

    return climb


def uphill(x):
    """A slope of 120 by either parameter; the problem has 12 instances, so J / N rises by 10."""
    return 120.0 * x.sum(), np.full(2, 120.0), np.inf


def test_a_step_is_the_rate_times_the_gradient_per_instance(climb):
    asked, moved, _ = climb(uphill, PaperStep(steps=3, rate=0.01))
    np.testing.assert_allclose(asked, np.outer(np.arange(4), [0.1, 0.025]), atol=1e-12)  # log of squared length scales
    np.testing.assert_allclose(moved, [0.3, 0.075], atol=1e-12)


def test_the_authors_code_takes_the_gradient_as_it_is(climb):
    asked, _, _ = climb(uphill, PaperStep(steps=1, rate=0.001, published=True))
    np.testing.assert_allclose(asked, [[0.0, 0.0], [0.12, 0.03]], atol=1e-12)


def test_noise_is_new_in_every_pass_but_in_the_authors_code(climb):
    settings = {"samples": 7, "log_z": "none", "seed": 5}
    assert climb(uphill, PaperStep(**settings), 3)[2] == (7, "none", False, 8, 1.0)
    assert climb(uphill, PaperStep(**settings, published=True), 3)[2] == (7, "none", True, 5, 0.5)


def test_the_highest_kernel_is_kept(climb):
    def hill(x):
        return -120.0 * (x[0] - 0.2) ** 2, np.array([120.0, 0.0]), np.inf  # a gradient that goes on beyond the top

    asked, moved, _ = climb(hill, PaperStep(steps=5, rate=0.01))
    assert len(asked) == 6
    np.testing.assert_allclose(moved, [0.2, 0.0], atol=1e-12)


def test_a_climb_that_cannot_gain_ends_at_once(climb):
    asked, moved, _ = climb(uphill, PaperStep(steps=5, rate=0.01, tolerance=100.0))
    assert len(asked) == 1
    assert moved is None


@pytest.mark.parametrize("bad", [(np.nan, np.ones(2)), (0.0, np.array([np.inf, 0.0])), (np.inf, np.ones(2))])
def test_an_objective_that_is_not_finite_moves_nothing(climb, bad):
    with pytest.warns(DataWarning, match="kernel step refused at iteration 4"):
        assert climb(lambda x: (*bad, np.inf), PaperStep(), 4)[1] is None


@pytest.mark.parametrize(("sample_size", "moves"), [(50.0, True), (49.9, False)])
def test_few_effective_samples_move_nothing(climb, sample_size, moves):
    def J(x):
        return (*uphill(x)[:2], sample_size)

    if moves:
        assert climb(J, PaperStep(steps=1))[1] is not None
        return
    with pytest.warns(DataWarning, match="rests on 49.9 effective samples at iteration 2"):
        assert climb(J, PaperStep(steps=1), 2)[1] is None
