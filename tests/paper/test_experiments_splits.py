"""Which bags teach, stop and are measured under each protocol, and cohorts whose features see training bags only."""

import gzip
import struct

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from psimil.datasets import load_musk1, load_musk2, mnist_features
from psimil.foundations.errors import MissingFile
from psimil.paper.experiments import cohorts
from psimil.paper.experiments.cohorts import load_cohort, rows_of
from psimil.paper.experiments.plans import Job
from psimil.paper.experiments.trial_data import gather, nested_split, published_split, split_of

MUSK = load_musk1()[1]
MNIST = np.arange(7000) % 2


def disjoint(*parts):
    together = np.concatenate(parts)
    return len(np.unique(together)) == len(together)


def positive(y, index):
    return y[index].mean()


# The authors' code


@pytest.mark.parametrize("split", range(5))
def test_published_musk_measures_the_bags_it_learned_from(split):
    found = published_split(MUSK, split, stop_on_training=True)
    np.testing.assert_array_equal(found.train, found.test)
    np.testing.assert_array_equal(found.train, found.stop)
    assert found.measured_on == "training bags"
    expected = list(StratifiedKFold(5, shuffle=False).split(MUSK[:, None], MUSK))[split][0]
    np.testing.assert_array_equal(found.train, expected)  # folds in file order
    np.testing.assert_array_equal(found.features, np.arange(92))


@pytest.mark.parametrize("split", range(5))
def test_published_mnist_measures_the_bags_that_stop_the_training(split):
    found = published_split(MNIST, split, stop_on_training=False)
    np.testing.assert_array_equal(found.stop, found.test)
    assert disjoint(found.train, found.test)
    assert (len(found.train), len(found.test)) == (5040, 560)
    assert positive(MNIST, found.train) == positive(MNIST, found.test) == 0.5
    assert found.measured_on == "stopping bags"
    np.testing.assert_array_equal(found.features, np.arange(7000))
    fold = list(StratifiedKFold(5).split(MNIST[:, None], MNIST))[split][1]
    assert disjoint(found.train, found.test, fold)  # the test fold is never looked at


def test_published_sizes_on_musk():
    sizes = [len(published_split(MUSK, split, stop_on_training=True).train) for split in range(5)]
    assert sorted(sizes) == [73, 73, 74, 74, 74] and sum(sizes) == 4 * 92


@pytest.mark.parametrize(("experiment", "measured_on"), [("musk2", "training bags"), ("mnist-raw", "stopping bags")])
def test_the_experiment_says_which_mistake_is_repeated(experiment, measured_on):
    y = load_musk2()[1] if experiment == "musk2" else MNIST
    assert split_of(Job(experiment, "published", "vgpmil-published"), y).measured_on == measured_on


# Honest protocols

MAKERS = {
    "nested": nested_split,
    "stopping": lambda y, split, repeat=0: nested_split(y, split, repeat, stopping=True),
    "paper": lambda y, split, repeat=0: nested_split(y, split, stopping=True),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_honest_splits_are_disjoint_and_stratified_and_cover_all_bags(maker):
    tests = []
    for split in range(5):
        found = MAKERS[maker](MUSK, split)
        stop = np.array([], int) if found.stop is None else found.stop
        assert disjoint(found.train, stop, found.test)
        assert len(found.train) + len(stop) + len(found.test) == 92
        assert found.measured_on == "held-out bags"
        np.testing.assert_array_equal(np.sort(found.features), np.sort(found.train))
        for part in (found.train, found.test):
            assert abs(positive(MUSK, part) - MUSK.mean()) < 0.05
        if maker == "nested":
            assert found.stop is None
        else:
            assert len(stop) == 8 and abs(MUSK[stop].sum() - 8 * MUSK.mean()) < 1
        tests.append(found.test)
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), np.arange(92))


@pytest.mark.parametrize("stopping", [False, True])
def test_repeats_differ_and_seeds_do_not(stopping):
    first, again, other = (nested_split(MUSK, 2, repeat, stopping=stopping) for repeat in (1, 1, 2))
    np.testing.assert_array_equal(first.train, again.train)
    np.testing.assert_array_equal(first.test, again.test)
    assert set(first.test) != set(other.test) and set(first.train) != set(other.train)


