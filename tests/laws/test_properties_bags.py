"""Bags, labels and scaling: any legal input comes through unchanged, any illegal one is an InputError with words."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import problems, properties, seeds
from psimil import Bags
from psimil.datasets import make_bags
from psimil.estimators.inputs import read_instance_labels, read_labels, read_weights
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.scaling import Scaling
from psimil.paper.baselines import bag_statistics

drawn_bags = problems().map(lambda drawn: drawn.bags)


def scaling_of(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Scaling.fit(X)


@properties
@given(drawn_bags)
def test_a_list_of_bags_comes_back_as_it_was(bags):
    again = Bags.from_list(list(bags))
    np.testing.assert_array_equal(again.X, bags.X)
    np.testing.assert_array_equal(again.offsets, bags.offsets)


@properties
@given(drawn_bags, seeds)
def test_rows_in_any_order_find_their_bags_and_their_way_back(bags, seed):
    rows = np.random.default_rng(seed).permutation(len(bags.X))
    again = Bags.from_arrays(bags.X[rows], bags.bag_index[rows])
    assert again.ids.tolist() == pd.unique(bags.bag_index[rows]).tolist()
    assert again.sizes.tolist() == bags.sizes[again.ids].tolist()
    np.testing.assert_array_equal(again.in_input_order(again.X), bags.X[rows])


@properties
@given(drawn_bags)
def test_a_table_is_rows_with_ids(bags):
    frame = pd.DataFrame(bags.X).assign(bag=bags.bag_index)
    again = Bags.from_frame(frame)
    np.testing.assert_array_equal(again.X, bags.X)


@properties
@given(drawn_bags, st.lists(st.integers(-10, 10), max_size=8))
def test_an_index_array_chooses_as_it_does_from_a_list(bags, key):
    key = [k for k in key if -len(bags) <= k < len(bags)]
    held = list(bags)
    chosen = bags[key]
    assert len(chosen) == len(key)
    for found, k in zip(chosen, key, strict=True):
        np.testing.assert_array_equal(found, held[k])


@properties
@given(drawn_bags, st.slices(10))
def test_a_slice_chooses_as_it_does_from_a_list(bags, key):
    for found, expected in zip(bags[key], list(bags)[key], strict=True):
        np.testing.assert_array_equal(found, expected)


@properties
@given(drawn_bags)
def test_split_undoes_concatenation(bags):
    for part, bag in zip(bags.split(bags.X), bags, strict=True):
        np.testing.assert_array_equal(part, bag)


@properties
@given(drawn_bags, seeds, st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(1, 3))
def test_numbers_that_are_none_are_counted_and_located(bags, seed, value, count):
    X = bags.X.copy()
    places = np.sort(np.random.default_rng(seed).choice(X.size, min(count, X.size), replace=False))
    X.flat[places] = value
    n, d = np.unravel_index(places[0], X.shape)
    b = bags.bag_index[n]
    with pytest.raises(InputError) as caught:
        Bags(X, bags.offsets)
    assert str(caught.value) == (
        f"feature matrix has {len(places)} non-finite values, first at bag {b}, "
        f"instance {n - bags.offsets[b]}, feature {d}."
    )


@properties
@given(drawn_bags, st.integers(0, 9), st.integers(0, 600))
def test_a_bag_of_another_width_is_named(bags, place, width):
    held = [*bags, bags[0]]
    place = 1 + place % (len(held) - 1)
    if width == bags.n_features:
        width += 1
    held[place] = np.ones((1, width))
    with pytest.raises(InputError, match=rf"^bag {place} has {width} features, expected {bags.n_features} "):
        Bags.from_list(held)


@properties
@given(drawn_bags, st.integers(0, 9))
def test_an_empty_bag_is_named(bags, place):
    held = list(bags)
    place %= len(held) + 1
    held.insert(place, np.empty((0, bags.n_features)))
    with pytest.raises(InputError, match=rf"^bag {place} has 0 instances\. "):
        Bags.from_list(held)


wrong_labels = st.one_of(
    st.integers().filter(lambda v: v not in (0, 1)),
    st.floats().filter(lambda v: v not in (0, 1)),
    st.text(),
    st.none(),
)


@properties
@given(drawn_bags, wrong_labels)
def test_a_label_other_than_0_and_1_is_named(bags, value):
    bags = Bags.from_list([*bags, *bags, *bags])  # at least two with a usual label
    labels = np.array([k % 2 for k in range(len(bags))], dtype=object)
    labels[-1] = value
    with pytest.raises(InputError, match=rf"^label of bag {len(bags) - 1} is "):
        read_labels(labels, bags)


@properties
@given(drawn_bags, st.lists(st.integers(0, 1), max_size=20))
def test_too_many_and_too_few_labels_are_counted(bags, labels):
    if len(labels) != len(bags):
        with pytest.raises(InputError, match=rf"^{len(bags)} bags but {len(labels)} labels\.$"):
            read_labels(np.array(labels, dtype=int), bags)


@properties
@given(drawn_bags, st.lists(st.floats(), min_size=1, max_size=10))
def test_weights_are_taken_or_refused_in_words(bags, weights):
    values = np.array(weights)
    legal = len(values) == len(bags) and np.isfinite(values).all() and (values >= 0).all() and values.any()
    try:
        found = read_weights(weights, bags)
    except InputError:
        assert not legal
    else:
        assert legal
        np.testing.assert_array_equal(found, values)


@properties
@given(problems(), seeds)
def test_instance_labels_that_contradict_sure_bags_are_refused(drawn, seed):
    known = np.random.default_rng(seed).integers(-1, 2, len(drawn.bags.X))
    parts = list(zip(drawn.y, drawn.bags.split(known), strict=True))
    contradiction = any((part == 1).any() if label == 0 else (part == 0).all() for label, part in parts)
    try:
        read_instance_labels(known, drawn.bags, drawn.y, np.inf)
    except InputError as reason:
        assert contradiction
        assert "Correct the labels or give a finite H." in str(reason)
    else:
        assert not contradiction


@properties
@given(drawn_bags)
def test_standardised_features_have_mean_0_and_standard_deviation_1(bags):
    scaling = scaling_of(bags.X)
    found = scaling.apply(bags.X)
    assert np.isfinite(found).all()
    moving = np.ptp(bags.X, axis=0) > 1e-6 * np.abs(bags.X).max(axis=0)
    np.testing.assert_allclose(found[:, moving].mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(found[:, moving].std(axis=0), 1.0, atol=1e-6)


@properties
@given(drawn_bags)
def test_scaling_can_be_undone(bags):
    scaling = scaling_of(bags.X)
    largest = np.abs(bags.X).max()
    np.testing.assert_allclose(scaling.invert(scaling.apply(bags.X)), bags.X, atol=1e-9 * largest)


@properties
@given(drawn_bags)
def test_statistics_of_a_bag_are_in_order(bags):
    mean, std, low, high = np.split(
        bag_statistics(Bags(bags.X / (np.abs(bags.X).max() or 1.0), bags.offsets)), 4, axis=1
    )
    assert (low <= mean + 1e-9).all()
    assert (mean <= high + 1e-9).all()
    assert (std >= 0).all()
    assert (std <= (high - low) / 2 + 1e-9).all()  # Popoviciu


@properties
@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 30), st.integers(1, 40), st.floats(0, 1), seeds)
def test_made_bags_keep_their_promise(count, low, more, width, rate, seed):
    bags, y, y_instances = make_bags(count, (low, low + more), width, rate, seed=seed)
    assert bags.sizes.min() >= low
    assert bags.sizes.max() <= low + more
    assert y.sum() == count // 2
    np.testing.assert_array_equal([part.max() for part in bags.split(y_instances)], y)
