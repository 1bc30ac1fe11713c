"""The stages of a fit: how many points a kernel is learned on, which kernels are tried, what ends passes."""

import gc
import weakref
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from fits import BALANCED, fit_of, watched
from psimil import GammaMixture, HyperbolicSecant
from psimil.inference import training
from psimil.inference.ascent import EarlyStopping, ascend, start_from_labels
from psimil.inference.training import Fit
from psimil.model.kernels import RBF
from tiny import problem as tiny_problem
from tiny import quick


@pytest.fixture
def learned(monkeypatch):
    """What a fit of one pass per stage learns from: (stage, shards, state, step) of every stage, rivals, and a record.

    Rivals of the kernel are called by their name, and keep it.
    """

    def learned(**choices):
        fit, state = fit_of(**{"max_iter": 1, **choices})
        found = SimpleNamespace(stages=[], rivals=[], state=state)
        passes = Fit._passes

        def spied(fit, shards, state, step, pi, stage):
            found.stages.append((stage, shards, state, step))
            return passes(fit, shards, state, step, pi, stage)

        for name in ("search_kernel", "guard_kernel"):
            monkeypatch.setattr(
                training, name, lambda record, *_, name=name: found.rivals.append(name) or record.gp, raising=True
            )
        with monkeypatch.context() as patch:
            patch.setattr(Fit, "_passes", spied)
            found.record = fit.learn(state, None)
        return found

    return learned


@pytest.mark.parametrize("how", ["collapsed", "loo"])
def test_a_kernel_is_learned_on_fewer_points_where_there_are_many(monkeypatch, learned, how):
    monkeypatch.setattr(training, "TEACHING", 5)
    assert [stage for stage, *_ in learned(hyperparameters=how).stages] == ["fit"]
    monkeypatch.setattr(training, "TEACHING", 4)
    found = learned(hyperparameters=how, max_iter=12, tol=0.0)
    (first, _, few, step), (second, _, after, none) = found.stages
    gp = found.state.gp
    assert (first, second) == ("kernel", "fit")
    assert len(few.gp.Z) == 4
    assert (few.gp.kernel, few.gp.bias, few.gp.residual) == (gp.kernel, gp.bias, gp.residual)
    assert step is not None
    assert none is None  # all points take the kernel that few have learned
    assert after.gp.Z is gp.Z
    assert after.gp.kernel != gp.kernel
    assert found.record.gp is after.gp


@pytest.mark.parametrize(
    "choices", [{"hyperparameters": None}, {"hyperparameters": "paper"}, {"inducing_points": np.ones((5, 2))}], ids=str
)
def test_all_points_serve_where_no_bound_is_climbed_or_points_are_given(monkeypatch, learned, choices):
    monkeypatch.setattr(training, "TEACHING", 1)
    found = learned(**choices)
    [(stage, _, state, _)] = found.stages
    assert stage == "fit"
    assert state is found.state


def test_the_learned_kernel_of_few_bags_is_guarded_unless_one_was_given(learned, monkeypatch):
    assert learned(hyperparameters="loo").rivals == ["search_kernel"]
    assert learned(hyperparameters="collapsed").rivals == ["guard_kernel"]
    assert learned(hyperparameters="collapsed", kernel=RBF()).rivals == []
    assert learned(hyperparameters=None).rivals == []
    assert learned(hyperparameters="paper").rivals == []
    monkeypatch.setattr(training, "SMALL", len(BALANCED) - 1)
    assert learned(hyperparameters="collapsed").rivals == []
    assert learned(hyperparameters="loo").rivals == ["search_kernel"]


def stages(fit, state):
    fit.learn(state, None)
    return list(dict.fromkeys(row["stage"] for row in fit.history))


def test_a_heavy_tailed_density_learns_its_kernel_on_the_logistic_model_first(monkeypatch, learned):
    monkeypatch.setattr(training, "guard_kernel", lambda record, *_: record.gp)
    assert stages(*fit_of(max_iter=2)) == ["fit"]
    assert stages(*fit_of(max_iter=2, density=GammaMixture())) == ["kernel", "fit"]
    assert stages(*fit_of(max_iter=2, density=GammaMixture(), log_z="jensen")) == ["fit"]
    densities = [shards.density for _, shards, *_ in learned(density=GammaMixture()).stages]
    assert densities == [HyperbolicSecant(), GammaMixture()]
    monkeypatch.setattr(training, "TEACHING", 3)
    assert stages(*fit_of(max_iter=2)) == ["kernel", "fit"]


def test_what_the_logistic_model_keeps_is_gone_before_the_models_own_passes(monkeypatch):
    """Its V is as large as that of the model."""
    alive, passes = {}, Fit._passes

    def spied(fit, shards, state, step, pi, stage):
        gc.collect()
        alive[stage] = [kept() is not None for kept in teachers]
        teachers.append(weakref.ref(shards))
        return passes(fit, shards, state, step, pi, stage)

    teachers = []
    monkeypatch.setattr(Fit, "_passes", spied)
    monkeypatch.setattr(training, "guard_kernel", lambda record, *_: record.gp)
    stages(*fit_of(max_iter=2, density=GammaMixture()))
    assert alive == {"kernel": [], "fit": [False]}


def test_another_kernel_is_fitted_once_more(monkeypatch):
    monkeypatch.setattr(training, "guard_kernel", lambda record, *_: replace(record.gp))
    assert stages(*fit_of(max_iter=2)) == ["fit", "loo"]


