"""Labels and weights find their bag by id, by row, or by the order in which bags first appear."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from psimil import VGPMIL, Bags, MultiLabelMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.labels import values_of_bags

IDS = ["p0", "p1", "p2", "p10", "p11"]  # sorted as text: p0, p1, p10, p11, p2
ROWS = [0, 0, 1, 2, 2, 3, 4]
BAGS = Bags.from_arrays(np.arange(7.0)[:, None], [IDS[n] for n in ROWS])
Y = [1, 0, 1, 0, 0]


@pytest.mark.parametrize(
    "values",
    [
        dict(zip(IDS, Y, strict=True)),
        dict(zip(reversed(IDS), reversed(Y), strict=True)) | {"p99": 1},
        pd.Series(Y, index=IDS),
        pd.Series(Y, index=IDS).sort_index(),
        pd.DataFrame({"bag": [IDS[n] for n in ROWS], "y": [Y[n] for n in ROWS]}).groupby("bag")["y"].first(),
        pd.Series([*Y, 1], index=[*IDS, "p99"]),
        pd.Series(Y, index=[0, 2, 3, 5, 6]),  # what drop_duplicates leaves: numbers of rows
        pd.Series([Y[n] for n in ROWS]),
        [Y[n] for n in ROWS],
        np.array([Y[n] for n in ROWS]),
    ],
    ids=[
        "dict",
        "dict, more",
        "series",
        "sorted series",
        "groupby",
        "series, more",
        "rows",
        "per row s",
        "list",
        "array",
    ],
)
def test_every_form_gives_each_bag_its_own_value(values):
    assert values_of_bags(values, BAGS).tolist() == Y


def test_a_plain_list_is_in_the_order_of_appearance_and_says_so_where_sorted_ids_differ():
    with pytest.warns(DataWarning, match=r"in which bags first appear \(p0, p1, p2, \.\.\.\)"):
        assert values_of_bags(Y, BAGS, from_rows=True).tolist() == Y
    in_order = Bags.from_arrays(np.arange(3.0)[:, None], ["a", "b", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values_of_bags([0, 1, 1], in_order, from_rows=True).tolist() == [0, 1, 1]


NUMBERS = Bags.from_arrays(np.arange(3.0)[:, None], [2, 0, 1])


@pytest.mark.parametrize(
    ("values", "bags", "message"),
    [
        ({"p0": 1}, BAGS, "labels have no value for bag p1 and 3 more. Give one per bag, by its id."),
        (pd.Series(Y, index=["p0", "p1", "p2", "p10", "q"]), BAGS, "bag p11 is not in their index"),
        (pd.Series([1, 0, 1]), NUMBERS, "the index 0, 1, ..., and the bags have these ids in another order"),
        (pd.Series([1, 0, 1], index=[1, 2, 3]), NUMBERS, "bag 0 is not in their index"),
        (pd.Series([1, 0, 1, 1], index=[2, 0, 1, 0]), NUMBERS, "labels have the index 0 twice"),
        ([1, 0], BAGS, "5 bags but 2 labels."),
        ([1, 1, 0, 1, 0, 0, 0], BAGS, "bag p2 has rows with different labels."),
        ("yes", BAGS, "labels must be a sequence with one value per bag, got str."),
    ],
)
def test_what_is_ambiguous_or_missing_is_refused(values, bags, message):
    with pytest.raises(InputError) as refused:
        values_of_bags(values, bags)
    assert message in str(refused.value)


def test_a_series_for_bags_without_ids_is_taken_as_it_stands():
    """As scikit-learn does: the index of a shuffled series says nothing about a list of arrays."""
    bags = Bags.from_list([np.ones((1, 1))] * 3)
    shuffled = pd.Series([1, 0, 1], index=[2, 0, 1])
    assert values_of_bags(shuffled, bags).tolist() == [1, 0, 1]
    assert values_of_bags(shuffled, bags[[0, 1, 2]]).tolist() == [1, 0, 1]


def test_labels_that_scikit_learn_slices_by_position_are_checked_against_the_ids_of_the_bags():
    frame = pd.DataFrame({"bag": [3, 1, 2, 0], "f": [0.0, 1.0, 2.0, 3.0], "y": [1, 0, 1, 0]})
    bags, y = Bags.from_frame(frame, features=["f"]), frame.groupby("bag")["y"].first()  # sorted by id
    assert values_of_bags(y, bags).tolist() == [1, 0, 1, 0]
    with pytest.raises(InputError, match="is not in their index"):
        values_of_bags(y.iloc[[0, 1]], bags[[0, 1]])


@pytest.fixture(scope="module")
def patients():
    bags, y, _ = make_bags(n_bags=60, separation=3.0, seed=0)
    names = np.array([f"p{n}" for n in range(60)])
    return bags.X, names[bags.bag_index], names, y


@pytest.mark.parametrize("form", ["series", "sorted series", "dict", "per row", "order"])
def test_a_fit_on_rows_attaches_labels_to_the_right_bags(patients, form):
    X, ids, names, y = patients
    series = pd.Series(y, index=names)
    given = {
        "series": series,
        "sorted series": series.sort_index(),
        "dict": series.to_dict(),
        "per row": series[ids].to_numpy(),
        "order": y,
    }[form]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = VGPMIL(n_inducing=10, max_iter=20, tol=0.0, hyperparameters=None, random_state=0)
        model.fit(X, given, bag_ids=ids)
    found = model.predict_dist(X, bag_ids=ids)
    assert found.ids.tolist() == names.tolist()
    assert roc_auc_score(y, found.log_odds) > 0.95


def test_weights_and_multiple_labels_follow_the_ids_too(patients):
    X, ids, names, y = patients
    weights = pd.Series(np.linspace(1.0, 2.0, 60), index=names).sample(frac=1.0, random_state=0)
    settings = {"n_inducing": 5, "max_iter": 3, "tol": 0.0, "random_state": 0, "calibrate": False}
    by_id = VGPMIL(**settings).fit(X, dict(zip(names, y, strict=True)), bag_ids=ids, sample_weight=weights)
    in_order = VGPMIL(**settings).fit(
        X, dict(zip(names, y, strict=True)), bag_ids=ids, sample_weight=dict(zip(weights.index, weights, strict=True))
    )
    np.testing.assert_array_equal(by_id.predict_proba(X, bag_ids=ids), in_order.predict_proba(X, bag_ids=ids))
    table = pd.DataFrame({"a": y, "b": 1 - y}, index=names)
    models = [MultiLabelMIL(VGPMIL(**settings)).fit(X, labels, bag_ids=ids) for labels in (table, table.sort_index())]
    np.testing.assert_array_equal(*(model.predict_proba(X, bag_ids=ids) for model in models))


def test_score_finds_the_bags_as_fit_does(patients):
    X, ids, names, y = patients
    bags, sorted_by_id = Bags.from_arrays(X, ids), pd.Series(y, index=names).sort_index()
    model = VGPMIL(n_inducing=5, max_iter=3, tol=0.0, random_state=0).fit(bags, sorted_by_id)
    expected = np.mean(model.predict(bags) == y)
    assert model.score(bags, sorted_by_id) == model.score(bags, sorted_by_id.to_dict()) == expected
    assert model.score(bags, y, sample_weight=np.ones(60)) == expected


def test_rows_and_ids_with_the_same_index_in_another_order_are_refused():
    X = pd.DataFrame({"f": [0.0, 1.0, 2.0]})
    with pytest.raises(InputError, match="the same index in another order"):
        Bags.from_arrays(X, pd.Series(["a", "b", "b"], index=[2, 1, 0]))
    assert Bags.from_arrays(X, pd.Series(["a", "b", "b"], index=[7, 8, 9])).ids.tolist() == ["a", "b"]


def test_values_of_a_dict_are_a_list_and_a_set_is_none():
    assert values_of_bags(dict(zip("abcde", Y, strict=True)).values(), BAGS).tolist() == Y
    with pytest.raises(InputError, match="must be a sequence with one value per bag, got set"):
        values_of_bags({0, 1}, BAGS)


def test_integer_ids_take_what_scikit_learn_leaves_of_a_plain_series():
    bags = Bags.from_arrays(np.arange(4.0)[:, None], [103, 101, 102, 104])
    assert values_of_bags(pd.Series([1, 0, 1, 0]).iloc[[0, 2]], bags[[0, 2]]).tolist() == [1, 1]


def test_columns_of_several_labels_are_their_names(patients):
    X, ids, names, y = patients
    table = pd.DataFrame({"u": y, "v": 1 - y}, index=names)
    settings = {"n_inducing": 4, "max_iter": 1, "tol": 0.0, "random_state": 0, "calibrate": False}
    assert MultiLabelMIL(VGPMIL(**settings)).fit(X, table, bag_ids=ids).label_names_ == ("u", "v")
