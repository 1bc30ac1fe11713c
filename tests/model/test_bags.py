"""Bags: constructors, slicing, order of rows, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from psimil import Bags
from psimil.foundations.errors import InputError
from psimil.model.scaling import Scaling

SIZES = (2, 1, 3, 2)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) for n in SIZES]
    assert [p.shape for p in parts] == [(2, 3), (1, 3), (3, 3), (2, 3)]
    return parts


@pytest.fixture
def bags(arrays):
    return Bags.from_list(arrays, ids=["a", "b", "c", "d"])


def same(found, expected):
    assert isinstance(found, Bags)
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_from_list_keeps_everything(bags, arrays):
    same(bags, arrays)
    assert len(bags) == 4
    assert bags.shape == (4,)
    assert bags.n_features == 3
    assert bags.offsets.tolist() == [0, 2, 3, 6, 8]
    assert bags.sizes.tolist() == list(SIZES)
    assert bags.names.tolist() == ["a", "b", "c", "d"]
    assert bags.bag_index.tolist() == [0, 0, 1, 2, 2, 2, 3, 3]
    assert bags.rows is None


def test_names_are_numbers_without_ids(arrays):
    assert Bags.from_list(arrays).names.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("key", [0, 2, -1, np.int64(1)])
def test_an_integer_gives_one_bag(bags, arrays, key):
    found = bags[key]
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, arrays[key])


def test_an_id_in_text_gives_its_bag(bags, arrays):
    np.testing.assert_array_equal(bags["c"], arrays[2])
    with pytest.raises(KeyError):
        bags["missing"]


@pytest.mark.parametrize(
    ("key", "chosen"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        (slice(0, 0), []),
        ([3, 0], [3, 0]),
        ([-1, -4], [3, 0]),
        (np.array([2, 2, 1]), [2, 2, 1]),
        ([], []),
        (np.array([True, False, False, True]), [0, 3]),
        ([False, True, False, False], [1]),
    ],
    ids=repr,
)
def test_slices_masks_and_index_arrays_give_bags(bags, arrays, key, chosen):
    found = bags[key]
    same(found, [arrays[i] for i in chosen])
    assert found.names.tolist() == ["abcd"[i] for i in chosen]


def test_slices_of_slices_compose(bags, arrays):
    same(bags[[3, 2, 0]][1:][::-1], [arrays[0], arrays[2]])


@pytest.mark.parametrize("key", [4, -5])
def test_an_integer_out_of_range_is_an_index_error(bags, key):
    with pytest.raises(IndexError):
        bags[key]


@pytest.mark.parametrize("key", [[0, 4], np.array([True, False])], ids=["index", "mask"])
def test_keys_that_do_not_fit_are_index_errors(bags, key):
    with pytest.raises(IndexError):
        bags[key]


def test_split_is_the_inverse_of_stacking(bags):
    values = np.arange(8.0)
    assert [part.tolist() for part in bags.split(values)] == [[0, 1], [2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("ids", [["b", "a", "b", "c", "a"], [7, -1, 7, 10, -1], [0.5, 0.25, 0.5, 1.0, 0.25]], ids=str)
def test_from_arrays_with_ids_in_any_order(ids):
    X = np.arange(10.0).reshape(5, 2)
    bags = Bags.from_arrays(X, ids)
    assert bags.names.tolist() == [ids[0], ids[1], ids[3]]
    same(bags, [X[[0, 2]], X[[1, 4]], X[[3]]])
    np.testing.assert_array_equal(bags.in_input_order(bags.X), X)
    np.testing.assert_array_equal(bags.in_input_order(np.array([0, 20, 10, 40, 30])), [0, 10, 20, 30, 40])


def test_in_input_order_is_the_identity_without_rows(bags):
    values = np.arange(8)
    np.testing.assert_array_equal(bags.in_input_order(values), values)


def test_any_shuffle_is_undone():
    rng = np.random.default_rng(3)
    for _ in range(20):
        X, ids = rng.normal(size=(30, 2)), rng.integers(0, 6, 30)
        bags = Bags.from_arrays(X, ids)
        np.testing.assert_array_equal(bags.in_input_order(bags.X), X)
        for name, bag in zip(bags.names, bags, strict=True):
            np.testing.assert_array_equal(bag, X[ids == name])


def test_from_frame():
    frame = pd.DataFrame({"u": [1.0, 2.0, 3.0], "scan": ["y", "x", "y"], "v": [4, 5, 6]})
    same(Bags.from_frame(frame, bag="scan"), [[[1, 4], [3, 6]], [[2, 5]]])
    same(Bags.from_frame(frame, bag="scan", features=["v"]), [[[4], [6]], [[5]]])
    with pytest.raises(InputError, match=r'^the table has no column "bag"\. Columns: u, scan, v\.$'):
        Bags.from_frame(frame)


def test_from_frame_refuses_text_columns():
    with pytest.raises(InputError, match=r"^features must be real numbers, got object\.$"):
        Bags.from_frame(pd.DataFrame({"bag": [0], "u": ["one"], "v": [1.0]}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bags.from_list([np.ones((1, 2))] * 3, ids=["a", "b"]), "3 bags but 2 bag ids."),
        (lambda: Bags(np.ones((3, 2)), [0, 3], ids=["a", "b"]), "1 bags but 2 bag ids."),
        (lambda: Bags(np.ones((3, 2)), [0, 2]), "offsets must run from 0 to the number of instances, 3."),
        (lambda: Bags(np.ones((3, 2)), [1, 3]), "offsets must run from 0 to the number of instances, 3."),
        (lambda: Bags(np.ones((3, 2)), []), "offsets must run from 0 to the number of instances, 3."),
        (lambda: Bags(np.ones((3, 2)), [0, 2, 1, 3]), "offsets must not decrease."),
        (lambda: Bags(np.ones(3), [0, 3]), "features have shape (3,), expected (instances, features)."),
        (lambda: Bags(np.ones((3, 2)), [0, 1, 1, 3]), "bag 1 has 0 instances. Remove it or add instances."),
        (
            lambda: Bags(np.ones((3, 2)), [0, 1, 1, 3], ids=["p", "q", "r"]),
            "bag q has 0 instances. Remove it or add instances.",
        ),
        (lambda: Bags.from_arrays(np.ones((3, 2)), [0, 1]), "3 instances but bag_ids has shape (2,)."),
        (lambda: Bags.from_arrays(np.ones((2, 2)), [[0], [1]]), "2 instances but bag_ids has shape (2, 1)."),
        (
            lambda: Bags.from_arrays(np.ones((3, 2)), [0.0, np.nan, 1.0]),
            "the bag id of row 1 is missing. Give every row a bag.",
        ),
        (
            lambda: Bags.from_arrays(np.ones((3, 2)), np.array(["a", "b", None], dtype=object)),
            "the bag id of row 2 is missing. Give every row a bag.",
        ),
        (
            lambda: Bags.from_arrays(np.ones((2, 2)), np.array(["a", 1], dtype=object)),
            "bag_ids cannot be compared: they mix kinds. Give text or whole numbers.",
        ),
        (
            lambda: Bags.from_list([np.ones((3, 0))]),
            "0 feature(s) (shape=(3, 0)) while a minimum of 1 is required.",
        ),
    ],
)
def test_broken_bags_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message


def test_no_bags_is_a_value_not_an_error():
    assert len(Bags.from_list([])) == 0


@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_features_as_they_are_keep_their_values_without_a_warning(given):
    X = np.array([[1.5, -2.0]], dtype=given)
    for dtype in ("float64", "float32"):
        np.testing.assert_array_equal(Scaling.identity(2).apply(X, dtype), X)
