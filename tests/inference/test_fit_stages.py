"""The stages of a fit: what a kernel is learned on, what passes begin with, what ends them."""

import gc
import weakref
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from fits import fit_of, learned, watched
from psimil import GammaMixture, HyperbolicSecant, SmoothLaplace
from psimil.inference import algorithm, history, preparation, training
from psimil.inference.history import EarlyStopping
from psimil.inference.kernel_learning import learn_kernel
from psimil.inference.training import Fit
from psimil.inference.variational import mode
from psimil.paper import augmented
from psimil.paper.ascent import ascend, start_from_labels
from tiny import problem as tiny_problem
from tiny import quick

PAPER = {"posterior": "augmented"}


@pytest.fixture
def spied(monkeypatch):
    """A fit of which is known what its kernel is learned on, and what its passes begin with."""

    def spied(**choices):
        fit, state = fit_of(**{"max_iter": 2, "tol": 0.0, **choices})
        found = SimpleNamespace(taught=[], modes=[], passes=[], state=state, fit=fit)

        def learn(shard, gp, *rest, **choices):
            found.taught.append((shard, gp, learn_kernel(shard, gp, *rest, **choices)))
            return found.taught[-1][2]

        def sought(shard, gp):
            found.modes.append((shard, gp, mode(shard, gp)))
            return found.modes[-1][2]

        passes = Fit._passes
        monkeypatch.setattr(training, "learn_kernel", learn)
        monkeypatch.setattr(algorithm, "mode", sought)
        with monkeypatch.context() as patch:
            patch.setattr(Fit, "_passes", lambda fit, *given: found.passes.append(given) or passes(fit, *given))
            found.record = learned(fit, state)
        return found

    return spied


@pytest.mark.parametrize("posterior", ["variational", "augmented"])
def test_a_kernel_is_learned_on_fewer_points_where_there_are_many(monkeypatch, spied, posterior):
    monkeypatch.setattr(training, "TEACHING", 5)
    [(_, gp, _)] = spied(posterior=posterior).taught
    assert len(gp.Z) == 5
    monkeypatch.setattr(training, "TEACHING", 4)
    found = spied(posterior=posterior, max_iter=12)
    [(shard, few, end)] = found.taught
    gp = found.state.gp
    assert shard.X is found.fit.shards.X
    assert len(few.Z) == 4
    assert (few.kernel, few.bias, few.residual) == (gp.kernel, gp.bias, gp.residual)
    assert found.record.gp.kernel == end.gp.kernel != gp.kernel  # all points take the kernel that few have learned
    assert found.record.gp.Z is gp.Z


@pytest.mark.parametrize(
    "choices", [{"hyperparameters": None}, {"hyperparameters": None, **PAPER}, {"hyperparameters": "paper", **PAPER}]
)
def test_no_bound_is_climbed_where_the_kernel_is_kept_or_moves_between_passes(spied, choices):
    found = spied(**choices)
    assert not found.taught
    assert found.passes[0][0].gp is found.state.gp
    assert {row["stage"] for row in found.fit.history.rows} == {"fit"}
    assert (found.record.gp.kernel == found.state.gp.kernel) == (choices["hyperparameters"] is None)


def test_points_that_are_given_teach_the_kernel_however_many(monkeypatch, spied):
    monkeypatch.setattr(training, "TEACHING", 1)
    found = spied(inducing_points=np.ones((5, 2)))
    assert found.taught[0][1] is found.state.gp
    assert found.record.gp is found.taught[0][2].gp


def test_passes_begin_where_the_search_for_the_kernel_ended(spied):
    found = spied()
    assert not found.modes
    assert found.passes[0][0].posterior is found.taught[0][2].posterior
    assert found.passes[0][0].gp is found.taught[0][2].gp
    assert not spied(**PAPER).modes
    begun = spied(**PAPER).passes[0][0].posterior
    assert not begun.m.any()


