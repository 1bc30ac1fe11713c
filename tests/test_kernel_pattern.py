"""The pattern search of kernels: it climbs in every direction, stays within reach, and needs a gain to move."""

import numpy as np
import pytest

from problems import make
from psimil.inference import leave_one_out
from psimil.inference.ascent import KernelState, ascend
from psimil.model.kernels import RBF


def searched(monkeypatch, score, kernel):
    """The log parameters that the search ends with, relative to those it began with, for a score of that distance."""
    problem, gp = make(D=2, M=5, kernel=kernel)
    start = gp.kernel.log_parameters

    def scores(candidate, given, aggregate):
        return np.full(len(problem.weights), score(candidate.kernel.log_parameters - start))

    monkeypatch.setattr(leave_one_out, "_scores", scores)
    monkeypatch.setattr(leave_one_out, "loo_score", lambda record, given, aggregate: score(np.zeros(len(start))))
    record = next(ascend(problem, KernelState.first(gp)))
    return leave_one_out.search_kernel(record, problem, "noisy_or").kernel.log_parameters - start


@pytest.mark.parametrize("peak", [(1.5, -2.0), (-1.5, 2.0), (-0.5, -0.5), (0.0, 0.0)])
def test_the_peak_is_found_in_every_direction(monkeypatch, peak):
    found = searched(monkeypatch, lambda x: -np.abs(x - peak).sum(), RBF(1.5, 1.2))
    np.testing.assert_allclose(found, peak, atol=1e-9)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_no_parameter_goes_beyond_the_reach(monkeypatch, sign):
    found = searched(monkeypatch, lambda x: sign * x.sum(), RBF(1.5, 1.2))
    assert (np.abs(found) <= leave_one_out.SEARCHED + 1e-9).all()
    assert (sign * found >= leave_one_out.SEARCHED - leave_one_out.STEPS[-1] - 1e-9).all()  # the last step may not fit


def test_a_score_that_stays_the_same_moves_nothing(monkeypatch):
    assert not searched(monkeypatch, lambda x: 1e-5 * x.sum(), RBF(1.5, 1.2)).any()


def test_many_length_scales_move_together(monkeypatch):
    kernel = RBF(1.5, tuple(1.0 + 0.1 * i for i in range(2)))
    monkeypatch.setattr(leave_one_out, "MAX_PARAMETERS", 2)
    found = searched(monkeypatch, lambda x: -np.abs(x - [1.0, 2.0, 2.0]).sum(), kernel)
    np.testing.assert_allclose(found, [1.0, 2.0, 2.0], atol=1e-9)
