"""Shuffled and fixed features of bags: what they tell of a model that is known to use one of them alone."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from psimil import VGPMIL, Bags, InputError, instancewise
from psimil.results.importance import partial_dependence, permutation_importance


def problem(seed=0, n=60):
    """A bag is positive where "size" of one instance is large; "noise" tells nothing."""
    rng = np.random.default_rng(seed)
    offsets, y = np.arange(0, 4 * n + 1, 4), np.arange(n) % 2
    X = rng.normal(size=(4 * n, 2))
    X[offsets[:-1][y == 1], 0] += 6.0
    return Bags(X, offsets, feature_names=["size", "noise"]), y


@pytest.fixture(scope="module")
def fitted():
    bags, y = problem()
    return VGPMIL(n_inducing=10, max_iter=20, tol=1e-2, random_state=0).fit(bags, y), *problem(1)


def test_the_feature_that_tells_is_worth_what_its_shuffling_costs(fitted):
    clf, bags, y = fitted
    found = permutation_importance(clf, bags, y, n_repeats=3, random_state=0)
    assert found.feature_names == ("size", "noise")
    assert found.importances.shape == (2, 3)
    assert found.score == roc_auc_score(y, clf.predict_proba(bags)[:, 1])
    assert found.importances_mean[0] > 0.2
    assert abs(found.importances_mean[1]) < 0.1
    assert found.importances_std == pytest.approx(found.importances.std(axis=1))
    shuffled = bags.X.copy()
    shuffled[:, 0] = np.random.default_rng(0).permutation(shuffled[:, 0])
    by_hand = found.score - roc_auc_score(y, clf.predict_proba(Bags(shuffled, bags.offsets))[:, 1])
    assert found.importances[0, 0] == pytest.approx(by_hand)
    assert found.to_frame()["feature"].tolist() == ["size", "noise"]


def test_equal_seeds_shuffle_alike_and_bags_stay_as_they_are(fitted):
    clf, bags, y = fitted
    before = bags.X.copy()
    first, again, other = (permutation_importance(clf, bags, y, n_repeats=2, random_state=s) for s in (0, 0, 1))
    assert (first.importances == again.importances).all()
    assert (first.importances != other.importances).any()
    assert (bags.X == before).all()


def test_rows_with_their_bags_other_scores_and_pipelines_do(fitted):
    _, bags, y = fitted
    pipe = make_pipeline(instancewise(StandardScaler()), VGPMIL(n_inducing=5, max_iter=5, tol=0.0, random_state=0))
    pipe.fit(bags, y)
    given = {"n_repeats": 2, "scoring": "neg_log_loss", "random_state": 0}
    found = permutation_importance(pipe, bags, y, **given)
    assert found.importances_mean[0] > found.importances_mean[1]
    rows = permutation_importance(pipe, bags.X, dict(enumerate(y)), bag_ids=bags.bag_index, **given)
    assert rows.importances == pytest.approx(found.importances)
    assert rows.feature_names == ("0", "1")


def test_partial_dependence_is_the_prediction_with_one_value_for_all(fitted):
    clf, bags, _ = fitted
    curve = partial_dependence(clf, bags, "size", grid=[-1.0, 0.0, 6.0])
    assert curve.feature == "size"
    assert curve.individual.shape == (60, 3)
    fixed = bags.X.copy()
    fixed[:, 0] = 6.0
    assert curve.individual[:, 2] == pytest.approx(clf.predict_proba(Bags(fixed, bags.offsets))[:, 1])
    assert curve.average[2] > curve.average[0] + 0.3
    assert curve.std == pytest.approx(curve.individual.std(axis=0))
    flat = partial_dependence(clf, bags, 1, grid=5)
    assert np.ptp(flat.average) < 0.2
    assert flat.grid_values == pytest.approx(np.linspace(*np.percentile(bags.X[:, 1], (5, 95)), 5))


def test_partial_dependence_is_of_the_positive_class_whatever_its_place(fitted):
    clf, bags, y = fitted
    words = clone(clf).set_params(positive="a")
    for model in (words, make_pipeline(instancewise(StandardScaler()), words)):
        found = partial_dependence(model.fit(bags, np.where(y == 1, "a", "z")), bags, "size", grid=[-1.0, 6.0]).average
        assert found[1] > found[0] + 0.3


def test_failures_name_the_culprit(fitted):
    clf, bags, y = fitted
    with pytest.raises(InputError, match='no feature "mass"'):
        partial_dependence(clf, bags, "mass")
    with pytest.raises(InputError, match="from 0 to 1, got 2"):
        partial_dependence(clf, bags, 2)
    with pytest.raises(InputError, match="grid must be a whole number >= 2"):
        partial_dependence(clf, bags, 0, grid=1)
    with pytest.raises(InputError, match="n_repeats must be a whole number >= 1"):
        permutation_importance(clf, bags, y, n_repeats=0)


def test_bags_of_one_class_are_refused(fitted):
    clf, bags, y = fitted
    said = r"^the 30 bags have no roc_auc, for all have the label 1\. Give bags of both classes, or another scoring\.$"
    with pytest.raises(InputError, match=said):
        permutation_importance(clf, bags[np.flatnonzero(y)], y[y == 1])
    found = permutation_importance(clf, bags[np.flatnonzero(y)], y[y == 1], scoring="accuracy", n_repeats=1)
    assert np.isfinite(found.importances).all()
