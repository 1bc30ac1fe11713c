"""scikit-learn takes the estimator as it is: one sample is one bag."""

import inspect
import pickle

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
)
from sklearn.utils.validation import check_is_fitted

from adapter import EXPECTED_FAILURES, RowClassifier
from psimil import GVGPMIL, RBF, VGPMIL, Bags, GammaMixture, HyperbolicSecant, Linear, PsiVGPMIL, instancewise
from tiny import as_list, brief, fitted, problem, quick

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


@pytest.mark.filterwarnings("ignore")  # the checks feed awkward data on purpose
@pytest.mark.parametrize(
    ("estimator", "check"),
    list(estimator_checks_generator(RowClassifier(), expected_failed_checks=EXPECTED_FAILURES, mark="xfail")),
    ids=lambda value: getattr(getattr(value, "func", None), "__name__", ""),
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_weights_equal_repetition_in_the_model_itself():
    check_sample_weight_equivalence_on_dense_data("RowClassifier", RowClassifier(bare=True))


@pytest.mark.parametrize("kind", [PsiVGPMIL, VGPMIL, GVGPMIL])
def test_clone_keeps_every_parameter_and_nothing_fitted(kind):
    original = kind(kernel=RBF(2.0, 3.0), density=GammaMixture(1.0, 1.5), n_inducing=7, H=50.0, random_state=3)
    copy = clone(original)
    assert type(copy) is kind
    assert copy is not original
    assert copy.get_params() == original.get_params()
    assert not hasattr(clone(fitted()), "model_")


def test_get_and_set_params_reach_everything():
    estimator = PsiVGPMIL()
    values = estimator.get_params()
    assert values["n_inducing"] == "auto"
    assert values["H"] == np.inf
    assert set(values) == set(inspect.signature(PsiVGPMIL).parameters)
    changed = {"n_inducing": 9, "density": HyperbolicSecant(), "label_posterior": "max", "H": 5.0, "verbose": 1}
    assert estimator.set_params(**changed) is estimator
    assert {name: getattr(estimator, name) for name in changed} == changed
    with pytest.raises(ValueError, match="Invalid parameter 'n_inducng'"):
        estimator.set_params(n_inducng=3)


def test_parameters_are_stored_verbatim_and_checked_only_at_fit():
    points = [[1, 2, 3]]
    estimator = PsiVGPMIL(n_inducing=-1, inducing_points=points, H="no")
    assert estimator.n_inducing == -1
    assert estimator.inducing_points is points
    assert estimator.H == "no"


def test_tags():
    tags = get_tags(PsiVGPMIL())
    assert tags.estimator_type == "classifier"
    assert tags.classifier_tags.multi_class is False
    assert tags.input_tags.two_d_array is False
    assert tags.input_tags.allow_nan is False
    assert tags.target_tags.required is True
    assert tags.no_validation is True
    assert is_classifier(PsiVGPMIL())


def test_check_is_fitted_knows():
    with pytest.raises(NotFittedError):
        check_is_fitted(PsiVGPMIL())
    check_is_fitted(fitted())


def bare(**parameters):
    """An estimator that is not calibrated: scikit-learn fits it many times."""
    return brief(calibrate=False, **parameters)


GRID = {"n_inducing": [4, 8], "H": [100.0, np.inf]}


@pytest.mark.parametrize("n_jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "form", ["list", *(pytest.param(form, marks=pytest.mark.slow) for form in ("bags", "object array"))]
)
def test_grid_search(n_jobs, form):
    bags, y, _ = problem()
    held = {"list": as_list, "bags": lambda b: b, "object array": object_array}[form](bags)
    search = GridSearchCV(bare(), GRID, scoring=["roc_auc", "neg_log_loss"], refit="roc_auc", cv=FOLDS, n_jobs=n_jobs)
    search.fit(held, y)
    assert len(search.cv_results_["params"]) == 4
    for metric in ("roc_auc", "neg_log_loss"):
        assert np.isfinite(search.cv_results_[f"mean_test_{metric}"]).all()
    assert search.best_score_ == search.cv_results_["mean_test_roc_auc"].max() > 0.7
    assert search.best_estimator_.n_inducing == search.best_params_["n_inducing"]
    np.testing.assert_array_equal(search.predict_proba(held), search.best_estimator_.predict_proba(bags))
    assert REFERENCE.setdefault("scores", search.cv_results_["mean_test_roc_auc"].tolist()) == pytest.approx(
        search.cv_results_["mean_test_roc_auc"].tolist(), abs=1e-12
    )


REFERENCE: dict[str, list[float]] = {}


def object_array(bags):
    array = np.empty(len(bags), dtype=object)
    array[:] = as_list(bags)
    assert array.shape == (len(bags),)
    return array


@pytest.mark.slow
def test_grid_search_over_densities_and_kernels():
    bags, y, _ = problem()
    grid = {"density": [HyperbolicSecant(), GammaMixture(1.0, 0.5)], "kernel": [RBF(0.5), RBF(1.0, 1.0)]}
    search = GridSearchCV(quick(max_iter=5, tol=0.0), grid, scoring="roc_auc", cv=FOLDS).fit(bags, y)
    assert search.best_estimator_.density == search.best_params_["density"]
    assert len({tuple(map(repr, p.values())) for p in search.cv_results_["params"]}) == 4


def test_cross_val_predict_equals_the_loop_by_hand():
    bags, y, _ = problem()
    found = cross_val_predict(bare(), as_list(bags), y, cv=FOLDS, method="predict_proba")
    expected = np.empty((len(y), 2))
    for train, test in FOLDS.split(np.zeros(len(y)), y):
        expected[test] = bare().fit(bags[train], y[train]).predict_proba(bags[test])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for method in ("predict", "decision_function"):
        assert cross_val_predict(bare(), bags, y, cv=FOLDS, method=method).shape == (len(y),)


def test_patients_stay_on_one_side():
    bags, y, _ = problem()
    patients = np.repeat(np.arange(len(y) // 2), 2)
    result = cross_validate(
        quick(),
        bags,
        y,
        groups=patients,
        cv=StratifiedGroupKFold(3),
        scoring=["accuracy", "roc_auc"],
        return_indices=True,
        return_estimator=True,
    )
    assert len(result["estimator"]) == 3
    for train, test in zip(result["indices"]["train"], result["indices"]["test"], strict=True):
        assert not set(patients[train]) & set(patients[test])
        assert len(train) + len(test) == len(y)
    assert (result["test_roc_auc"] > 0.5).all()


def test_usual_scorers():
    names = ["accuracy", "roc_auc", "neg_log_loss", "neg_brier_score", "f1", "average_precision"]
    assert set(names) <= set(get_scorer_names())
    bags, y, _ = problem()
    found = cross_validate(bare(), bags, y, cv=FOLDS, scoring=names)
    for name in names:
        assert np.isfinite(found[f"test_{name}"]).all(), name
    np.testing.assert_array_equal(found["test_roc_auc"], cross_val_score(bare(), bags, y, cv=FOLDS, scoring="roc_auc"))


def test_score_is_accuracy():
    bags, y, _ = problem()
    assert fitted().score(bags, y) == np.mean(fitted().predict(bags) == y)


def test_train_test_split_of_bags_and_lists():
    bags, y, _ = problem()
    for held in (bags, as_list(bags)):
        train, test, y_train, y_test = train_test_split(held, y, test_size=8, random_state=0, stratify=y)
        assert (len(train), len(test)) == (16, 8)
        assert quick(hyperparameters="bound").fit(train, y_train).score(test, y_test) > 0.5


class BagwiseCentre(TransformerMixin, BaseEstimator):
    """Subtract the mean of all training instances, bag by bag."""

    def fit(self, bags, y=None):
        self.centre_ = np.concatenate(list(bags)).mean(axis=0)
        return self

    def transform(self, bags):
        return [bag - self.centre_ for bag in bags]


@pytest.mark.parametrize(
    "form", [as_list, pytest.param(lambda bags: bags, marks=pytest.mark.slow)], ids=["list", "bags"]
)
def test_pipeline_with_a_bagwise_transformer(form):
    bags, y, _ = problem()
    pipeline = Pipeline([("centre", BagwiseCentre()), ("mil", bare(standardize=False))])
    found = pipeline.fit(form(bags), y).predict_proba(form(bags))
    centre = bags.X.mean(axis=0)
    moved = Bags(bags.X - centre, bags.offsets)
    np.testing.assert_allclose(found, bare(standardize=False).fit(moved, y).predict_proba(moved), rtol=1e-10)
    search = GridSearchCV(pipeline, {"mil__n_inducing": [4, 6]}, cv=FOLDS).fit(form(bags), y)
    assert search.best_params_["mil__n_inducing"] in (4, 6)


def test_pickle_and_joblib_keep_a_fitted_model():
    bags, _, _ = problem()
    expected = fitted().predict_proba(bags)
    copy = pickle.loads(pickle.dumps(fitted()))
    np.testing.assert_array_equal(copy.predict_proba(bags), expected)
    halves = bags[:12], bags[12:]
    jobs = joblib.Parallel(n_jobs=2)(joblib.delayed(probabilities)(fitted(), half) for half in halves)
    np.testing.assert_array_equal(np.concatenate(jobs), np.concatenate([fitted().predict_proba(h) for h in halves]))
    np.testing.assert_allclose(np.concatenate(jobs), expected, rtol=0, atol=1e-10)  # products of other shapes


def probabilities(estimator, bags):
    return estimator.predict_proba(bags)


def test_log_probabilities_keep_what_probabilities_round_away():
    bags, y, _ = problem()
    model = fitted()
    assert np.exp(model.predict_log_proba(bags)) == pytest.approx(model.predict_proba(bags))
    turned = brief(positive=0).fit(bags, y)
    assert np.exp(turned.predict_log_proba(bags)) == pytest.approx(turned.predict_proba(bags))
    sure = quick(kernel=Linear(1e6), mean="zero", posterior="augmented", calibrate=False).fit(bags, y)
    far = [np.sign(sure.predict_dist([row[None]]).latent_mean[0]) * 1e6 * row[None] for row in bags.X[:3]]
    prob, log = sure.predict_proba(far), sure.predict_log_proba(far)
    assert (prob == 0.0).any()
    assert np.isfinite(log).all()
    assert log[prob == 0.0].max() < -36
    log_odds = sure.predict_dist(far).log_odds
    assert log[:, 1] - log[:, 0] == pytest.approx(log_odds)


def test_skops_keeps_a_fitted_model_with_no_types_but_ours():
    io = pytest.importorskip("skops.io")
    bags, y, _ = problem()
    for model in (fitted(), make_pipeline(instancewise(StandardScaler()), brief(context="bag")).fit(bags, y)):
        data = io.dumps(model)
        unknown = io.get_untrusted_types(data=data)
        assert unknown
        assert all(name.startswith("psimil.") for name in unknown)
        again = io.loads(data, trusted=unknown)
        assert np.array_equal(again.predict_proba(bags), model.predict_proba(bags))


def test_metadata_goes_where_it_is_asked_for():
    bags, y, instances = problem()
    weights, known = np.where(y == 1, 2.0, 1.0), bags.split(instances)
    with config_context(enable_metadata_routing=True):
        model = brief().set_fit_request(sample_weight=True, y_instances=True)
        pipe = make_pipeline(instancewise(StandardScaler()), model)
        pipe.fit(bags, y, sample_weight=weights, y_instances=known)
        scorer = get_scorer("roc_auc").set_score_request(sample_weight=True)
        params = {"sample_weight": weights, "y_instances": known}
        assert len(cross_val_score(pipe, bags, y, scoring=scorer, cv=3, params=params)) == 3
    by_hand = brief().fit(pipe[:-1].transform(bags), y, sample_weight=weights, y_instances=known)
    assert np.array_equal(pipe.predict_proba(bags), by_hand.predict_proba(pipe[:-1].transform(bags)))
