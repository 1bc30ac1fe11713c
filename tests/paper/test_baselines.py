"""What all baselines promise as classifiers of bags."""

import pickle
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted

from psimil import Bags
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError, NotFitted
from psimil.paper import baselines
from psimil.paper.baselines import AttentionMIL, BagForest, BagSVM, MeanPooling, Smoothing

pytestmark = pytest.mark.usefixtures("one_torch_thread")

NETWORK = AttentionMIL(hidden=16, attention=8, epochs=40, learning_rate=0.02, random_state=0)
torch_only = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
SMOOTHED = clone(NETWORK).set_params(smoothing=Smoothing())
SMOOTH = pytest.param(SMOOTHED, marks=torch_only, id="smooth")
SMOOTH_TOO = pytest.param(SMOOTHED, marks=[torch_only, pytest.mark.slow], id="smooth")
MEAN = pytest.param(MeanPooling(), id="MeanPooling")
KINDS = [
    BagSVM(random_state=0),
    BagForest(n_estimators=25, random_state=0),
    pytest.param(NETWORK, marks=torch_only),
]
GRIDS = {  # the first value is by far the better one
    BagSVM: ("gamma", [0.02, 1e3]),
    BagForest: ("min_samples_leaf", [1, 35]),
    AttentionMIL: ("learning_rate", [0.02, 1e-6]),
    MeanPooling: ("C", [1.0, 1e-9]),
}


def kinds(*more):
    return pytest.mark.parametrize("kind", [*KINDS, *more], ids=lambda kind: type(kind).__name__)


each = kinds(MEAN, SMOOTH)
each_quickly = kinds(MEAN, SMOOTH_TOO)  # smoothing changes no line of what is tested
BAGS, Y, _ = make_bags(n_bags=80, separation=5.0, seed=1)
TEST, Y_TEST, _ = make_bags(n_bags=100, separation=5.0, seed=2)


def shuffled(bags, rng):
    return Bags.from_list([rng.permutation(bag) for bag in bags])


@each
def test_learns_a_separable_problem(kind):
    clf = clone(kind).fit(BAGS, Y)
    prob = clf.predict_proba(TEST)
    assert prob.shape == (100, 2)
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)
    assert roc_auc_score(Y_TEST, prob[:, 1]) > 0.97
    assert clf.score(TEST, Y_TEST) > 0.9
    assert -np.log(prob[np.arange(100), Y_TEST]).mean() < 0.3
    np.testing.assert_allclose(clf.decision_function(TEST), np.log(prob[:, 1] / prob[:, 0]), atol=1e-9)
    np.testing.assert_array_equal(clf.predict(TEST), prob[:, 1] >= 0.5)
    assert clf.classes_.tolist() == [0, 1]
    assert clf.n_features_in_ == 5


@each
def test_labels_without_a_pattern_give_the_share_of_positives(kind):
    rng = np.random.default_rng(5)
    bags = Bags.from_list(list(rng.standard_normal((120, 4, 3))))
    prob = clone(kind).fit(bags, rng.permutation(120) < 40).predict_proba(rng.standard_normal((50, 4, 3)))[:, 1]
    assert abs(prob.mean() - 1 / 3) < 0.1
    assert prob.std() < 0.15


@kinds(MEAN)
def test_order_of_instances_and_bags_does_not_matter(kind):
    rng = np.random.default_rng(3)
    clf = clone(kind).fit(BAGS, Y)
    expected = clf.decision_function(TEST)
    np.testing.assert_allclose(clf.decision_function(shuffled(TEST, rng)), expected, atol=1e-5)
    order = rng.permutation(len(TEST))
    np.testing.assert_allclose(clf.decision_function(TEST[order]), expected[order], atol=1e-5)


@each_quickly
def test_units_of_the_features_do_not_matter(kind):
    scale, shift = np.array([1e-6, 1.0, 1e6, 3.0, 0.1]), 4.0
    other = [Bags(bags.X * scale + shift, bags.offsets) for bags in (BAGS, TEST)]
    expected = clone(kind).fit(BAGS, Y).predict_proba(TEST)
    np.testing.assert_allclose(clone(kind).fit(other[0], Y).predict_proba(other[1]), expected, atol=0.02)


@kinds(SMOOTH_TOO)
def test_the_seed_decides_bit_by_bit(kind):
    first, again, other = (
        clone(kind).set_params(random_state=seed).fit(BAGS, Y).decision_function(TEST) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@each_quickly
def test_scikit_learn_takes_it_as_it_is(kind):
    assert is_classifier(kind)
    clf = clone(kind).fit(BAGS, Y)
    assert clf.get_params() == kind.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(TEST), clf.predict_proba(TEST))
    assert not hasattr(clone(clf), "model_")
    name, values = GRIDS[type(kind)]
    search = GridSearchCV(kind, {name: values}, scoring="neg_log_loss", cv=2).fit(BAGS, Y)
    assert search.best_params_ == {name: values[0]}
    assert search.best_score_ > -0.4


@each_quickly
def test_tables_with_bag_ids_give_the_same(kind):
    place = np.arange(len(BAGS.X)) - BAGS.offsets[BAGS.bag_index]
    rows = np.argsort(place, kind="stable")  # the first instances of all bags, then the second ones, ...
    X, ids = BAGS.X[rows], BAGS.bag_index[rows]
    expected = clone(kind).fit(BAGS, Y).predict_proba(BAGS)
    np.testing.assert_array_equal(clone(kind).fit(X, Y, bag_ids=ids).predict_proba(X, bag_ids=ids), expected)


@each
def test_bad_input_is_refused(kind):
    with pytest.raises(NotFitted, match="not fitted"):
        clone(kind).predict(BAGS)
    with pytest.raises(InputError, match="needs bag labels"):
        clone(kind).fit(BAGS)
    with pytest.raises(InputError, match="80 bags but 79 labels"):
        clone(kind).fit(BAGS, Y[:-1])
    with pytest.raises(InputError, match="labels must be 0 or 1"):
        clone(kind).fit(BAGS, np.where(np.arange(len(Y)) == len(Y) - 1, 2, Y))
    clf = clone(kind).fit(BAGS, Y)
    check_is_fitted(clf)
    with pytest.raises(InputError, match="model expects 5 features, got 4"):
        clf.predict([np.zeros((2, 4))])
    with pytest.raises(InputError, match="non-finite"):
        clf.predict([np.full((2, 5), np.nan)])


@each
def test_one_label_gives_its_prevalence(kind):
    with pytest.warns(DataWarning, match="all 80 bags are positive"):
        clf = clone(kind).fit(BAGS, np.ones(80))
    np.testing.assert_allclose(clf.predict_proba(TEST)[:, 1], 80.5 / 81)


@each_quickly
@pytest.mark.parametrize("n_positive", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_few_bags_of_a_label_are_enough(kind, n_positive):
    keep = np.concatenate([np.flatnonzero(Y)[:n_positive], np.flatnonzero(Y == 0)])
    log_odds = clone(kind).fit(BAGS[keep], Y[keep]).decision_function(TEST)
    assert np.isfinite(log_odds).all()
    assert roc_auc_score(Y_TEST, log_odds) > 0.5


def test_all_public_names_explain_themselves():
    assert all("Examples\n" in getattr(baselines, name).__doc__ for name in baselines.__all__)
