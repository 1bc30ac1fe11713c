"""The pattern of the kernel search: how far its candidates lie from the kernel that it begins with."""

import numpy as np
import pytest

from problems import make
from psimil.inference import leave_one_out
from psimil.inference.ascent import KernelState, ascend
from psimil.model.kernels import RBF


def test_every_parameter_is_tried_at_a_factor_of_e_and_then_of_its_root(monkeypatch):
    problem, gp = make()
    tried = []

    def scores(candidate, *_):
        tried.append(candidate.kernel.log_parameters - gp.kernel.log_parameters)
        return np.full(len(problem.weights), -1.0)

    monkeypatch.setattr(leave_one_out, "_scores", scores)
    monkeypatch.setattr(leave_one_out, "loo_score", lambda *_: 0.0)
    record = next(ascend(problem, KernelState.first(gp)))
    assert leave_one_out.search_kernel(record, problem, "noisy_or") is gp
    pattern = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    np.testing.assert_allclose(tried, np.concatenate([pattern, 0.5 * pattern]), atol=1e-12)


@pytest.mark.parametrize(("scales", "directions"), [(3, 4), (4, 2)])
def test_more_than_three_length_scales_move_together(monkeypatch, scales, directions):
    problem, gp = make(D=scales, kernel=RBF(1.5, tuple(np.linspace(1.0, 2.0, scales))))
    tried = []

    def scores(candidate, *_):
        tried.append(candidate.kernel.log_parameters - gp.kernel.log_parameters)
        return np.full(len(problem.weights), -1.0)

    monkeypatch.setattr(leave_one_out, "_scores", scores)
    monkeypatch.setattr(leave_one_out, "loo_score", lambda *_: 0.0)
    leave_one_out.search_kernel(next(ascend(problem, KernelState.first(gp))), problem, "noisy_or")
    assert len(tried) == 2 * directions * len(leave_one_out.STEPS)
    np.testing.assert_allclose(tried[2], [0.0, 1.0, *(0.0 if directions == 4 else 1.0 for _ in range(scales - 1))])


def test_no_parameter_goes_further_than_a_factor_of_twenty(monkeypatch):
    problem, gp = make()

    def scores(candidate, *_):
        return np.full(len(problem.weights), (candidate.kernel.log_parameters - gp.kernel.log_parameters).sum())

    monkeypatch.setattr(leave_one_out, "_scores", scores)
    monkeypatch.setattr(leave_one_out, "loo_score", lambda *_: 0.0)
    record = next(ascend(problem, KernelState.first(gp)))
    found = leave_one_out.search_kernel(record, problem, "noisy_or").kernel.log_parameters - gp.kernel.log_parameters
    assert (np.exp(found) < 21.0).all()
    assert (np.exp(found) > 12.0).all()


def test_bags_count_with_their_weights(monkeypatch):
    weights = np.array([1.0, 1.0, 1.0, 1.0, 6.0])
    problem, gp = make(weights=weights)

    def scores(candidate, *_):
        up = (candidate.kernel.log_parameters - gp.kernel.log_parameters)[0]
        return np.array([1.0, 1.0, 1.0, 1.0, -1.0]) * up

    monkeypatch.setattr(leave_one_out, "_scores", scores)
    monkeypatch.setattr(leave_one_out, "loo_score", lambda *_: 0.0)
    record = next(ascend(problem, KernelState.first(gp)))
    found = leave_one_out.search_kernel(record, problem, "noisy_or").kernel.log_parameters
    assert found[0] < gp.kernel.log_parameters[0]
