"""The passes of a streamed fit: their history and clock, what stops them, and how an earlier run is gone on with."""

from types import SimpleNamespace

import numpy as np
import pytest

from problems import make
from psimil import GammaMixture, HyperbolicSecant
from psimil.inference import training
from psimil.inference.ascent import KernelState
from psimil.inference.execution import Execution
from psimil.inference.options import Options
from psimil.inference.preparation import Prepared
from psimil.inference.shards import StreamedShards
from psimil.inference.training import Fit
from psimil.model.scaling import Scaling


def ran(batches=False, callbacks=(), keep=None, begun=None, density=None, **choices):
    """A run of passes over small shards, and its last pass."""
    density = density or HyperbolicSecant()
    problem, gp = make(sizes=(3,) * 6, density=density, variance=0.5)
    scaling = Scaling.identity(2)
    shards = StreamedShards(problem.X, problem.labels, np.ones(6), scaling, density, rows=6)
    options = Options(density, **{"hyperparameters": None, "tol": 0.0, "max_iter": 4, **choices})
    execution = Execution(batch_bags=2 if batches else None, keep=keep, begun=begun)
    rng = np.random.default_rng(0)
    fit = Fit(Prepared(scaling, gp, shards), options, callbacks, None, execution, rng, 0)
    return fit, fit.learn(KernelState.first(gp), None)


@pytest.mark.parametrize("batches", [False, True])
def test_passes_end_at_the_limit_and_there_is_at_least_one(batches):
    for max_iter in (0, 1, 3):
        run, last = ran(batches, max_iter=max_iter)
        assert last.step == len(run.history) == max(max_iter, 1)
        assert not run.converged
        assert {row["stage"] for row in run.history} == {"batches" if batches else "fit"}


def test_every_callback_is_asked_and_one_of_them_may_stop():
    seen = []
    run, last = ran(callbacks=[lambda row: row["iteration"] == 2, lambda row: seen.append(row["elbo"])])
    assert last.step == 2
    assert seen == [row["elbo"] for row in run.history]


def test_a_settled_bound_ends_the_passes():
    run, last = ran(tol=1e6)
    assert last.step == 2
    assert run.converged


def test_the_clock_goes_on_where_an_earlier_run_stopped(monkeypatch):
    now = iter(range(100, 300, 5))
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    kept = []
    run, _ = ran(keep=kept.append)
    assert [row["seconds"] for row in run.history] == [5, 10, 15, 20]
    again, _ = ran(begun=kept[1])
    assert [row["seconds"] for row in again.history] == [5, 10, 15, 20]


@pytest.mark.parametrize("batches", [False, True])
def test_a_run_that_is_gone_on_with_ends_like_one_that_was_never_stopped(batches):
    kept = []
    run, whole = ran(batches, keep=kept.append)
    assert [progress.record.step for progress in kept] == [1, 2, 3, 4]
    assert [progress.stopped for progress in kept] == [False, False, False, True]
    assert [len(progress.history) for progress in kept] == [1, 2, 3, 4]
    for begun in kept:
        again, last = ran(batches, begun=begun)
        np.testing.assert_array_equal(last.posterior.m, whole.posterior.m)
        assert last.step == whole.step
        assert [row["elbo"] for row in again.history] == [row["elbo"] for row in run.history]


def test_the_kernel_is_learned_on_the_logistic_model_once():
    kept = []
    choices = {"density": GammaMixture(), "hyperparameters": "collapsed", "max_iter": 2}
    run, whole = ran(keep=kept.append, **choices)
    assert [row["stage"] for row in run.history] == ["kernel", "kernel", "fit", "fit"]
    for begun in kept:
        again, last = ran(begun=begun, **choices)
        assert [row["stage"] for row in again.history] == ["kernel", "kernel", "fit", "fit"]
        np.testing.assert_array_equal(last.posterior.m, whole.posterior.m)


def test_convergence_is_remembered():
    kept = []
    _, last = ran(tol=1e6, keep=kept.append)
    assert [progress.converged for progress in kept] == [False, True]
    for begun in kept:
        again, found = ran(tol=1e6, begun=begun)
        assert again.converged
        assert found.step == last.step
