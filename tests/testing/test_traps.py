"""Traps hold what they say, and turning them changes nothing else."""

import numpy as np
import pytest

from psimil.foundations.errors import InputError
from psimil.testing import TRAPS, false_frequency, single_concept, two_concepts

MANY = {"n_bags": 300, "n_features": 16}


def near(bag, centre):
    """Number of instances within six standard deviations of a narrow kind."""
    return int((np.abs(bag - centre) < 0.6).all(axis=1).sum())


def counts(labelled, centre, label):
    bags, y = labelled
    return np.array([near(bag, centre) for bag, t in zip(bags, y, strict=True) if t == label])


@pytest.mark.parametrize("name", TRAPS)
def test_half_of_the_bags_are_positive_and_the_seed_decides(name):
    trap, again, other = (TRAPS[name](seed, n_bags=20, n_features=3) for seed in (4, 4, 5))
    for part, same, different in zip(*(vars(t).values() for t in (trap, again, other)), strict=True):
        assert part[1].sum() == 10 and len(part[0]) == 20
        assert all(bag.ndim == 2 and bag.shape[1] == 3 for bag in part[0])
        assert all(np.array_equal(one, two) for one, two in zip(part[0], same[0], strict=True))
        assert not all(np.array_equal(one, two) for one, two in zip(part[0], different[0], strict=True))
    assert not np.array_equal(trap.train[0][0], trap.alike[0][0])


@pytest.mark.parametrize("make", [single_concept, two_concepts])
def test_bait_is_in_negative_bags_until_it_is_turned(make):
    trap = make(**MANY)
    for part, marked in ((trap.train, 0), (trap.alike, 0), (trap.turned, 1)):
        assert (counts(part, -10.0, marked) == 1).all()
        assert (counts(part, -10.0, 1 - marked) == 0).all()


def test_positive_bags_of_a_single_concept_have_what_negative_ones_lack():
    trap = single_concept(**MANY)
    for bags, y in (trap.train, trap.turned):
        clean = [bag[bag.mean(axis=1) > -5] for bag in bags]
        # of ordinary instances the root mean square over 16 features is 1 +- .18 and the mean 0 +- .25
        strange = [(np.sqrt((bag**2).mean(axis=1)) > 1.75) | (bag.mean(axis=1) > 0.7) for bag in clean]
        some = np.array([part.any() for part in strange])
        assert some[y == 1].mean() > 0.9 and some[y == 0].mean() < 0.05
        sizes = np.array([len(bag) for bag in clean])
        assert set(sizes[y == 0]) == set(range(1, 11)) and set(sizes[y == 1]) == set(range(2, 14))


def test_two_concepts_come_together_in_positive_bags_only():
    trap = two_concepts(**MANY)
    for part in (trap.train, trap.turned):
        low, high = (counts(part, centre, 1) for centre in (2.0, 3.0))
        assert np.array_equal(low, high) and set(low) == {1, 2, 3, 4}
        low, high = (counts(part, centre, 0) for centre in (2.0, 3.0))
        assert (low + high == 1).all() and 0.4 < low.mean() < 0.6


def test_numbers_of_false_frequency_turn_in_negative_bags_only():
    trap = false_frequency(**MANY)
    for part, many in ((trap.train, {1, 2}), (trap.turned, set(range(35, 46)))):
        low, high = (counts(part, centre, 1) for centre in (2.0, 3.0))
        assert set(low) == set(high) == {1, 2}
        low, high = (counts(part, centre, 0) for centre in (2.0, 3.0))
        assert (np.minimum(low, high) == 0).all() and set(low + high) == many
        assert 0.4 < (low > 0).mean() < 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"n_bags": 1}, "n_bags must be a whole number >= 2"),
        ({"n_features": 0}, "n_features must be a whole number >= 1"),
    ],
)
def test_bad_sizes_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        single_concept(**options)
