"""Fixed kernels against the learned one: only a clear gain of left-out bags replaces it."""

import numpy as np
import pytest

from psimil.inference import leave_one_out, training
from psimil.model.kernels import RBF
from tiny import problem, quick


def guarded(monkeypatch, gain, noise):
    """The kernel that is kept when every rival beats the learned one by ``gain`` on average, with noise over bags."""
    bags, y, _ = problem()
    record = {}

    def learned(found, given, aggregate):
        record["learned"] = found.gp
        return np.zeros(len(y))

    draws = np.tile([noise, -noise], len(y) // 2) + gain
    monkeypatch.setattr(leave_one_out, "loo_scores", learned)
    monkeypatch.setattr(leave_one_out, "_scores", lambda gp, given, aggregate: draws)
    model = quick(hyperparameters="collapsed", max_iter=60, tol=0.01, calibrate=False).fit(bags, y)
    return model.kernel_, record["learned"].kernel


@pytest.mark.parametrize(
    ("gain", "noise", "replaced"), [(0.1, 0.1, True), (0.1, 1.0, False), (0.04, 0.01, False), (-0.1, 0.01, False)]
)
def test_a_rival_must_win_clearly(monkeypatch, gain, noise, replaced):
    kernel, learned = guarded(monkeypatch, gain, noise)  # standard error: noise / sqrt(24)
    assert (kernel == RBF(1.0, float(np.sqrt(3)))) is replaced
    assert (kernel == learned) is not replaced


def test_the_best_rival_wins(monkeypatch):
    bags, y, _ = problem()
    monkeypatch.setattr(leave_one_out, "loo_scores", lambda found, given, aggregate: np.zeros(len(y)))
    monkeypatch.setattr(leave_one_out, "_scores", lambda gp, given, aggregate: np.full(len(y), gp.kernel.variance))
    model = quick(hyperparameters="collapsed", max_iter=60, tol=0.01, calibrate=False).fit(bags, y)
    assert model.kernel_.variance == pytest.approx(10.0)


def test_many_inducing_points_take_the_kernel_that_few_have_learned(monkeypatch):
    bags, y, _ = problem()
    monkeypatch.setattr(training, "TEACHING", 4)
    settings = {"hyperparameters": "collapsed", "max_iter": 60, "calibrate": False, "kernel": RBF(1.0), "tol": 0.01}
    model = quick(n_inducing=8, **settings).fit(bags, y)
    few = quick(n_inducing=4, **settings).fit(bags, y)
    assert [row["stage"] for row in model.history_][-1] == "fit" and model.history_[0]["stage"] == "kernel"
    assert model.inducing_points_.shape == (8, 3)
    np.testing.assert_allclose(model.kernel_.log_parameters, few.kernel_.log_parameters, atol=0.5)
    given = quick(n_inducing=8, inducing_points=bags.X[:8], **settings).fit(bags, y)
    assert {row["stage"] for row in given.history_} == {"fit"}  # the user's points are all used
