"""The passes of a streamed fit: their history and clock, what stops them, and how an earlier run is gone on with."""

from types import SimpleNamespace

import numpy as np
import pytest

from fits import ALGORITHMS
from problems import make
from psimil import Bags, GammaMixture, HyperbolicSecant
from psimil.inference import history
from psimil.inference.history import History
from psimil.inference.options import Execution, Options
from psimil.inference.preparation import Prepared, Supervision
from psimil.inference.shards import StreamedShards
from psimil.inference.training import Fit
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState


def ran(batches=False, callbacks=(), keep=None, begun=None, density=None, **choices):
    """A run of passes over small shards, and its last pass."""
    density = density or HyperbolicSecant()
    problem, gp = make(sizes=(3,) * 6, density=density, variance=0.5, residual="projected")
    scaling, T = Scaling.identity(2), problem.labels.T
    shards = StreamedShards(problem.X, problem.labels, np.ones(6), scaling, density, rows=6)
    defaults = {"posterior": "augmented", "hyperparameters": None, "tol": 0.0, "max_iter": 4}
    choices = {**defaults, **choices}
    options = Options(density, algorithm=ALGORITHMS[choices["posterior"]], **choices)
    execution = Execution(batch_bags=2 if batches else None, keep=keep, begun=begun)
    rng = np.random.default_rng(0)
    fit = Fit(
        Prepared(scaling, gp, shards),
        options,
        History(callbacks, list(begun.history) if begun else []),
        None,
        execution,
        rng,
        0,
    )
    bags = Bags(problem.X, problem.labels.offsets)
    return fit, fit.rest(fit.begin(KernelState.first(gp), bags, Supervision(T, np.ones(6))))


BOTH = ["augmented", "variational"]


@pytest.mark.parametrize("posterior", BOTH)
@pytest.mark.parametrize("batches", [False, True])
def test_passes_end_at_the_limit_and_there_is_at_least_one(batches, posterior):
    for max_iter in (0, 1, 3):
        run, last = ran(batches, max_iter=max_iter, posterior=posterior)
        assert last.step == len(run.history.rows) == max(max_iter, 1)
        assert not run.converged or last.step > 1
        assert {row["stage"] for row in run.history.rows} == {"batches" if batches else "fit"}


def test_every_callback_is_asked_and_one_of_them_may_stop():
    seen = []
    run, last = ran(callbacks=[lambda row: row["iteration"] == 2, lambda row: seen.append(row["elbo"])])
    assert last.step == 2
    assert seen == [row["elbo"] for row in run.history.rows]


def test_a_settled_bound_ends_the_passes():
    run, last = ran(tol=1e6)
    assert last.step == 2
    assert run.converged


def test_the_clock_goes_on_where_an_earlier_run_stopped(monkeypatch):
    now = iter(range(100, 300, 5))
    monkeypatch.setattr(history, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    kept = []
    run, _ = ran(keep=kept.append)
    assert [row["seconds"] for row in run.history.rows] == [5, 10, 15, 20]
    again, _ = ran(begun=kept[1])
    assert [row["seconds"] for row in again.history.rows] == [5, 10, 15, 20]


@pytest.mark.parametrize("posterior", BOTH)
@pytest.mark.parametrize("batches", [False, True])
def test_a_run_that_is_gone_on_with_ends_like_one_that_was_never_stopped(batches, posterior):
    kept = []
    run, whole = ran(batches, keep=kept.append, posterior=posterior)
    assert [progress.record.step for progress in kept] == [1, 2, 3, 4]
    assert [progress.stopped for progress in kept] == [False, False, False, True]
    assert [len(progress.history) for progress in kept] == [1, 2, 3, 4]
    for begun in kept:
        again, last = ran(batches, begun=begun, posterior=posterior)
        np.testing.assert_array_equal(last.posterior.m, whole.posterior.m)
        assert last.step == whole.step
        assert [row["elbo"] for row in again.history.rows] == [row["elbo"] for row in run.history.rows]


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize(
    ("density", "posterior"),
    [(HyperbolicSecant(), "variational"), (HyperbolicSecant(), "augmented"), (GammaMixture(), "augmented")],
)
def test_a_run_goes_on_with_the_kernel_that_was_learned_before(density, posterior, batches):
    kept, stage = [], "batches" if batches else "fit"
    choices = {"density": density, "hyperparameters": "bound", "posterior": posterior, "max_iter": 3}
    run, whole = ran(batches, keep=kept.append, **choices)
    stages = [row["stage"] for row in run.history.rows]
    assert stages == ["kernel"] * (len(stages) - 3) + [stage] * 3
    assert len(stages) > 3
    assert whole.gp.kernel != make(variance=0.5)[1].kernel
    for begun in kept:
        again, last = ran(batches, begun=begun, **choices)
        assert [row["stage"] for row in again.history.rows] == stages
        assert last.gp.kernel == whole.gp.kernel
        np.testing.assert_array_equal(last.posterior.m, whole.posterior.m)


def test_convergence_is_remembered():
    kept = []
    _, last = ran(tol=1e6, keep=kept.append)
    assert [progress.converged for progress in kept] == [False, True]
    for begun in kept:
        again, found = ran(tol=1e6, begun=begun)
        assert again.converged
        assert found.step == last.step
