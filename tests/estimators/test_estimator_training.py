"""How a fit proceeds: stopping, callbacks, warm starts, memory, precision, kernels, presets."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from psimil import GVGPMIL, RBF, VGPMIL, Bags, GammaMixture, HyperbolicSecant, Linear, Matern32, PsiVGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError
from psimil.paper.published import ClippedGammaMixture
from tiny import FIRST_MOVE, brief, problem, quick


def proba(model, bags):
    return model.predict_proba(bags)[:, 1]


@pytest.mark.parametrize("metric", ["auc", "log_loss", "loo"])
def test_early_stopping_restores_the_best_state(metric):
    bags, y, _ = problem()
    held, held_y, _ = problem(seed=7)
    evaluation = None if metric == "loo" else (held, held_y)
    settings = {"tol": 0.0, "H": 100.0, "label_posterior": "mean_field", "start": 1.0}
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


def test_callbacks_see_every_pass_and_may_stop():
    bags, y, _ = problem()
    seen = []
    model = quick(tol=0.0, max_iter=9).fit(bags, y, callbacks=[lambda row: seen.append(row["iteration"])])
    assert seen == list(range(1, 10))
    stopped = quick(tol=0.0).fit(bags, y, callbacks=[lambda row: None, lambda row: row["iteration"] == 4])
    assert stopped.n_iter_ == 4
    assert model.n_iter_ == 9
    by_hand = quick(tol=0.0, max_iter=4).fit(bags, y)
    np.testing.assert_array_equal(proba(stopped, bags), proba(by_hand, bags))


def test_a_callback_that_raises_is_not_hidden():
    bags, y, _ = problem()

    def fail(row):
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        quick().fit(bags, y, callbacks=[fail])


def test_warm_start_continues_where_it_stopped():
    bags, y, _ = problem()
    once = quick(tol=0.0, max_iter=6, calibrate=False).fit(bags, y)
    twice = quick(tol=0.0, max_iter=3, calibrate=False, warm_start=True).fit(bags, y).fit(bags, y)
    np.testing.assert_allclose(twice.q_mean_, once.q_mean_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(proba(twice, bags), proba(once, bags), rtol=1e-10)
    assert twice.history_[0]["elbo"] == pytest.approx(once.history_[3]["elbo"], rel=1e-10)


def test_warm_start_refuses_other_features():
    bags, y, _ = problem()
    model = quick(warm_start=True).fit(bags, y)
    with pytest.raises(InputError, match=r"^warm_start: model has 3 features, got 2\.$"):
        model.fit(Bags(bags.X[:, :2], bags.offsets), y)


@pytest.mark.parametrize("chunk_size", [pytest.param(1, marks=pytest.mark.slow), 7, 10_000])
@pytest.mark.parametrize("hyperparameters", [None, "collapsed"])
def test_streaming_equals_caching(chunk_size, hyperparameters):
    bags, y, _ = problem()
    settings = {"hyperparameters": hyperparameters, "residual": "full", "max_iter": FIRST_MOVE + 2, "tol": 0.0}
    cached = quick(**settings).fit(bags, y)
    streamed = quick(chunk_size=chunk_size, **settings).fit(bags, y)
    np.testing.assert_allclose(proba(streamed, bags), proba(cached, bags), atol=1e-9)
    assert streamed.elbo_ == pytest.approx(cached.elbo_, abs=1e-9)
    np.testing.assert_allclose(streamed.kernel_.log_parameters, cached.kernel_.log_parameters, atol=1e-9)


def test_single_precision_stays_close():
    bags, y, _ = problem()
    double = quick(hyperparameters="collapsed", max_iter=60).fit(bags, y)
    single = quick(hyperparameters="collapsed", max_iter=60, dtype="float32").fit(bags, y)
    difference = np.abs(proba(single, bags) - proba(double, bags)).max()
    assert 0 < difference < 5e-3
    features = Bags(bags.X.astype(np.float32), bags.offsets)
    assert np.abs(proba(quick().fit(features, y), features) - proba(quick().fit(bags, y), bags)).max() < 1e-5


def test_acceleration_reaches_the_same_fixed_point_sooner():
    bags, y, _ = problem()
    settings = {"max_iter": 500, "tol": 1e-9, "calibrate": False}
    plain, fast = (quick(accelerate=choice, **settings).fit(bags, y) for choice in (False, True))
    np.testing.assert_allclose(proba(fast, bags), proba(plain, bags), atol=1e-3)
    assert fast.elbo_ == pytest.approx(plain.elbo_, abs=1e-4)
    assert fast.n_iter_ < plain.n_iter_


def test_the_kernel_is_kept_or_learned():
    bags, y, _ = problem()
    kept = quick(max_iter=80, tol=1e-6).fit(bags, y)
    assert kept.kernel_ == RBF(1.0, float(np.sqrt(3)))
    learned = quick(max_iter=80, tol=1e-6, hyperparameters="collapsed").fit(bags, y)
    assert learned.kernel_ != kept.kernel_
    assert learned.elbo_ > kept.elbo_ + 0.1


def test_loo_chooses_a_kernel_that_predicts_other_bags_no_worse():
    bags, y, _ = problem()
    settings = {"calibrate": False, "kernel": RBF(1.0), "max_iter": 80, "n_inducing": 6, "tol": 1e-3}
    collapsed = quick(hyperparameters="collapsed", **settings).fit(bags, y)
    chosen = quick(hyperparameters="loo", **settings).fit(bags, y)
    assert {row["stage"] for row in chosen.history_} == {"fit", "loo"}
    assert chosen.kernel_ != collapsed.kernel_
    assert scaled_log_loss(chosen, y) < scaled_log_loss(collapsed, y) + 0.02


def scaled_log_loss(model, y):
    """Log-loss of the left-out bags after the best scale and shift of their log-odds."""
    odds = model.loo_.prediction.log_odds[:, None]
    return log_loss(y, LogisticRegression(C=1e6).fit(odds, y).predict_proba(odds))


def test_few_bags_keep_the_learned_kernel_only_where_left_out_bags_like_it():
    bags, y, _ = problem()
    settings = {"hyperparameters": "collapsed", "calibrate": False, "max_iter": 60, "tol": 1e-3}
    learned = quick(kernel=Linear(1 / 3) + RBF(1.0), **settings).fit(bags, y)
    guarded = quick(**settings).fit(bags, y)
    assert {row["stage"] for row in learned.history_} == {"fit"}
    assert guarded.kernel_ == learned.kernel_ or {row["stage"] for row in guarded.history_} == {"fit", "loo"}
    assert scaled_log_loss(guarded, y) < scaled_log_loss(learned, y) + 0.02


@pytest.mark.parametrize(("how", "first"), [("paper", 1), ("published", 10)])
def test_gradient_ascent_on_the_papers_objective_moves_the_kernel(how, first):
    bags, y, _ = problem()
    settings = {"hyperparameters": how, "kernel": RBF(1.0), "residual": "full", "expectation": "quadrature", "tol": 0.0}
    waits, model = (quick(max_iter=passes, **settings).fit(bags, y) for passes in (first, first + 1))
    start = RBF(1.0, float(np.sqrt(3)))
    assert waits.kernel_ == start
    assert 1e-3 < np.abs(model.kernel_.log_parameters - start.log_parameters).max() < 1.0
    assert np.isfinite(proba(model, bags)).all()


@pytest.mark.parametrize("log_z", ["logistic", "jensen", "none"])
def test_log_z_choices(log_z):
    bags, y, _ = problem()
    settings = {"hyperparameters": "collapsed", "residual": "full", "max_iter": FIRST_MOVE + 2, "tol": 0.0}
    model = quick(density=GammaMixture(1.0, 0.5), kernel=RBF(1.0), log_z=log_z, **settings).fit(bags, y)
    stages = [row["stage"] for row in model.history_]
    passes = FIRST_MOVE + 2
    assert stages == (["kernel"] * passes if log_z == "logistic" else []) + ["fit"] * passes
    assert np.isfinite(proba(model, bags)).all()
    KERNELS[log_z] = tuple(model.kernel_.log_parameters.round(6))
    assert len(set(KERNELS.values())) == len(KERNELS)  # each choice leads elsewhere


KERNELS: dict[str, tuple[float, ...]] = {}


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
    model = quick(residual=residual, kernel=kernel, max_iter=10, tol=0.0).fit(bags, y)
    assert np.mean(model.predict(bags) == y) >= 0.75
    if residual != "projected":
        variance = model.predict_dist(bags, raw=True).latent_variance
        smaller = (
            brief(residual="projected", kernel=kernel, max_iter=10)
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

# The columns of DESIGN section 5, written out once more.
SHARED = {"accelerate": False, "mean": "zero", "calibrate": False, "threshold": 0.5}
COLUMNS = {
    "paper": SHARED
    | {"label_posterior": "mean_field", "H": 100.0, "start": 1.0, "residual": "full", "hyperparameters": "paper",
       "log_z": "rff", "aggregate": "noisy_or", "expectation": "sample"},
    "published": SHARED
    | {"label_posterior": "max", "H": 1e12, "start": 0.1, "residual": "unit", "hyperparameters": "published",
       "log_z": "none", "aggregate": "max", "patience": 20},
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("kind", [VGPMIL, GVGPMIL])
def test_presets_set_every_column(name, kind):
    estimator = kind.preset(name, n_inducing=6)
    assert type(estimator) is kind
    assert {key: getattr(estimator, key) for key in COLUMNS[name]} == COLUMNS[name]
    assert estimator.n_inducing == 6
    expected = HyperbolicSecant() if kind is VGPMIL else GammaMixture(1.0, 1.0)
    if kind is GVGPMIL and name == "published":
        expected = ClippedGammaMixture(1.0, 1.0, clip=3.0)
    assert estimator.density == expected


def test_presets_can_be_overridden_and_unknown_ones_are_refused():
    estimator = PsiVGPMIL.preset("paper", H=50.0, density=GammaMixture(2.0, 3.0))
    assert (estimator.H, estimator.label_posterior) == (50.0, "mean_field")
    assert estimator.density == GammaMixture(2.0, 3.0)
    with pytest.raises(InputError, match=r'^preset must be "paper" or "published", got \'papers\'\.$'):
        PsiVGPMIL.preset("papers")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("kind", [VGPMIL, GVGPMIL])
@pytest.mark.filterwarnings("ignore:log Z rests on:psimil.foundations.errors.DataWarning")
def test_presets_fit(name, kind):
    bags, y, _ = problem()
    model = kind.preset(name, n_inducing=6, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    assert model.n_iter_ == 2
    assert model.threshold_ == 0.5
    assert model.mean_ == 0.0
    assert (model.model_.calibration.scale, model.model_.calibration.shift) == (1.0, 0.0)
    np.testing.assert_array_equal(model.predict_proba(bags), model.predict_proba(bags))
    assert np.isfinite(model.predict_proba(bags)).all()


def test_too_few_effective_samples_leave_the_kernel_alone():
    bags, y, _ = problem()
    with pytest.warns(
        DataWarning, match=r"^log Z rests on .* effective samples at iteration 1; the kernel is not moved"
    ):
        model = GVGPMIL.preset("paper", kernel=RBF(20.0), n_inducing=6, max_iter=2, tol=0.0, random_state=0).fit(
            bags, y
        )
    assert model.kernel_ == RBF(20.0, float(np.sqrt(3)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gvgpmil_learns_an_easy_problem_with_its_defaults(seed):
    bags, y, _ = make_bags(n_bags=30, n_features=3, separation=3.0, seed=seed)
    found = GVGPMIL(n_inducing=10, random_state=0).fit(bags, y).predict_dist(bags)
    assert np.abs(found.latent_mean).max() < 100
    assert roc_auc_score(y, found.log_odds) > 0.85


@pytest.mark.parametrize("name", COLUMNS)
def test_presets_keep_the_instance_threshold_at_one_half(name):
    bags, y, _ = problem()
    model = VGPMIL.preset(name, n_inducing=6, hyperparameters=None, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    assert model.instance_threshold_ == 0.5
