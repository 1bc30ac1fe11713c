"""Instances in the context of their bag: the formula, its order, and rows that are read when they are asked for."""

from itertools import pairwise

import numpy as np
import pytest

from psimil import Bags
from psimil.foundations.errors import InputError
from psimil.model.context import RowsInContext, bag_features, context_names, in_context
from psimil.store import StoreWriter, open_store


def drawn(sizes=(3, 1, 5, 2), D=3, dtype=np.float64, seed=0, **how):
    X = np.random.default_rng(seed).normal(2.0, 5.0, (sum(sizes), D)).astype(dtype)
    return Bags(X, np.cumsum([0, *sizes]), **how)


def by_loops(bags):
    """Every number of the definition, one at a time."""
    rows = []
    for bag in bags:
        for instance in bag:
            columns = [[float(other[d]) for other in bag] for d in range(bags.n_features)]
            rows.append(
                [*map(float, instance), *(sum(c) / len(c) for c in columns), *map(min, columns), *map(max, columns)]
            )
    return np.array(rows)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-6)])
def test_context_is_mean_minimum_and_maximum_over_the_bag(dtype, rtol):
    bags = drawn(dtype=dtype)
    found = in_context(bags)
    assert found.X.shape == (11, 12) and found.X.dtype == dtype
    np.testing.assert_allclose(found.X, by_loops(bags), rtol=rtol)
    np.testing.assert_array_equal(found.X[:, :3], bags.X)
    np.testing.assert_array_equal(bag_features(bags.X, bags.offsets)[found.bag_index], found.X[:, 3:])


def test_the_order_of_a_bag_changes_the_order_of_rows_only():
    bags, rng = drawn(), np.random.default_rng(1)
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(bags.offsets)])
    moved = in_context(Bags(bags.X[order], bags.offsets))
    np.testing.assert_allclose(moved.X, in_context(bags).X[order], rtol=1e-13)


def test_a_bag_of_one_is_its_own_context():
    bags = drawn(sizes=(1, 1, 1))
    np.testing.assert_array_equal(in_context(bags).X, np.tile(bags.X, 4))


def test_equal_and_enormous_values_keep_their_mean():
    equal = in_context(Bags(np.full((7, 1), 0.1), [0, 3, 7])).X
    np.testing.assert_array_equal(equal, 0.1)
    huge = in_context(Bags(np.full((4, 1), 1.7e308), [0, 4])).X
    np.testing.assert_array_equal(huge, 1.7e308)


def test_names_ids_and_rows_stay():
    bags = Bags.from_arrays([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["b", "a", "b"])
    found = in_context(bags)
    np.testing.assert_array_equal(found.rows, bags.rows)
    assert (found.ids.tolist(), found.numbered, found.feature_names) == (["b", "a"], False, None)
    assert in_context(drawn()).numbered
    named = in_context(drawn(D=2, feature_names=["size", "mass"]))
    assert named.feature_names == context_names(("size", "mass"))
    assert named.feature_names[2:] == (
        "mean of size in its bag", "mean of mass in its bag", "least size in its bag", "least mass in its bag",
        "largest size in its bag", "largest mass in its bag",
    )  # fmt: skip
    with pytest.raises(InputError, match="two features have the name"):
        in_context(named)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_slice_has_the_bits_of_all_rows(dtype):
    bags = drawn(dtype=dtype)
    rows, whole = RowsInContext(bags.X, bags.offsets), in_context(bags).X
    assert (len(rows), rows.shape, rows.dtype) == (11, (11, 12), dtype)
    for start in range(12):
        for stop in range(13):
            np.testing.assert_array_equal(rows[start:stop], whole[start:stop])
    np.testing.assert_array_equal(np.asarray(rows), whole)
    assert np.asarray(rows, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.array(rows, copy=False)


def test_a_slice_reads_the_bags_that_it_touches_and_no_others():
    bags, read = drawn(), []

    class Watched:
        shape, dtype = bags.X.shape, bags.X.dtype

        def __getitem__(self, key):
            read.append((key.start, key.stop))
            return bags.X[key]

    rows = RowsInContext(Watched(), bags.offsets)  # bags begin at 0, 3, 4 and 9
    _ = rows[1:2], rows[3:4], rows[2:5], rows[9:11], rows[5:5]
    assert read == [(0, 3), (3, 4), (0, 9), (9, 11)]


@pytest.mark.parametrize("parts", [1, 2])
def test_stored_bags_are_those_in_memory(tmp_path, parts):
    bags, path = drawn(feature_names=["a", "b", "c"]), tmp_path / "store"
    for number, some in enumerate(np.array_split(np.arange(4), parts)):
        names = {"feature_names": ("a", "b", "c")}
        with StoreWriter(path, 3, append=number > 0, dtype="float64", **names) as writer:
            for b in some:
                writer.add(bags[int(b)], int(b % 2), f"b{b}")
    stored, whole = in_context(open_store(path)), in_context(bags)
    assert (len(stored), stored.n_features, stored.shape) == (4, 12, (4,))
    assert stored.ids.tolist() == ["b0", "b1", "b2", "b3"] and stored.feature_names == whole.feature_names
    np.testing.assert_array_equal(np.asarray(stored.X), whole.X)
    np.testing.assert_array_equal(stored.stream[2:10], whole.X[2:10])
    np.testing.assert_array_equal(stored["b2"], whole[2])
    np.testing.assert_array_equal(stored[-1], whole[3])
    some = stored[[2, 0]]
    assert type(some) is Bags and some.ids.tolist() == ["b2", "b0"]
    np.testing.assert_array_equal(some.X, whole[[2, 0]].X)
    for found, expected in zip(stored, whole, strict=True):
        np.testing.assert_array_equal(found, expected)