def test_many_instances_teach_by_a_sample_of_bags(monkeypatch, spied):
    for name in ("ENOUGH_BAGS", "ENOUGH_ROWS", "MOST_ROWS"):
        monkeypatch.setattr(preparation, name, 8)
    found = spied()
    [(shard, _, end)] = found.taught
    assert len(shard.X) == 8
    assert shard.labels.T.sum() == 2  # of four bags, as of all
    assert found.passes[0][0].posterior is end.posterior
    monkeypatch.setattr(preparation, "MOST_ROWS", 12)
    found = spied()
    assert found.taught[0][0].X is found.fit.shards.X


def test_passes_with_a_given_kernel_begin_at_the_mode_of_a_sample(monkeypatch, spied):
    for name in ("ENOUGH_BAGS", "ENOUGH_ROWS", "MOST_ROWS"):
        monkeypatch.setattr(preparation, name, 8)
    found = spied(hyperparameters=None)
    [(sample, gp, end)] = found.modes
    assert len(sample.X) == 8 and gp is found.state.gp
    assert found.passes[0][0].posterior is end


@pytest.mark.parametrize("density", [GammaMixture(), SmoothLaplace(0.4, 1.0)])
def test_another_density_learns_its_kernel_on_the_logistic_model(spied, density):
    found = spied(density=density)
    [(shard, _, end)] = found.taught
    assert shard.density == HyperbolicSecant()
    assert found.fit.shards.density == density
    assert found.record.gp is end.gp
    assert list(dict.fromkeys(row["stage"] for row in found.fit.history.rows)) == ["kernel", "fit"]


def test_what_the_logistic_model_keeps_is_gone_before_the_models_own_passes(monkeypatch):
    """Its V is as large as that of the model."""
    teachers, alive, passes = [], [], Fit._passes

    def learn(shard, *rest, **choices):
        teachers.append(weakref.ref(shard))
        return learn_kernel(shard, *rest, **choices)

    def spied(fit, *given):
        gc.collect()
        alive.extend(kept() is not None for kept in teachers)
        return passes(fit, *given)

    monkeypatch.setattr(Fit, "_passes", spied)
    monkeypatch.setattr(training, "learn_kernel", learn)
    learned(*fit_of(max_iter=2, density=GammaMixture()))
    assert alive == [False]


def test_a_callback_hears_the_steps_of_the_kernel_and_may_stop_them():
    seen = []
    fit, state = fit_of(callbacks=[lambda row: seen.append(row) or row["stage"] == "kernel"], max_iter=5, tol=0.0)
    learned(fit, state)
    assert [row["stage"] for row in seen] == ["kernel"] + ["fit"] * (len(seen) - 1)
    assert len(seen) > 1
    assert seen == fit.history.rows
    assert seen[0]["elbo"] == pytest.approx(seen[0]["likelihood"] - seen[0]["kl"], rel=1e-12)


@pytest.mark.parametrize("start", [0.1, 1.0])
def test_labels_to_start_from_are_drawn_below_the_number_that_was_given(monkeypatch, start):
    drawn, used = [], []

    def spied(gp, shard, pi):
        drawn.append(pi)
        return start_from_labels(gp, shard, pi)

    def passes(shards, state, *given, pi=None, **more):
        used.append(pi)
        return ascend(shards, state, *given, pi=pi, **more)

    monkeypatch.setattr(augmented, "start_from_labels", spied)
    monkeypatch.setattr(augmented, "ascend", passes)
    bags, y, _ = tiny_problem()
    quick(
        posterior="augmented",
        start=start,
        max_iter=1,
        calibrate=False,
        threshold=0.5,
        false_positive_rate=None,
        tol=0.0,
    ).fit(bags, y)
    [pi] = drawn
    assert pi.shape == (len(bags.X),)
    assert 0 <= pi.min() <= 0.1 * start < 0.9 * start < pi.max() <= start
    assert len(used) == 1 and used[0] is pi


