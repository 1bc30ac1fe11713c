"""Bags as callers misuse them: every wrong call is told what is wrong and what to do."""

import numpy as np
import pandas as pd
import pytest

from psimil import Bags
from psimil.foundations.errors import InputError
from psimil.store.tables import read_bags
from tiny import fitted, problem

X = np.arange(6.0).reshape(3, 2)
FRAME = pd.DataFrame({"bag": ["b", "a", "b"], "label": [1, 0, 1], "instance_label": [1, 0, 0], "u": [1.0, 2.0, 3.0]})


def small(ids=("a", "b")):
    return Bags(X, [0, 2, 3], list(ids))


def test_a_table_gives_no_label_away_as_a_feature(tmp_path):
    found = Bags.from_frame(FRAME)
    assert found.n_features == 1
    assert found.X.ravel().tolist() == [1.0, 3.0, 2.0]
    FRAME.to_csv(tmp_path / "bags.csv", index=False)
    np.testing.assert_array_equal(found.X, read_bags(tmp_path / "bags.csv").bags.X)


def test_a_label_column_that_is_named_is_taken():
    assert Bags.from_frame(FRAME, features=["label", "u"]).n_features == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Bags.from_frame(FRAME, features=["w"]), 'the table has no column "w". Columns: bag, label,'),
        (lambda: Bags.from_frame(FRAME, features="u"), "features must be a list of column names, got 'u'."),
        (lambda: Bags.from_frame(FRAME, features=3), "features must be a list of column names, got 3."),
        (lambda: Bags.from_frame(FRAME, features=[]), "the table has no feature column beside the bag and label"),
        (lambda: Bags.from_frame(FRAME[["bag", "label"]]), "the table has no feature column beside the bag and label"),
        (lambda: Bags.from_frame(FRAME, bag="scan"), 'the table has no column "scan". Columns: bag,'),
        (lambda: Bags.from_frame(FRAME, bag=["bag"]), "the table has no column \"['bag']\". Columns: bag,"),
        (lambda: Bags.from_frame(X), "from_frame needs a table with columns, got ndarray."),
        (lambda: Bags.from_frame(None), "from_frame needs a table with columns, got NoneType."),
        (
            lambda: Bags.from_frame(pd.concat([FRAME, FRAME[["bag"]]], axis=1)),
            'the table has more than one column "bag". Rename them.',
        ),
    ],
)
def test_tables_that_do_not_fit(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Bags(X, [0, 1.5, 3]), "offsets must be whole numbers. Give the row at which each bag starts."),
        (lambda: Bags(X, [0, np.nan, 3]), "offsets must be whole numbers."),
        (lambda: Bags(X, ["0", "3"]), "offsets must be whole numbers."),
        (lambda: Bags(X, [[0], [1, 3]]), "offsets must be whole numbers."),
        (lambda: Bags(X, None), "offsets must be whole numbers."),
        (lambda: Bags(X, 3), "offsets must run from 0 to the number of instances, 3."),
        (lambda: Bags(X, [0, 3, 2, 3]), "offsets must not decrease."),
        (lambda: Bags(X, [0, 2, 3], [["a"], ["b", "c"]]), "bag ids are ragged, expected one id per bag."),
        (lambda: Bags(X, [0, 2, 3], [["a"], ["b"]]), "bag ids have shape (2, 1), expected one id per bag."),
        (lambda: Bags(X, [0, 3], rows=[0, 1]), "rows have shape (2,), expected 3 whole numbers, one per instance."),
        (lambda: Bags(X, [0, 3], rows=[0.0, 1.0, 2.0]), "rows have shape (3,), expected 3 whole numbers"),
        (lambda: Bags(X, [0, 3], rows=[0, 1, 1]), "rows must hold each position from 0 to 2 once."),
        (lambda: Bags(X, [0, 3], rows=[0, 1, 3]), "rows must hold each position from 0 to 2 once."),
        (lambda: Bags(X, [0, 3], rows=[0, 1, -1]), "rows must hold each position from 0 to 2 once."),
        (lambda: Bags.from_list(None), "bags must be a sequence of 2-D arrays, got NoneType."),
        (lambda: Bags.from_list("bags"), "bags must be a sequence of 2-D arrays, got str."),
        (lambda: Bags.from_list({"a": X}), "bags must be a sequence of 2-D arrays, got dict."),
        (lambda: Bags.from_list(FRAME), "bags must be a sequence of 2-D arrays, got DataFrame."),
        (lambda: Bags.from_list([X, X], ids=5), "ids must be a sequence, one per bag, got 5."),
        (lambda: Bags.from_list([X, X], ids="ab"), "ids must be a sequence, one per bag, got 'ab'."),
        (lambda: Bags.from_list([X, X], ids=["a", "a"]), "bags 0 and 1 have the same id. Give every bag an id of its"),
        (lambda: Bags.from_arrays(5, [1]), "features have shape (), expected (instances, features)."),
        (lambda: Bags.from_arrays([1.0, 2.0], [1, 1]), "features have shape (2,), expected (instances, features)."),
        (lambda: Bags.from_arrays(None, [1]), "features must be real numbers, got object."),
        (lambda: Bags.from_arrays(X, None), "3 instances but bag_ids has shape ()."),
        (lambda: Bags.from_arrays(X, [[1], [2, 3], 4]), "bag_ids are ragged, expected one id per row."),
        (lambda: small().split([1, 2]), "3 instances but values of shape (2,). Give one value per instance."),
        (lambda: small().split(7), "3 instances but values of shape (). Give one value per instance."),
        (lambda: small().in_input_order(np.ones(4)), "3 instances but values of shape (4,). Give one value per"),
        (lambda: fitted().predict_dist(problem()[0]).split([1.0]), f"{len(problem()[0].X)} instances but values of"),
    ],
)
def test_wrong_calls_are_input_errors(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_whole_offsets_may_be_written_as_floats():
    assert Bags(X, np.array([0.0, 2.0, 3.0])).offsets.dtype == np.int64


def test_a_bag_that_is_drawn_twice_has_its_id_twice():
    found = small()[[0, 0, 1]]
    assert found.ids.tolist() == ["a", "a", "b"]
    with pytest.raises(KeyError, match="2 bags have the id 'a'"):
        found["a"]


def test_ids_are_an_array_also_when_they_are_left_out():
    assert Bags(X, [0, 2, 3]).ids.tolist() == [0, 1]


def test_whole_number_ids_are_found_in_text():
    bags = small(ids=(7, 3))
    np.testing.assert_array_equal(bags["7"], X[:2])
    np.testing.assert_array_equal(bags["3"], X[2:])


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("9", KeyError, "no bag has the id '9'. Ask by position, or for one of .ids."),
        (2, IndexError, "bag 2 asked but there are 2 bags, counted from 0."),
        (-3, IndexError, "bag -3 asked but there are 2 bags, counted from 0."),
    ],
)
def test_keys_that_name_no_bag_get_a_sentence(key, kind, message):
    with pytest.raises(kind) as caught:
        small()[key]
    assert caught.value.args[0] == message


def test_values_may_be_lists():
    bags = Bags.from_arrays(X, ["b", "a", "b"])
    assert [part.tolist() for part in bags.split([1, 2, 3])] == [[1, 2], [3]]
    assert bags.in_input_order([1, 2, 3]).tolist() == [1, 3, 2]


@pytest.mark.parametrize("of", ["bags", "instances", 0.95, None, ""])
def test_a_table_of_anything_else_is_refused(of):
    with pytest.raises(InputError) as caught:
        fitted().predict_dist(problem()[0]).to_frame(of)
    assert str(caught.value) == f'to_frame gives a table of "bag" or of "instance", got {of!r}.'


def test_tables_of_bags_and_of_instances():
    bags = problem()[0]
    found = fitted().predict_dist(bags)
    assert len(found.to_frame(of="bag")) == len(found.to_frame()) == len(bags)
    assert len(found.to_frame(of="instance")) == len(bags.X)
