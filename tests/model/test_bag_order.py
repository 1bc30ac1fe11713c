"""The order of instances: Bags.in_order against sorting by hand, gaps, subsets, and links that are refused."""

import numpy as np
import pytest

from problems import offsets_of
from psimil import Bags
from psimil.foundations.errors import InputError
from psimil.model.bag_order import GAP, linked

SIZES = (3, 1, 5, 2)
N = sum(SIZES)


def numbered_bags(**options):
    """Bags whose only feature is the number of the row."""
    return Bags(np.arange(float(N))[:, None], offsets_of(SIZES), **options)


def positions(seed=0):
    """Places at whole numbers, in random order within each bag."""
    rng = np.random.default_rng(seed)
    return np.concatenate([10.0 * b + rng.permutation(n) for b, n in enumerate(SIZES)])


def sorted_by_hand(places):
    """(N,) rows of each bag by place, one bag after another."""
    found = []
    for start, stop in zip(offsets_of(SIZES)[:-1], offsets_of(SIZES)[1:], strict=True):
        found += sorted(range(start, stop), key=lambda row: places[row])
    return found


def test_rows_are_in_order_and_all_neighbours_are_linked_where_nothing_else_is_said():
    bags = numbered_bags().in_order()
    assert bags.X.ravel().tolist() == list(range(N))
    assert bags.links.tolist() == [1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 0]
    assert bags.rows is None
    assert numbered_bags().links is None


def test_rows_are_sorted_by_position_within_their_bags_and_know_where_they_were():
    places = positions()
    bags = numbered_bags(ids=list("abcd")).in_order(places)
    assert bags.X.ravel().tolist() == bags.rows.tolist() == sorted_by_hand(places)
    assert bags.ids.tolist() == list("abcd")
    np.testing.assert_array_equal(bags.in_input_order(bags.X), numbered_bags().X)
    assert bags.links.tolist() == [1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 0]


def test_equal_positions_keep_the_order_of_their_rows_and_are_neighbours():
    bags = Bags.from_list([[[0.0], [1.0], [2.0], [3.0]]]).in_order([2.0, 1.0, 2.0, 1.0])
    assert bags.X.ravel().tolist() == [1.0, 3.0, 0.0, 2.0]
    assert bags.links[[0, 2]].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("unit", [1.0, 5.0, -2.5, 1e-3])
def test_a_link_is_broken_where_something_is_missing_whatever_the_unit_and_the_direction(unit):
    """Slices 0 1 2 4 5 6: one is missing after the third."""
    places = unit * np.array([0.0, 1, 2, 4, 5, 6, 0, 1])
    bags = Bags.from_list([np.arange(6.0)[:, None], np.arange(2.0)[:, None]]).in_order(places)
    assert bags.links.tolist() == [1, 1, 0, 1, 1, 0, 1, 0]


def test_a_step_counts_as_usual_up_to_a_factor():
    for step, expected in ((GAP - 0.01, 1.0), (GAP + 0.01, 0.0)):
        _, links = linked(np.array([0, 5]), np.array([0.0, 1, 2, 3, 3 + step]))
        assert links.tolist() == [1, 1, 1, expected, 0]
    assert linked(np.array([0, 2]), np.array([0.0, 1e9]))[1].tolist() == [1, 0]  # the only step is the usual one


def test_each_bag_has_a_usual_step_of_its_own():
    _, links = linked(np.array([0, 3, 6]), np.array([0.0, 1, 2, 0, 5, 10]))
    assert links.tolist() == [1, 1, 0, 1, 1, 0]


@pytest.mark.parametrize("choice", [[2, 0], [2, 2, 1], np.array([True, False, False, True]), slice(1, 3)])
def test_some_of_the_bags_keep_their_order_and_links(choice):
    places = positions()
    places[4:9] += 3.0 * (places[4:9] > 22)  # a gap in the third bag
    bags = numbered_bags().in_order(places)
    some = bags[choice]
    chosen = np.arange(len(SIZES))[choice]
    assert (bags.links[4:9] == 0).sum() == 2
    parts = [bags.links[bags.offsets[b] : bags.offsets[b + 1]] for b in chosen]
    assert some.links.tolist() == np.concatenate(parts).tolist()
    for mine, b in zip(some, chosen, strict=True):
        np.testing.assert_array_equal(mine, bags[int(b)])