@pytest.mark.parametrize("posterior", ["variational", "augmented"])
@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_passes_end_at_the_limit_and_there_is_at_least_one(max_iter, posterior):
    fit, state = fit_of(max_iter=max_iter, tol=0.0, posterior=posterior)
    record = watched(fit, state)
    assert record.step == len(fit.history.rows) == max(max_iter, 1)
    assert [row["iteration"] for row in fit.history.rows] == list(range(1, record.step + 1))
    assert not fit.converged


def test_every_callback_is_asked_and_one_of_them_may_stop():
    seen = []
    fit, state = fit_of(
        callbacks=[lambda row: row["iteration"] == 2, lambda row: seen.append(row["iteration"])], tol=0.0
    )
    assert watched(fit, state).step == 2
    assert seen == [1, 2]


def test_a_settled_posterior_ends_the_passes_once_a_tilted_step_was_made():
    fit, state = fit_of(tol=1e6)
    assert watched(fit, state).step == 2
    assert fit.converged


def test_early_stopping_outlasts_convergence_and_keeps_the_best_pass(monkeypatch):
    scores = iter([0.1, 0.5, 0.3, 0.2, 0.1])
    monkeypatch.setattr(training, "out_of_bag_score", lambda *_: next(scores))
    fit, state = fit_of(tol=1e6, early_stopping="out_of_bag", patience=2)
    assert watched(fit, state).step == 2
    assert [row["eval_out_of_bag"] for row in fit.history.rows] == [0.1, 0.5, 0.3, 0.2]


@pytest.mark.parametrize(("how", "tolerance"), [("published", 1e-3), ("paper", 0.0)])
def test_the_authors_code_wants_a_clear_rise(monkeypatch, how, tolerance):
    made = []
    monkeypatch.setattr(training, "EarlyStopping", lambda *given: made.append(EarlyStopping(*given)) or made[-1])
    monkeypatch.setattr(Fit, "_score", lambda fit, record: 0.5)
    watched(*fit_of(hyperparameters=how, early_stopping="auc", patience=7, max_iter=1, **PAPER))
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
def test_how_often_the_papers_objective_is_sampled(spied, how, expectation, samples):
    step = spied(hyperparameters=how, expectation=expectation, seed=5, max_iter=1, **PAPER).fit.algorithm.step
    assert (step.samples, step.published, step.seed) == (samples, how == "published", 5)


def test_the_papers_kernel_moves_after_every_pass():
    fit, state = fit_of(hyperparameters="paper", **PAPER)
    after = []

    def step(state, record, shards):
        after.append(record.step)
        return state

    fit.algorithm.learning = SimpleNamespace(schedule=fit.algorithm.learning.schedule, step=lambda *_: step)
    list(islice(fit._passes(state, "fit"), 20))
    assert after == list(range(1, 20))
    assert fit_of(hyperparameters=None, **PAPER)[0].algorithm.step is None


def test_history_counts_seconds_from_the_start_of_the_fit(monkeypatch):
    now = iter(range(100, 200, 5))
    monkeypatch.setattr(history, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    fit, state = fit_of(max_iter=3, tol=0.0)
    watched(fit, state)
    assert [row["seconds"] for row in fit.history.rows] == [5, 10, 15]


@pytest.mark.parametrize(
    ("metric", "expected"), [("auc", 0.75), ("log_loss", -np.log1p(np.exp([2.0, -1.0, -3.0, -1.0])).mean())]
)
def test_early_stopping_watches_the_metric_that_was_asked_for(monkeypatch, metric, expected):
    fit, state = fit_of(early_stopping=metric)
    found = SimpleNamespace(log_odds=np.array([2.0, -1.0, 3.0, 1.0]))
    fit.evaluation = (None, np.array([0, 0, 1, 1]))
    monkeypatch.setattr(Fit, "_model", lambda fit, record: SimpleNamespace(predict=lambda bags: found))
    assert fit._score(next(ascend(fit.shards, state))) == pytest.approx(expected)
