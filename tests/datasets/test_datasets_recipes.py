import os
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from psimil import datasets
from psimil.foundations.errors import InputError

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
PARTS = ("train", "t10k")
needs_mnist = pytest.mark.skipif(not (DATA / "mnist").is_dir(), reason="the MNIST files are not at hand")


@pytest.mark.parametrize("seed", [0, 1])
def test_mnist_bags_keep_every_promise(seed):
    digits = np.random.default_rng(5).integers(0, 10, 3000)
    drawn = datasets.mnist_bags(np.zeros((3000, 1)), digits, n_bags=700, seed=seed)
    assert drawn.index.shape == drawn.y_instances.shape == (700, 10)
    assert drawn.y.shape == (700,)
    assert drawn.y.sum() == 350
    np.testing.assert_array_equal(drawn.y_instances, np.isin(digits[drawn.index], [2, 9]))
    np.testing.assert_array_equal(drawn.y, drawn.y_instances.max(axis=1))
    per_bag = drawn.y_instances[drawn.y == 1].sum(axis=1)
    assert set(per_bag.tolist()) == {1, 2, 3, 4}
    # uniform on 1..4: each count is within six standard deviations of 350 / 4
    assert np.abs(np.bincount(per_bag)[1:] - 87.5).max() < 6 * np.sqrt(350 * 0.25 * 0.75)


def test_mnist_bags_reuse_evenly_and_place_positives_anywhere():
    digits = np.random.default_rng(5).integers(0, 10, 3000)
    drawn = datasets.mnist_bags(np.zeros((3000, 1)), digits, n_bags=700)
    uses = np.bincount(drawn.index.ravel(), minlength=3000)
    for pool in (np.isin(digits, [2, 9]), ~np.isin(digits, [2, 9])):
        assert uses[pool].max() - uses[pool].min() <= 1
    by_place = drawn.y_instances.sum(axis=0)
    assert by_place.max() < 2 * by_place.min()


def test_mnist_bags_seed_decides():
    digits = np.arange(100) % 10
    draws = [datasets.mnist_bags(digits, digits, n_bags=20, seed=seed).index for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bags": 7}, "n_bags must be even"),
        ({"n_bags": 0}, "n_bags must be even"),
        ({"max_positive": 11}, "max_positive must be between 1 and bag_size = 10, got 11"),
        ({"max_positive": 0}, "max_positive must be"),
        ({"positive": (11,)}, "no image of the kind needed"),
    ],
)
def test_mnist_bags_refuse_bad_options(options, message):
    digits = np.arange(100) % 10
    with pytest.raises(InputError, match=message):
        datasets.mnist_bags(digits, digits, **options)


def test_mnist_bags_refuse_other_lengths():
    with pytest.raises(InputError, match="3 images but 2 labels"):
        datasets.mnist_bags(np.zeros((3, 784)), [1, 2])


def test_mnist_bags_of_only_positives():
    drawn = datasets.mnist_bags([0] * 4, [2, 2, 9, 1], n_bags=4, bag_size=1, max_positive=1)
    np.testing.assert_array_equal(drawn.y_instances[:, 0], drawn.y)


def dealt_one_by_one(digits):
    """The recipe as a loop over two queues and the module-level generator, one instance at a time."""
    state = np.random.get_state()
    np.random.seed(0)
    queues = []
    for wanted in (True, False):
        deck = np.flatnonzero(np.isin(digits, (2, 9)) == wanted)
        np.random.shuffle(deck)
        queues.append(deque(deck.tolist()))
    bags = []
    for number in range(7000):
        positives = np.random.randint(1, 5) if number < 3500 else 0
        bag = []
        for place in range(10):
            queue = queues[0 if place < positives else 1]
            queue.rotate(1)  # what was last is now first
            bag.append(queue[0])
        bags.append(sorted(bag, key=lambda n: digits[n]))
    order = np.arange(7000)
    np.random.shuffle(order)
    np.random.set_state(state)
    return np.array(bags)[order]


def test_authors_bags_equal_a_deal_one_by_one():
    digits = np.random.default_rng(3).integers(0, 10, 9000)  # both decks run out and are begun again
    before = np.random.get_state()[1].copy()
    drawn = datasets.authors_mnist_bags(digits)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # the global generator is left alone
    np.testing.assert_array_equal(drawn.index, dealt_one_by_one(digits))
    np.testing.assert_array_equal(drawn.y_instances, np.isin(digits[drawn.index], (2, 9)))
    np.testing.assert_array_equal(drawn.y, drawn.y_instances.max(axis=1))
    assert drawn.y.sum() == 3500


@pytest.mark.parametrize("digits", [[2, 9, 2], [1, 3], [], [[1, 2], [3, 4]]])
def test_authors_bags_need_both_kinds(digits):
    with pytest.raises(InputError, match="with 2s or 9s and other digits among them"):
        datasets.authors_mnist_bags(digits)


@pytest.mark.data
@needs_mnist
def test_authors_bags_have_the_counts_of_the_paper():
    labels = np.concatenate([datasets.read_idx(datasets.locate(DATA, f"{part}-labels-idx1-ubyte")) for part in PARTS])
    drawn = datasets.authors_mnist_bags(labels)
    assert drawn.y_instances.sum() == 8774
    assert (drawn.y_instances == 0).sum() == 61226
    np.testing.assert_array_equal(drawn.index, dealt_one_by_one(labels))