def test_features_are_chosen_with_the_order_kept():
    bags = Bags([[1.0, 2.0], [3.0, 4.0]], [0, 2], feature_names=["size", "mass"]).in_order([1.0, 0.0])
    found = bags.with_features(["mass"])
    assert found.X.ravel().tolist() == [4.0, 2.0]
    assert found.links.tolist() == [1.0, 0.0]
    assert found.rows.tolist() == [1, 0]


def test_bags_in_order_can_be_put_in_another_order():
    places = positions()
    once = numbered_bags().in_order(places)
    back = once.in_order(-places)
    mirrored = np.concatenate([part[::-1] for part in np.split(once.X.ravel(), once.offsets[1:-1])])
    assert back.X.ravel().tolist() == back.rows.tolist() == mirrored.tolist()
    np.testing.assert_array_equal(back.in_input_order(back.X), numbered_bags().X)


def test_rows_of_a_table_that_stands_in_any_order_go_back_to_it():
    """Bags made of a table and then put in order, by places of the rows of the table."""
    rng = np.random.default_rng(1)
    ids, table = rng.permutation(np.repeat([0, 1, 2], 4)), np.arange(12.0)[:, None]
    bags = Bags.from_arrays(table, ids)
    ordered = bags.in_order(-table.ravel())
    assert all((np.diff(part.ravel()) < 0).all() for part in ordered)
    np.testing.assert_array_equal(ordered.X.ravel(), ordered.rows)
    np.testing.assert_array_equal(ordered.in_input_order(ordered.X), table)


def test_positions_of_a_table_are_given_row_by_row_as_the_table_is():
    """As labels of instances and of rows are; bags are interleaved."""
    ids, table, places = ["a", "b", "a", "b"], [[0.0], [1.0], [2.0], [3.0]], [1.0, 5.0, 0.0, 4.0]
    bags = Bags.from_arrays(table, ids).in_order(places)
    assert bags["a"].ravel().tolist() == [2.0, 0.0]
    assert bags["b"].ravel().tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    "places",
    [[0.0, 1.0], [[0.0], [1.0], [2.0]], [0.0, np.nan, 1.0], [0.0, np.inf, 1.0], ["a", "b", "c"], 3.0, [None] * 3],
    ids=str,
)
def test_positions_that_are_no_numbers_one_for_each_instance_are_refused(places):
    bags = Bags.from_list([[[1.0], [2.0]], [[3.0]]])
    with pytest.raises(InputError):
        bags.in_order(places)


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ([1.0, 0.0], "3 numbers"),
        ([[1.0, 0.0, 0.0]], "3 numbers"),
        ([np.nan, 0.0, 0.0], "3 numbers"),
        ([np.inf, 0.0, 0.0], "3 numbers"),
        ([-1.0, 0.0, 0.0], "not negative"),
        ([1.0, 1.0, 0.0], "0 at the last"),
        ([1.0, 0.0, 1.0], "0 at the last"),
    ],
    ids=str,
)
def test_links_that_are_not_of_these_bags_are_refused(links, said):
    with pytest.raises(InputError, match=said):
        Bags([[1.0], [2.0], [3.0]], [0, 2, 3], links=links)


def test_links_that_are_no_numbers_are_refused():
    with pytest.raises(InputError):
        Bags([[1.0], [2.0], [3.0]], [0, 2, 3], links=["a", "b", "c"])


def test_positions_that_occur_twice_leave_the_links_of_the_others():
    assert linked(np.array([0, 6]), np.array([0.0, 0.0, 1.0, 1.0, 2.0, 9.0]))[1].tolist() == [1, 1, 1, 1, 0, 0]
    assert linked(np.array([0, 3]), np.zeros(3))[1].tolist() == [1, 1, 0]
