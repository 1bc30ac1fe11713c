"""Rows B1-B11, B16 and B18 of ROBUSTNESS.md: arrays, labels and weights that fit and predict refuse."""

import warnings

import numpy as np
import pytest

from psimil import RBF, Bags
from psimil.foundations.errors import DataWarning, InputError, NotFitted
from tiny import as_list, fitted, problem, quick

ONE_MATRIX = (
    "bags are one matrix of 4 rows, and nothing says which rows are a bag. "
    "Give bag_ids=, one id per row, or a list with one matrix per bag."
)


def bag_of(n, d=3, value=None):
    return np.random.default_rng(n).normal(size=(n, d)) if value is None else np.full((n, d), value)


def with_nan():
    bags = [bag_of(3, 10) for _ in range(6)]
    bags[4] = bags[4].copy()
    bags[4][2, 9] = np.nan
    bags[5] = bags[5].copy()
    bags[5][0, :2] = np.inf, -np.inf
    return bags


def replaced(position, bag, count=20):
    bags = [bag_of(2 + k % 3) for k in range(count)]
    bags[position] = bag
    return bags


def labels(n, **changed):
    y = (np.arange(n) % 2).astype(object)
    for key, value in changed.items():
        y[int(key[1:])] = value
    return y


FIT = {
    "B1 list": ([], [], "training set is empty: 0 bags. Give at least 1 bag."),
    "B1 Bags": (Bags.from_list([]), [], "training set is empty: 0 bags. Give at least 1 bag."),
    "B2": (replaced(17, np.empty((0, 3))), labels(20), "bag 17 has 0 instances. Remove it or add instances."),
    "B3": (
        with_nan(),
        labels(6),
        "feature matrix has 3 non-finite values, first at bag 4, instance 2, feature 9.",
    ),
    "B4": (replaced(5, bag_of(2, 2)), labels(20), "bag 5 has 2 features, expected 3 (from bag 0)."),
    "B5 1-D": (replaced(2, np.ones(3)), labels(20), "bag 2 has shape (3,), expected (instances, features)."),
    "B5 3-D": (
        replaced(2, np.ones((1, 2, 3))),
        labels(20),
        "bag 2 has shape (1, 2, 3), expected (instances, features).",
    ),
    "B5 rows without ids": (np.ones((4, 3)), labels(4), ONE_MATRIX),
    "B6 two": (replaced(0, bag_of(2)), labels(20, b3=2), "label of bag 3 is 2; labels must be 0 or 1."),
    "B6 minus one": (replaced(0, bag_of(2)), labels(20, b3=-1), "label of bag 3 is -1; labels must be 0 or 1."),
    "B6 nan": (
        replaced(0, bag_of(2)),
        labels(20, b3=np.nan),
        "label of bag 3 is nan; give every bag one of two labels.",
    ),
    "B6 text": (
        replaced(0, bag_of(2)),
        labels(20, b3="yes"),
        "label of bag 3 is 'yes'; labels must be the numbers 0 or 1.",
    ),
    "B6 none": (
        replaced(0, bag_of(2)),
        labels(20, b3=None),
        "label of bag 3 is None; give every bag one of two labels.",
    ),
    "B6 half": (replaced(0, bag_of(2)), labels(20, b3=0.5), "label of bag 3 is 0.5; labels must be 0 or 1."),
    "B6 table": (replaced(0, bag_of(2)), np.eye(20), "labels have shape (20, 20), expected one per bag."),
    "B6 ragged": (replaced(0, bag_of(2)), [[0], [1, 0]], "labels are ragged, expected one per bag."),
    "B7": ([bag_of(2)] * 92, labels(91), "92 bags but 91 labels."),
    "B7 one": ([bag_of(2)], 1, "labels have shape (), expected one per bag."),
    "B18 object": (replaced(1, np.ones((2, 3), object)), labels(20), "bag 1 must be real numbers, got object."),
    "B18 complex": (replaced(1, np.ones((2, 3)) * 1j), labels(20), "bag 1 must be real numbers, got complex128."),
    "no labels": (
        [bag_of(2)],
        None,
        "fit needs bag labels: fit(bags, y). requires y to be passed, but the target y is None",
    ),
    "text": ("abc", [0], "bags must be a sequence of 2-D arrays or Bags, got str."),
    "number": (3, [0], "bags must be a sequence of 2-D arrays or Bags, got int."),
    "dict": ({"a": bag_of(2)}, [0], "bags must be a sequence of 2-D arrays or Bags, got dict."),
    "generator": (
        (bag_of(2) for _ in range(2)),
        [0, 1],
        "bags must be a sequence of 2-D arrays or Bags, got generator.",
    ),
}


