"""How a fit proceeds: stopping, callbacks, warm starts, memory, precision, kernels, presets."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from psimil import RBF, Bags, GammaMixture, Linear, Matern32
from psimil.foundations.errors import InputError
from tiny import brief, problem, quick

POSTERIORS = ("variational", "augmented")


def proba(model, bags):
    return model.predict_proba(bags)[:, 1]


PAPERS = {"posterior": "augmented", "H": 100.0, "label_posterior": "mean_field", "start": 1.0}


@pytest.mark.parametrize("how", [{}, PAPERS], ids=["variational", "augmented"])
@pytest.mark.parametrize("metric", ["auc", "log_loss", "out_of_bag"])
def test_early_stopping_restores_the_best_state(metric, how):
    bags, y, _ = problem()
    held, held_y, _ = problem(seed=7)
    evaluation = None if metric == "out_of_bag" else (held, held_y)
    settings = {"tol": 0.0, **how}
    stopped = quick(early_stopping=metric, patience=3, max_iter=25, **settings).fit(bags, y, eval_set=evaluation)
    scores = [row[f"eval_{metric}"] for row in stopped.history_]
    best = int(np.argmax(scores)) + 1
    assert stopped.n_iter_ == min(best + 3, 25)
    by_hand = quick(max_iter=best, **settings).fit(bags, y)
    assert by_hand.n_iter_ == best
    np.testing.assert_array_equal(stopped.predict_proba(bags), by_hand.predict_proba(bags))
    np.testing.assert_array_equal(stopped.label_posterior_, by_hand.label_posterior_)
    assert stopped.elbo_ == by_hand.elbo_ == stopped.history_[best - 1]["elbo"]
    raw = by_hand.predict_dist(held, raw=True)
    if metric == "auc":
        assert scores[best - 1] == pytest.approx(roc_auc_score(held_y, raw.log_odds))
    if metric == "log_loss":
        assert scores[best - 1] == pytest.approx(-log_loss(held_y, raw.prob), rel=1e-6)


def test_early_stopping_may_also_run_to_the_end():
    bags, y, _ = problem()
    model = quick(early_stopping="log_loss", patience=50, max_iter=12, tol=0.0).fit(bags, y, eval_set=(bags, y))
    assert model.n_iter_ == 12


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_callbacks_see_every_pass_and_may_stop(posterior):
    bags, y, _ = problem()
    seen, settings = [], {"tol": 0.0, "posterior": posterior}
    model = quick(max_iter=5, **settings).fit(bags, y, callbacks=[lambda row: seen.append(row["iteration"])])
    assert seen == list(range(1, 6))
    stopped = quick(**settings).fit(bags, y, callbacks=[lambda row: None, lambda row: row["iteration"] == 3])
    assert stopped.n_iter_ == 3
    assert model.n_iter_ == 5
    by_hand = quick(max_iter=3, **settings).fit(bags, y)
    np.testing.assert_array_equal(proba(stopped, bags), proba(by_hand, bags))


def test_callbacks_see_the_steps_of_the_kernel_and_may_end_them():
    bags, y, _ = problem()
    seen = []

    def listen(row):
        seen.append((row["stage"], row["iteration"]))
        return row["stage"] == "kernel" and row["iteration"] == 2

    model = quick(hyperparameters="bound").fit(bags, y, callbacks=[listen])
    assert seen == [(row["stage"], row["iteration"]) for row in model.history_]
    assert [stage for stage, _ in seen].count("kernel") == 2
    assert seen[2:] == [("fit", k) for k in range(1, model.n_iter_ - 1)]


def test_passes_end_where_no_step_helps():
    bags, y, _ = problem()
    model = quick(tol=0.0, max_iter=60).fit(bags, y)
    bounds = [row["elbo"] for row in model.history_]
    assert model.converged_ and model.n_iter_ < 60
    assert bounds[-1] == pytest.approx(bounds[-2], abs=1e-6)
    assert (np.diff(bounds) >= [-0.25 * row["error"] for row in model.history_[:-1]]).all()


def test_a_callback_that_raises_is_not_hidden():
    bags, y, _ = problem()

    def fail(row):
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        quick().fit(bags, y, callbacks=[fail])


def test_warm_start_continues_where_it_stopped():
    bags, y, _ = problem()
    settings = {"posterior": "augmented", "tol": 0.0, "calibrate": False}
    once = quick(max_iter=6, **settings).fit(bags, y)
    twice = quick(max_iter=3, warm_start=True, **settings).fit(bags, y).fit(bags, y)
    np.testing.assert_allclose(twice.q_mean_, once.q_mean_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(proba(twice, bags), proba(once, bags), rtol=1e-10)
    assert twice.history_[0]["elbo"] == pytest.approx(once.history_[3]["elbo"], rel=1e-10)


@pytest.mark.parametrize("hyperparameters", [None, "bound"])
def test_warm_start_begins_with_the_posterior_of_the_first_fit(hyperparameters):
    bags, y, _ = problem()
    model = quick(hyperparameters=hyperparameters, warm_start=True, random_state=np.random.default_rng(3)).fit(bags, y)
    first, q = model.history_, model.q_mean_
    again = model.set_params(hyperparameters=None, max_iter=1, tol=0.0).fit(bags, y)
    np.testing.assert_array_equal(again.q_mean_, q)
    row = again.history_[0]  # other draws
    assert row["elbo"] == pytest.approx(first[-1]["elbo"], abs=5 * (row["error"] + first[-1]["error"]))


def test_warm_start_with_other_labels_begins_anew():
    bags, y, _ = problem()
    cold = quick().fit(bags, 1 - y)
    warm = quick(warm_start=True, inducing="kmeans").fit(bags, y).fit(bags, 1 - y)
    assert warm.history_[0]["elbo"] > cold.history_[0]["elbo"] - 1.0
    assert warm.elbo_ == pytest.approx(cold.elbo_, abs=1.0)


def test_warm_start_refuses_other_features():
    bags, y, _ = problem()
    model = quick(warm_start=True).fit(bags, y)
    with pytest.raises(InputError, match=r"^warm_start: model has 3 features, got 2\.$"):
        model.fit(Bags(bags.X[:, :2], bags.offsets), y)


@pytest.mark.parametrize("chunk_size", [pytest.param(1, marks=pytest.mark.slow), 7, 10_000])
@pytest.mark.parametrize("hyperparameters", [None, "bound"])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_streaming_equals_caching(chunk_size, hyperparameters, posterior):
    bags, y, _ = problem()
    settings = {"hyperparameters": hyperparameters, "max_iter": 10, "tol": 0.0, "posterior": posterior}
    settings["residual"] = "full" if posterior == "augmented" else "projected"
    cached = quick(**settings).fit(bags, y)
    streamed = quick(chunk_size=chunk_size, **settings).fit(bags, y)
    np.testing.assert_allclose(proba(streamed, bags), proba(cached, bags), atol=1e-9)
    assert streamed.elbo_ == pytest.approx(cached.elbo_, abs=1e-9)
    np.testing.assert_allclose(streamed.kernel_.log_parameters, cached.kernel_.log_parameters, atol=1e-9)


def test_single_precision_stays_close():
    bags, y, _ = problem()
    double = quick(hyperparameters="bound", max_iter=60).fit(bags, y)
    single = quick(hyperparameters="bound", max_iter=60, dtype="float32").fit(bags, y)
    difference = np.abs(proba(single, bags) - proba(double, bags)).max()
    assert 0 < difference < 5e-3
    features = Bags(bags.X.astype(np.float32), bags.offsets)
    assert np.abs(proba(quick().fit(features, y), features) - proba(quick().fit(bags, y), bags)).max() < 1e-5


def test_acceleration_reaches_the_same_fixed_point_sooner():
    bags, y, _ = problem()
    settings = {"posterior": "augmented", "max_iter": 500, "tol": 1e-9, "calibrate": False}
    plain, fast = (quick(accelerate=choice, **settings).fit(bags, y) for choice in (False, True))
    np.testing.assert_allclose(proba(fast, bags), proba(plain, bags), atol=1e-3)
    assert fast.elbo_ == pytest.approx(plain.elbo_, abs=1e-4)
    assert fast.n_iter_ < plain.n_iter_


def test_the_kernel_is_kept_or_learned():
    bags, y, _ = problem()
    kept = quick(max_iter=80, tol=1e-6).fit(bags, y)
    assert kept.kernel_ == RBF(1.0, float(np.sqrt(3)))
    learned = quick(max_iter=80, tol=1e-6, hyperparameters="bound").fit(bags, y)
    assert learned.kernel_ != kept.kernel_
    assert learned.elbo_ > kept.elbo_ + 0.1


def test_the_kernel_is_the_same_whatever_posterior_follows():
    bags, y, _ = problem()
    found = [brief(hyperparameters="bound", posterior=posterior).fit(bags, y) for posterior in POSTERIORS]
    assert found[0].kernel_ == found[1].kernel_ != brief().fit(bags, y).kernel_
    assert (proba(found[0], bags) != proba(found[1], bags)).any()


def test_a_random_start_is_one_for_the_learned_kernel_too():
    bags, y, _ = problem()
    settings = {"hyperparameters": "bound", "posterior": "augmented", "max_iter": 1, "tol": 0.0}
    drawn, plain = (quick(start=start, **settings).fit(bags, y) for start in (0.5, "labels"))
    assert drawn.kernel_ == plain.kernel_
    assert drawn.history_[-1]["kl"] != plain.history_[-1]["kl"]


@pytest.mark.parametrize(("how", "first"), [("paper", 1), ("published", 10)])
def test_gradient_ascent_on_the_papers_objective_moves_the_kernel(how, first):
    bags, y, _ = problem()
    settings = {"posterior": "augmented", "hyperparameters": how, "kernel": RBF(1.0), "residual": "full", "tol": 0.0}
    waits, model = (quick(max_iter=passes, **settings).fit(bags, y) for passes in (first, first + 1))
    start = RBF(1.0, float(np.sqrt(3)))
    assert waits.kernel_ == start
    assert 1e-3 < np.abs(model.kernel_.log_parameters - start.log_parameters).max() < 1.0
    assert np.isfinite(proba(model, bags)).all()


@pytest.mark.parametrize("log_z", ["logistic", "jensen", "none"])
def test_log_z_choices(log_z):
    bags, y, _ = problem()
    settings = {"density": GammaMixture(1.0, 0.5), "kernel": RBF(1.0), "residual": "full", "max_iter": 2, "tol": 0.0}
    papers, bound = (quick(hyperparameters=how, log_z=log_z, **settings).fit(bags, y) for how in ("paper", "bound"))
    assert [row["stage"] for row in papers.history_] == ["fit"] * 2
    assert [row["stage"] for row in bound.history_] == ["kernel"] * 2 + ["fit"] * 2
    assert np.isfinite(proba(papers, bags)).all()
    KERNELS[log_z] = papers.kernel_, bound.kernel_
    moved = {kernel for kernel, _ in KERNELS.values()}
    assert len(moved) == len({"jensen" if choice == "logistic" else choice for choice in KERNELS})
    assert len({kernel for _, kernel in KERNELS.values()}) == 1  # on the logistic model, whose log Z is known


KERNELS: dict[str, tuple[RBF, RBF]] = {}


def test_rff_is_for_the_papers_objective():
    bags, y, _ = problem()
    model = quick(
        density=GammaMixture(2.0, 2.0), log_z="rff", hyperparameters="paper", kernel=RBF(0.05), max_iter=2, tol=0.0,
        residual="full", expectation="quadrature",
    )  # fmt: skip
    model.fit(bags, y)
    assert model.kernel_ != RBF(0.05, float(np.sqrt(3)))
    with pytest.raises(InputError, match=r'log_z="rff" needs a single stationary kernel'):
        model.set_params(kernel=RBF() + Linear()).fit(bags, y)


@pytest.mark.parametrize("residual", ["projected", "full", "unit"])
@pytest.mark.parametrize(
    "kernel", [RBF(), Matern32(2.0, 1.0), RBF(1.0, (1.0, 2.0, 3.0)), RBF() + Linear(0.1)], ids=repr
)
def test_residuals_and_kernels(residual, kernel):
    bags, y, _ = problem()
    posterior = None if residual == "projected" else "augmented"
    model = quick(residual=residual, kernel=kernel, posterior=posterior, max_iter=10, tol=0.0).fit(bags, y)
    assert np.mean(model.predict(bags) == y) >= 0.75
    if residual != "projected":
        variance = model.predict_dist(bags, raw=True).latent_variance
        smaller = (
            brief(residual="projected", kernel=kernel, posterior=posterior, max_iter=10)
            .fit(bags, y)
            .predict_dist(bags, raw=True)
            .latent_variance
        )
        assert variance.mean() > smaller.mean()


def test_inducing_point_choices():
    bags, y, _ = problem()
    found = {how: quick(inducing=how, n_inducing=9).fit(bags, y).inducing_points_ for how in HOW}
    for points in found.values():
        assert points.shape == (9, 3)
        assert (points >= bags.X.min(axis=0) - 1e-9).all()
        assert (points <= bags.X.max(axis=0) + 1e-9).all()
    nearest = np.abs(found["greedy_variance"][:, None] - bags.X).max(axis=2).min(axis=1)
    assert nearest.max() < 1e-12  # greedy points are instances
    assert len({points.tobytes() for points in found.values()}) == 3


HOW = ("kmeans_by_label", "kmeans", "greedy_variance")
