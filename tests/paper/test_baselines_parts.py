"""The parts of the baselines against scikit-learn and plain loops: statistics, sigmoid, machine and forest."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from psimil import Bags
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.paper.baselines import BagForest, BagSVM, bag_statistics
from psimil.paper.baselines.statistics import Sigmoid

BAGS, Y, _ = make_bags(n_bags=80, separation=5.0, seed=1)
TEST, Y_TEST, _ = make_bags(n_bags=100, separation=5.0, seed=2)

# Bag statistics


def test_statistics_agree_with_a_loop():
    expected = [np.concatenate([f(bag, axis=0) for f in (np.mean, np.std, np.min, np.max)]) for bag in BAGS]
    found = bag_statistics(BAGS)
    assert found.shape == (80, 20)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_statistics_of_float32_far_from_zero_keep_the_spread():
    bag = np.array([[1e4 - 1], [1e4 + 1]], dtype=np.float32)
    np.testing.assert_array_equal(bag_statistics([bag]), [[1e4, 1.0, 1e4 - 1, 1e4 + 1]])


# The sigmoid


def test_sigmoid_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    T = rng.integers(0, 2, 200)
    scores = 3.0 + 0.5 * T + rng.standard_normal(200)
    oracle = CalibratedClassifierCV(_Identity(), method="sigmoid", cv=2, ensemble=False).fit(scores[:, None], T)
    expected = oracle.predict_proba(scores[:, None])[:, 1]
    np.testing.assert_allclose(expit(Sigmoid.fit(scores, T).log_odds(scores)), expected, atol=1e-4)


def test_sigmoid_never_turns_the_ranking_round():
    scores, T = np.arange(20.0), (np.arange(20) < 10).astype(int)
    line = Sigmoid.fit(scores, T)
    assert line.slope > 0
    np.testing.assert_allclose(expit(line.log_odds(scores)), 0.5, atol=0.01)


def test_sigmoid_of_constant_scores_is_the_share_of_positives():
    T = np.array([1] * 30 + [0] * 10)
    prob = expit(Sigmoid.fit(np.full(40, 7.0), T).log_odds(np.array([7.0])))
    np.testing.assert_allclose(prob, (30 * 31 / 32 + 10 / 12) / 40, atol=1e-4)


class _Identity(SVC):
    """Scores itself with its only column."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]


# Machine and forest


def by_hand(bags, location, scale):
    parts = [[f((bag - location) / scale, axis=0) for f in (np.mean, np.std, np.min, np.max)] for bag in bags]
    return np.array(parts).reshape(len(bags), -1)


def test_svm_ranks_as_scikit_learn_does():
    location, scale = BAGS.X.mean(axis=0), BAGS.X.std(axis=0)
    machine = make_pipeline(StandardScaler(), SVC(C=2.0, gamma=0.02)).fit(by_hand(BAGS, location, scale), Y)
    expected = machine.decision_function(by_hand(TEST, location, scale))
    found = BagSVM(C=2.0, gamma=0.02, random_state=0).fit(BAGS, Y).decision_function(TEST)
    slope, shift = np.polyfit(expected, found, 1)
    assert slope > 0
    np.testing.assert_allclose(found, slope * expected + shift, atol=1e-8)


def test_forest_learns_its_sigmoid_from_votes_of_trees_that_did_not_see_the_bag():
    bags, y, _ = make_bags(n_bags=80, separation=1.0, seed=4)  # hard: votes of the same trees are far too sure
    clf = BagForest(n_estimators=60, random_state=0).fit(bags, y)
    forest = clf.model_.score.__self__
    votes = forest.predict_proba(bag_statistics(Bags(clf.scaling_.apply(bags.X), bags.offsets)))[:, 1]
    assert roc_auc_score(y, votes) == 1.0
    assert clf.model_.sigmoid.slope < 0.5 * Sigmoid.fit(votes, y).slope
    test, y_test, _ = make_bags(n_bags=300, separation=1.0, seed=5)
    assert abs(clf.predict_proba(test)[:, 1].max(initial=0) - 0.5) < 0.49
    assert roc_auc_score(y_test, clf.decision_function(test)) > 0.55


def test_a_single_tree_is_a_forest():
    assert BagForest(n_estimators=1, random_state=0).fit(BAGS, Y).score(TEST, Y_TEST) > 0.7


@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (BagSVM(C=0.0), "C must be a number > 0, got 0.0"),
        (BagSVM(C="1"), "C must be a number > 0, got '1'"),
        (BagSVM(gamma="big"), 'gamma must be "scale", "auto" or a number > 0'),
        (BagSVM(gamma=-1.0), "gamma must be a number > 0"),
        (BagSVM(random_state="x"), "random_state must be an int"),
        (BagForest(n_estimators=0), "n_estimators must be a whole number >= 1, got 0"),
        (BagForest(n_estimators=10.0), "n_estimators must be a whole number"),
        (BagForest(min_samples_leaf=True), "min_samples_leaf must be a whole number"),
        (BagForest(max_features=1.5), "max_features must be"),
        (BagForest(max_features="all"), "max_features must be"),
    ],
)
def test_bad_parameters_are_refused(clf, message):
    with pytest.raises(InputError, match=message):
        clf.fit(BAGS, Y)