@pytest.mark.parametrize("case", FIT)
def test_fit_refuses(case):
    bags, y, message = FIT[case]
    model = quick()
    with pytest.raises(InputError) as caught:
        model.fit(bags, y)
    assert str(caught.value) == message
    assert not hasattr(model, "model_")


def test_a_table_needs_its_bag_column():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r'use Bags\.from_frame\(frame, bag="\.\.\."\)'):
        quick().fit(pd.DataFrame({"u": [1.0]}), [0])


def test_ids_name_the_bag_in_messages():
    X, ids = np.ones((4, 2)), np.array(["scan-a", "scan-b", "scan-b", "scan-a"])
    X[3, 1] = np.nan
    with pytest.raises(InputError, match=r"first at bag scan-a, instance 1, feature 1\.$"):
        quick().fit(X, [0, 1], bag_ids=ids)
    with pytest.raises(InputError, match=r"^label of bag scan-b is nan; give every bag one of two labels\.$"):
        quick().fit(np.ones((4, 2)), [0, np.nan], bag_ids=ids)


ARGUMENTS = {
    "instance labels, length": ({"y_instances": [0, 1]}, "instances but y_instances has shape (2,)."),
    "instance labels, value": (
        {"y_instances": "flat 2"},
        "an instance label is 2; instance labels must be 0, 1, or -1",
    ),
    "instance labels, one bag short": ({"y_instances": "short"}, "24 bags but instance labels for 23 bags."),
    "instance labels, misplaced": ({"y_instances": "moved"}, "instances but instance labels of shape"),
    "instance labels, scalar": ({"y_instances": 1}, "y_instances must be a sequence, got int."),
    "weights, length": ({"sample_weight": [1.0]}, "24 bags but 1 weights."),
    "weights, negative": ({"sample_weight": [-1.0] * 24}, "sample_weight must be finite, >= 0, and not all zero."),
    "weights, zero": ({"sample_weight": [0.0] * 24}, "sample_weight must be finite, >= 0, and not all zero."),
    "weights, nan": ({"sample_weight": [np.nan] * 24}, "sample_weight must be finite, >= 0, and not all zero."),
    "weights, text": ({"sample_weight": ["a"] * 24}, "sample_weight must be numbers, one per bag."),
    "eval_set, shape": ({"eval_set": [1]}, "eval_set must be a pair (bags, y)."),
    "eval_set, features": ({"eval_set": ([np.ones((1, 2))], [1])}, "eval_set has 2 features, expected 3."),
    "eval_set, empty": ({"eval_set": ([], [])}, "evaluation set is empty: 0 bags. Give at least 1 bag."),
    "eval_set, labels": ({"eval_set": ([np.ones((1, 3))], [3])}, "label of bag 0 is 3; the classes are 0 and 1."),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_fit_refuses_other_arguments(case):
    bags, y, _ = problem()
    arguments, message = ARGUMENTS[case]
    unknown = bags.split(np.full(len(bags.X), -1))
    forms = {
        "flat 2": np.full(len(bags.X), 2),
        "short": unknown[:-1],
        "moved": [np.append(unknown[0], -1), *unknown[1:-1], unknown[-1][:-1]],
    }
    if isinstance(arguments.get("y_instances"), str):
        arguments = {"y_instances": forms[arguments["y_instances"]]}
    with pytest.raises(InputError) as caught:
        quick().fit(bags, y, **arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("label", "known", "kind"),
    [(0, 1, "negative but has a positive instance"), (1, 0, "positive but all its instances are negative")],
)
def test_instance_labels_that_contradict_the_bag(label, known, kind):
    bags, y, _ = problem()
    b = int(np.flatnonzero(y == label)[0])
    values = np.full(len(bags.X), -1)
    values[bags.offsets[b] : bags.offsets[b + 1]] = known
    with pytest.raises(InputError) as caught:
        quick().fit(bags, y, y_instances=values)
    assert str(caught.value) == f"bag {b} is {kind}. Correct the labels or give a finite H."
    quick(H=100.0).fit(bags, y, y_instances=values)


def test_early_stopping_needs_what_it_watches():
    bags, y, _ = problem()
    for metric in ("auc", "log_loss"):
        with pytest.raises(InputError, match=rf'^early_stopping "{metric}" needs eval_set=\(bags, y\)\.$'):
            quick(early_stopping=metric).fit(bags, y)
    with pytest.raises(InputError, match=r'^early_stopping "auc" needs evaluation bags of both labels\.$'):
        with pytest.warns(DataWarning, match="are positive"):
            quick(early_stopping="auc").fit(bags, y, eval_set=(bags[y == 1], y[y == 1]))


@pytest.mark.parametrize(("label", "kind"), [(0, "negative"), (1, "positive")])
def test_b8_one_class_only_warns_and_continues(label, kind):
    bags, _, _ = problem()
    with pytest.warns(DataWarning) as caught:
        model = quick(H=100.0, tol=0.0).fit(bags, np.full(24, label))
    assert [str(w.message) for w in caught] == [f"all 24 bags are {kind}; probabilities are not informative."]
    assert np.isfinite(model.predict_proba(bags)).all()


METHODS = ("predict", "predict_proba", "predict_dist", "predict_instances", "decision_function")


@pytest.mark.parametrize("method", [*METHODS, "save"])
def test_b9_predict_before_fit(method, tmp_path):
    argument = tmp_path / "model" if method == "save" else problem()[0]
    with pytest.raises(NotFitted) as caught:
        getattr(quick(), method)(argument)
    assert str(caught.value) == "this model is not fitted. Call fit() or load a model."
    assert isinstance(caught.value, InputError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_b10_predict_with_another_number_of_features(method):
    with pytest.raises(InputError) as caught:
        getattr(fitted(), method)([np.ones((2, 2))])
    assert str(caught.value) == "model expects 3 features, got 2."
    with pytest.raises(InputError, match=r"^prediction set is empty: 0 bags\."):
        getattr(fitted(), method)([])


def test_b11_more_inducing_points_than_instances():
    bags = Bags.from_list([[[0.0], [1.0]], [[2.0], [0.0]], [[3.0]], [[1.0]]])
    with pytest.warns(DataWarning) as caught:
        model = quick(n_inducing=7).fit(bags, [0, 1, 1, 0])
    assert [str(w.message) for w in caught] == ["7 inducing points asked but only 4 distinct instances; using 4."]
    np.testing.assert_allclose(np.sort(model.inducing_points_.ravel()), [0, 1, 2, 3], atol=1e-12)


def test_b8_to_b16_no_warning_without_cause():
    bags, y, _ = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(as_list(bags), y)


def test_b16_constant_features():
    bags, y, _ = problem()
    X = np.insert(bags.X, [0, 2, 3], 5.0, axis=1)
    with pytest.warns(DataWarning) as caught:
        model = quick().fit(Bags(X, bags.offsets), y)
    assert [str(w.message) for w in caught] == ["3 features are constant and carry no information (columns 0, 3, 5)."]
    assert np.isfinite(model.predict_proba(Bags(X + 1.0, bags.offsets))).all()


def test_b16_all_features_constant():
    bags, y, _ = problem()
    with pytest.warns(DataWarning, match=r"^all features are constant; instances cannot be told apart\.$"):
        model = quick(n_inducing=1, kernel=RBF()).fit(Bags(np.ones_like(bags.X), bags.offsets), y)
    assert np.ptp(np.concatenate(model.predict_instances(Bags(np.ones_like(bags.X), bags.offsets)))) < 1e-12
