"""The stages of a fit: when bags are held out by refits, how many points a kernel is learned on, what ends passes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from psimil.inference.fitting import first_posterior, iterate
from psimil.inference.learning import KernelState

from problems import make
from psimil import RBF, GammaMixture, HyperbolicSecant
from psimil.inference import training
from psimil.inference.calibration import LatentBags
from psimil.inference.options import Options
from psimil.inference.training import Fit
from psimil.model.scaling import Scaling

BALANCED = (0, 1, 0, 1, 0, 1)


def fit_of(T=BALANCED, callbacks=(), M=5, **choices):
    """A fit, and the state it begins with."""
    density = choices.pop("density", HyperbolicSecant())
    problem, gp = make(sizes=(2,) * len(T), T=T, M=M, density=density)
    options = Options(density, **choices)
    return Fit(problem, options, callbacks, Scaling.identity(2), None, seed=0), KernelState(gp, first_posterior(gp))


@pytest.fixture
def held_out(monkeypatch):
    """Whether out-of-bag moments come from refits, and the sparse GP of a fold."""

    def held_out(**choices):
        fit, state = fit_of(**choices)
        record = next(iterate(fit.problem, state))
        N = len(fit.problem.X)
        latent = LatentBags(np.zeros(N), np.ones(N), fit.problem.labels.offsets, fit.problem.labels.T, np.ones(N // 2))
        rebuilt = []

        def cross_fit(problem, rebuild):
            rebuilt.append(rebuild(problem.X[:8], np.arange(8) % 2 == 0))
            return np.full(N, 2.0), np.full(N, 3.0)

        monkeypatch.setattr(training, "cross_fit", cross_fit)
        found = fit._cross_fit(record, latent)
        assert (found.mean == 2.0).all() == (found.variance == 3.0).all() == bool(rebuilt)
        return rebuilt[0] if rebuilt else None, record.gp

    return held_out


NOTHING = {"calibrate": False, "threshold": 0.5, "false_positive_rate": None}


@pytest.mark.parametrize(
    "learned", [{"calibrate": True}, {"calibrate": "auto"}, {"threshold": None}, {"false_positive_rate": 0.1}]
)
def test_bags_are_held_out_by_refits_where_something_is_learned_from_them(held_out, learned):
    assert held_out(**{**NOTHING, **learned})[0] is not None
    assert held_out(**NOTHING)[0] is None


def test_nothing_is_held_out_where_a_label_is_rare(held_out):
    assert held_out(T=(0, 1, 0, 1, 1, 1))[0] is None
    assert held_out(T=(0, 1, 0, 1, 0, 0))[0] is None
    assert held_out(T=BALANCED)[0] is not None


def test_many_bags_are_not_refitted(held_out, monkeypatch):
    monkeypatch.setattr(training, "SMALL", len(BALANCED))
    assert held_out()[0] is not None
    monkeypatch.setattr(training, "SMALL", len(BALANCED) - 1)
    assert held_out()[0] is None


def test_a_fold_chooses_its_own_inducing_points_unless_they_are_given(held_out):
    rebuilt, gp = held_out()
    assert rebuilt.kernel == gp.kernel
    assert rebuilt.Z.shape == gp.Z.shape
    assert not np.array_equal(rebuilt.Z, gp.Z)
    rebuilt, gp = held_out(inducing_points=np.ones((5, 2)))
    assert rebuilt is gp


@pytest.mark.parametrize("how", ["collapsed", "loo"])
def test_a_kernel_is_learned_on_fewer_points_where_there_are_many(monkeypatch, how):
    fit, state = fit_of(hyperparameters=how)
    monkeypatch.setattr(training, "TEACHING", 5)
    assert fit._fewer_points(state.gp) is None
    monkeypatch.setattr(training, "TEACHING", 4)
    few = fit._fewer_points(state.gp)
    assert len(few.Z) == 4
    assert (few.kernel, few.bias, few.residual) == (state.gp.kernel, state.gp.bias, state.gp.residual)


@pytest.mark.parametrize(
    "choices", [{"hyperparameters": None}, {"hyperparameters": "paper"}, {"inducing_points": np.ones((5, 2))}], ids=str
)
def test_all_points_serve_where_no_bound_is_climbed_or_points_are_given(monkeypatch, choices):
    monkeypatch.setattr(training, "TEACHING", 1)
    fit, state = fit_of(**choices)
    assert fit._fewer_points(state.gp) is None


@pytest.fixture
def reconsidered(monkeypatch):
    """How the kernel is reconsidered: "search", "guard" or not."""
    monkeypatch.setattr(training, "search_kernel", lambda *_: "search")
    monkeypatch.setattr(training, "guard_kernel", lambda *_: "guard")

    def reconsidered(**choices):
        fit, state = fit_of(**choices)
        record = next(iterate(fit.problem, state))
        found = fit._reconsider(record)
        return None if found is record.gp else found

    return reconsidered


def test_the_learned_kernel_of_few_bags_is_guarded_unless_one_was_given(reconsidered, monkeypatch):
    assert reconsidered(hyperparameters="loo") == "search"
    assert reconsidered(hyperparameters="collapsed") == "guard"
    assert reconsidered(hyperparameters="collapsed", kernel=RBF()) is None
    assert reconsidered(hyperparameters=None) is None
    assert reconsidered(hyperparameters="paper") is None
    monkeypatch.setattr(training, "SMALL", len(BALANCED) - 1)
    assert reconsidered(hyperparameters="collapsed") is None
    assert reconsidered(hyperparameters="loo") == "search"


def stages(fit, state):
    fit.learn(state, None)
    return list(dict.fromkeys(row["stage"] for row in fit.history))


def test_a_heavy_tailed_density_learns_its_kernel_on_the_logistic_model_first(monkeypatch):
    monkeypatch.setattr(Fit, "_reconsider", lambda fit, record: record.gp)
    assert stages(*fit_of(max_iter=2)) == ["fit"]
    assert stages(*fit_of(max_iter=2, density=GammaMixture())) == ["kernel", "fit"]
    assert stages(*fit_of(max_iter=2, density=GammaMixture(), log_z="jensen")) == ["fit"]
    monkeypatch.setattr(training, "TEACHING", 3)
    assert stages(*fit_of(max_iter=2)) == ["kernel", "fit"]


def test_another_kernel_is_fitted_once_more(monkeypatch):
    monkeypatch.setattr(Fit, "_reconsider", lambda fit, record: replace(record.gp))
    assert stages(*fit_of(max_iter=2)) == ["fit", "loo"]


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_passes_end_at_the_limit_and_there_is_at_least_one(max_iter):
    fit, state = fit_of(max_iter=max_iter, tol=0.0)
    record = fit.run(fit.problem, state, None, None, "fit")
    assert record.step == len(fit.history) == max(max_iter, 1)
    assert [row["iteration"] for row in fit.history] == list(range(1, record.step + 1))
    assert not fit.converged


def test_every_callback_is_asked_and_one_of_them_may_stop():
    seen = []
    fit, state = fit_of(
        callbacks=[lambda row: row["iteration"] == 2, lambda row: seen.append(row["iteration"])], tol=0.0
    )
    assert fit.run(fit.problem, state, None, None, "fit").step == 2
    assert seen == [1, 2]


def test_a_settled_bound_ends_the_passes():
    fit, state = fit_of(tol=1e6)
    assert fit.run(fit.problem, state, None, None, "fit").step == 2
    assert fit.converged


def test_early_stopping_outlasts_convergence_and_keeps_the_best_pass(monkeypatch):
    scores = iter([0.1, 0.5, 0.3, 0.2, 0.1])
    monkeypatch.setattr(training, "loo_score", lambda *_: next(scores))
    fit, state = fit_of(tol=1e6, early_stopping="loo", patience=2)
    assert fit.run(fit.problem, state, None, None, "fit").step == 2
    assert [row["eval_loo"] for row in fit.history] == [0.1, 0.5, 0.3, 0.2]


@pytest.mark.parametrize(("how", "tolerance"), [("published", 1e-3), ("paper", 0.0)])
def test_the_authors_code_wants_a_clear_rise(how, tolerance):
    fit, _ = fit_of(hyperparameters=how, early_stopping="auc", patience=7)
    stopping = fit._early_stopping()
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
def test_how_often_the_papers_objective_is_sampled(how, expectation, samples):
    fit, _ = fit_of(hyperparameters=how, expectation=expectation)
    step = fit._kernel_step()
    assert (step.samples, step.published) == (samples, how == "published")


def test_a_kept_kernel_has_no_step_and_a_learned_one_may_leave_out_log_z():
    assert fit_of(hyperparameters=None)[0]._kernel_step() is None
    for how in ("collapsed", "loo"):
        assert fit_of(hyperparameters=how)[0]._kernel_step().log_z
        assert not fit_of(hyperparameters=how, log_z="none")[0]._kernel_step().log_z


def test_history_counts_seconds_from_the_start_of_the_fit(monkeypatch):
    now = iter(range(100, 200, 5))
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    fit, state = fit_of(max_iter=3, tol=0.0)
    fit.run(fit.problem, state, None, None, "fit")
    assert [row["seconds"] for row in fit.history] == [5, 10, 15]


@pytest.mark.parametrize(
    ("metric", "expected"), [("auc", 0.75), ("log_loss", -np.log1p(np.exp([2.0, -1.0, -3.0, -1.0])).mean())]
)
def test_early_stopping_watches_the_metric_that_was_asked_for(monkeypatch, metric, expected):
    fit, state = fit_of(early_stopping=metric)
    found = SimpleNamespace(log_odds=np.array([2.0, -1.0, 3.0, 1.0]))
    fit.evaluation = (None, np.array([0, 0, 1, 1]))
    monkeypatch.setattr(Fit, "_model", lambda fit, record: SimpleNamespace(predict=lambda bags: found))
    assert fit._evaluate(next(iterate(fit.problem, state))) == pytest.approx(expected)