@pytest.mark.parametrize("start", [0.1, 1.0])
def test_labels_to_start_from_are_drawn_below_the_number_that_was_given(monkeypatch, start):
    drawn, used = [], []

    def spied(gp, shard, pi):
        drawn.append(pi)
        return start_from_labels(gp, shard, pi)

    def passes(shards, state, *given, pi=None, **more):
        used.append(pi)
        return ascend(shards, state, *given, pi=pi, **more)

    monkeypatch.setattr(training, "start_from_labels", spied)
    monkeypatch.setattr(training, "ascend", passes)
    bags, y, _ = tiny_problem()
    quick(start=start, max_iter=1, calibrate=False, threshold=0.5, false_positive_rate=None, tol=0.0).fit(bags, y)
    [pi] = drawn
    assert pi.shape == (len(bags.X),)
    assert 0 <= pi.min() <= 0.1 * start < 0.9 * start < pi.max() <= start
    assert used == [pi]


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_passes_end_at_the_limit_and_there_is_at_least_one(max_iter):
    fit, state = fit_of(max_iter=max_iter, tol=0.0)
    record = watched(fit, state)
    assert record.step == len(fit.history) == max(max_iter, 1)
    assert [row["iteration"] for row in fit.history] == list(range(1, record.step + 1))
    assert not fit.converged


def test_every_callback_is_asked_and_one_of_them_may_stop():
    seen = []
    fit, state = fit_of(
        callbacks=[lambda row: row["iteration"] == 2, lambda row: seen.append(row["iteration"])], tol=0.0
    )
    assert watched(fit, state).step == 2
    assert seen == [1, 2]


def test_a_settled_bound_ends_the_passes():
    fit, state = fit_of(tol=1e6)
    assert watched(fit, state).step == 2
    assert fit.converged


def test_early_stopping_outlasts_convergence_and_keeps_the_best_pass(monkeypatch):
    scores = iter([0.1, 0.5, 0.3, 0.2, 0.1])
    monkeypatch.setattr(training, "loo_score", lambda *_: next(scores))
    fit, state = fit_of(tol=1e6, early_stopping="loo", patience=2)
    assert watched(fit, state).step == 2
    assert [row["eval_loo"] for row in fit.history] == [0.1, 0.5, 0.3, 0.2]


@pytest.mark.parametrize(("how", "tolerance"), [("published", 1e-3), ("paper", 0.0)])
def test_the_authors_code_wants_a_clear_rise(monkeypatch, how, tolerance):
    made = []
    monkeypatch.setattr(training, "EarlyStopping", lambda *given: made.append(EarlyStopping(*given)) or made[-1])
    monkeypatch.setattr(Fit, "_score", lambda fit, record: 0.5)
    watched(*fit_of(hyperparameters=how, early_stopping="auc", patience=7, max_iter=1))
    [stopping] = made
    assert (stopping.patience, stopping.tolerance) == (7, tolerance)


@pytest.mark.parametrize(
    ("how", "expectation", "samples"),
    [
        ("paper", "sample", 100),
        ("published", "sample", 1),
        ("paper", "quadrature", None),
        ("published", "quadrature", None),
    ],
)
def test_how_often_the_papers_objective_is_sampled(learned, how, expectation, samples):
    [(_, _, _, step)] = learned(hyperparameters=how, expectation=expectation, seed=5).stages
    assert (step.samples, step.published, step.seed) == (samples, how == "published", 5)


def test_a_kept_kernel_has_no_step_and_a_learned_one_may_leave_out_log_z(learned):
    assert learned(hyperparameters=None).stages[0][3] is None
    for how in ("collapsed", "loo"):
        assert learned(hyperparameters=how).stages[0][3].log_z
        assert not learned(hyperparameters=how, log_z="none").stages[0][3].log_z


@pytest.mark.parametrize(("how", "moved"), [("collapsed", [8, 16]), ("paper", list(range(1, 20)))])
def test_the_kernel_moves_when_its_way_of_learning_says(how, moved):
    fit, state = fit_of(hyperparameters=how)
    after = []

    def step(state, record, shards):
        after.append(record.step)
        return state

    list(islice(fit._passes(fit.shards, state, step, None, "fit"), 20))
    assert after == moved


def test_history_counts_seconds_from_the_start_of_the_fit(monkeypatch):
    now = iter(range(100, 200, 5))
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    fit, state = fit_of(max_iter=3, tol=0.0)
    watched(fit, state)
    assert [row["seconds"] for row in fit.history] == [5, 10, 15]


@pytest.mark.parametrize(
    ("metric", "expected"), [("auc", 0.75), ("log_loss", -np.log1p(np.exp([2.0, -1.0, -3.0, -1.0])).mean())]
)
def test_early_stopping_watches_the_metric_that_was_asked_for(monkeypatch, metric, expected):
    fit, state = fit_of(early_stopping=metric)
    found = SimpleNamespace(log_odds=np.array([2.0, -1.0, 3.0, 1.0]))
    fit.evaluation = (None, np.array([0, 0, 1, 1]))
    monkeypatch.setattr(Fit, "_model", lambda fit, record: SimpleNamespace(predict=lambda bags: found))
    assert fit._score(next(ascend(fit.shards, state))) == pytest.approx(expected)