def test_all_models_of_a_nested_split_are_measured_on_the_same_bags():
    np.testing.assert_array_equal(nested_split(MUSK, 3, 1).test, nested_split(MUSK, 3, 1, stopping=True).test)


def test_mnist_sizes_of_the_paper():
    found = split_of(Job("mnist-pca", "paper", "vgpmil", split=4), MNIST)
    assert [len(part) for part in (found.train, found.stop, found.test)] == [5040, 560, 1400]


# Cohorts


def test_rows_of_against_a_loop():
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, 12))])
    for size in (0, 1, 5, 12):
        index = rng.permutation(12)[:size]
        expected = [row for bag in index for row in range(offsets[bag], offsets[bag + 1])]
        assert rows_of(offsets, index).tolist() == expected


@pytest.mark.parametrize("protocol", ["nested", "paper", "published"])
def test_gathered_bags_are_those_of_the_split(protocol):
    bags, y = load_musk1()
    job = Job("musk1", protocol, "vgpmil-paper", split=1)
    material, split = gather(job, None, stopping=True), split_of(job, y, stopping=True)
    [measured] = material.measured
    assert measured.measured_on == split.measured_on and measured.stored is None
    for part, index in ((material.train, split.train), (material.stop, split.stop), (measured.bags, split.test)):
        np.testing.assert_array_equal(part.y, y[index])
        expected = np.concatenate([bags.X[bags.offsets[b] : bags.offsets[b + 1]] for b in index])
        np.testing.assert_array_equal(part.bags.X, expected)
        assert (part.y_instances == -1).all() and len(part.y_instances) == len(expected)


@pytest.mark.parametrize("name", ["mnist-pca", "mnist-raw", "rsna", "cq500"])
def test_what_is_not_embedded_needs_a_folder(name):
    with pytest.raises(MissingFile, match=f"{name} is not embedded.*--data"):
        load_cohort(name, None)


@pytest.mark.parametrize("protocol", ["paper", "published"])
def test_the_papers_own_ich_files_need_a_folder(protocol):
    with pytest.raises(MissingFile, match=r"not public.*--data"):
        gather(Job("ich", protocol, "vgpmil", n_features=8), None, stopping=True)


@pytest.fixture
def noise_mnist(tmp_path):
    """A folder of 60 + 20 noisy digits whose labels cycle through 0..9."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 60), ("t10k", 20)):
        for kind, array in (
            ("images-idx3", rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)),
            ("labels-idx1", (np.arange(n) % 10).astype(np.uint8)),
        ):
            header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes(), mtime=0))
    return str(tmp_path)


def test_mnist_features_are_learned_on_the_training_bags_only(noise_mnist, monkeypatch):
    seen = []

    def spy(images, index, train, *, n_components):
        seen.append((np.asarray(train).tolist(), n_components))
        return mnist_features(images, index, train, n_components=n_components)

    monkeypatch.setattr(cohorts, "mnist_features", spy)
    load_cohort.cache_clear()
    cohort = load_cohort("mnist-pca", noise_mnist, quick=True)
    assert len(cohort.y) == 700 and len(cohort.y_instances) == 7000
    np.testing.assert_array_equal(cohort.y, cohort.y_instances.reshape(700, 10).max(axis=1))
    for protocol, expected in (("nested", "train"), ("paper", "train"), ("published", "everything")):
        job = Job("mnist-pca", protocol, "vgpmil", split=1, quick=True)
        split = split_of(job, cohort.y)
        material = gather(job, noise_mnist, stopping=False)
        index = split.train if expected == "train" else np.arange(700)
        assert seen.pop() == (index.tolist(), 30) and not seen
        if expected == "train":
            means = material.train.bags.X.mean(axis=0)
            assert abs(means).max() < 1e-8 < abs(material.measured[0].bags.bags.X.mean(axis=0)).max()
        np.testing.assert_array_equal(material.measured[0].bags.y, cohort.y[split.test])
        gather(job, noise_mnist, stopping=False)
        assert not seen  # the same split again takes its features from memory
    load_cohort.cache_clear()


def test_raw_mnist_keeps_the_pixels(noise_mnist):
    load_cohort.cache_clear()
    bags = load_cohort("mnist-raw", noise_mnist, quick=True).features(np.arange(5))
    assert bags.X.shape == (7000, 784) and 0 <= bags.X.min() < bags.X.max() <= 1
    assert (bags.sizes == 10).all()
    load_cohort.cache_clear()
