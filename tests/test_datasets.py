import csv
import gzip
import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from psimil import datasets
from psimil.datasets import idx
from psimil.foundations.errors import InputError, MissingFile

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
needs_musk = pytest.mark.skipif(not (DATA / "musk").is_dir(), reason="the MUSK tables are not at hand")
needs_mnist = pytest.mark.skipif(not (DATA / "mnist").is_dir(), reason="the MNIST files are not at hand")


def idx_bytes(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def fake_mnist(tmp_path):
    """A folder with 30 training and 10 test digits; labels cycle through 0..9, the first pixel is the label."""
    for part, n in (("train", 30), ("t10k", 10)):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = np.zeros((n, 28, 28), np.uint8)
        images[:, 0, 0] = labels
        images[:, 27, 27] = 255
        with gzip.open(tmp_path / f"{part}-images-idx3-ubyte.gz", "wb") as stream:
            stream.write(idx_bytes(images))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))  # plain, to try both
    return tmp_path


# MUSK


@pytest.mark.parametrize(
    ("name", "n_bags", "n_positive", "n_instances", "smallest", "largest"),
    [("musk1", 92, 47, 476, 2, 40), ("musk2", 102, 39, 6598, 1, 1044)],
)
def test_musk_has_the_published_counts(name, n_bags, n_positive, n_instances, smallest, largest):
    bags, y = getattr(datasets, f"load_{name}")()
    assert bags.X.shape == (n_instances, 166)
    assert bags.X.dtype == np.float64
    assert y.shape == (n_bags,)
    assert len(bags) == n_bags
    assert set(y.tolist()) == {0, 1}
    assert y.sum() == n_positive
    assert (bags.sizes.min(), bags.sizes.max()) == (smallest, largest)
    assert len(set(bags.ids.tolist())) == n_bags


def test_musk_bags_are_numbered():
    bags, _ = datasets.load_musk1()
    assert bags.ids[0] == "musk1-01"
    assert bags.ids[-1] == "musk1-92"
    assert datasets.load_musk2()[0].ids[4] == "musk2-005"


@pytest.mark.data
@needs_musk
@pytest.mark.parametrize("name", ["musk1", "musk2"])
def test_musk_equals_the_table_row_by_row(name):
    bags, y = getattr(datasets, f"load_{name}")()
    with gzip.open(DATA / "musk" / f"{name}.csv.gz", "rt") as stream:
        rows = list(csv.reader(stream))
    assert len(rows) == len(bags.X)
    for row, features, b in zip(rows, bags.X, np.repeat(np.arange(len(y)), bags.sizes), strict=True):
        assert float(row[0]) == y[b]
        assert float(row[1]) == b + 1
        assert [float(value) for value in row[2:]] == features.tolist()


# IDX


@pytest.mark.parametrize("shape", [(3,), (2, 28, 28), (0,), (4, 1)])
@pytest.mark.parametrize("zipped", [False, True])
def test_idx_round_trip(tmp_path, shape, zipped):
    array = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    content = idx_bytes(array)
    path = tmp_path / "numbers"
    path.write_bytes(gzip.compress(content) if zipped else content)
    read = datasets.read_idx(path)
    assert read.dtype == np.uint8
    assert read.shape == shape
    np.testing.assert_array_equal(read, array)


GOOD = idx_bytes(np.arange(6, dtype=np.uint8).reshape(2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"\0\0", "not an IDX file"),
        (b"\1" + GOOD[1:], "not an IDX file"),
        (b"\0\0\x0d\2" + GOOD[4:], "not an IDX file of unsigned bytes"),
        (b"\0\0\x08\0", "not an IDX file"),
        (GOOD[:9], "header has 9 of 12 bytes"),
        (GOOD[:-1], "5 of 6 data bytes"),
        (GOOD + b"\0", "7 of 6 data bytes"),
        (b"\0\0\x08\4" + b"\xff" * 16, "0 of 340282366604025813516997721482669850625 data bytes"),
        (gzip.compress(GOOD, mtime=0)[:-6], "cannot be read"),
        (gzip.compress(GOOD, mtime=0)[:12] + b"\xff" * 20, "cannot be read"),
    ],
)
def test_idx_refuses_damaged_files(tmp_path, content, message):
    path = tmp_path / "numbers"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        datasets.read_idx(path)


def test_idx_refuses_a_decompression_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(idx, "MAX_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(1 << 22)))
    with pytest.raises(InputError, match="above the limit of 1 MB"):
        datasets.read_idx(path)


def test_idx_missing_file(tmp_path):
    with pytest.raises(MissingFile, match="labels was not found"):
        datasets.read_idx(tmp_path / "labels")


# MNIST


def test_load_mnist_puts_train_before_test(fake_mnist):
    images, labels = datasets.load_mnist(fake_mnist)
    assert images.shape == (40, 784)
    assert images.dtype == np.float32
    assert labels.tolist() == [*range(10)] * 4
    np.testing.assert_allclose(images[:, 0] * 255, labels, rtol=1e-6)
    assert (images[:, -1] == 1).all()


def test_load_mnist_names_the_missing_file(fake_mnist):
    (fake_mnist / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(MissingFile, match=r"t10k-labels-idx1-ubyte.gz was not found in .* Name the folder"):
        datasets.load_mnist(fake_mnist)


@pytest.mark.parametrize(
    ("array", "message"),
    [(np.zeros(9, np.uint8), "10 images but 9 labels"), (np.zeros((10, 1), np.uint8), "2 axes in the header")],
)
def test_load_mnist_refuses_files_that_do_not_fit(fake_mnist, array, message):
    (fake_mnist / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(array))
    with pytest.raises(InputError, match=message):
        datasets.load_mnist(fake_mnist)


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


@pytest.mark.parametrize("n_train", [0, 7000])
def test_mnist_split_refuses_an_empty_side(fake_mnist, n_train):
    with pytest.raises(InputError, match="n_train must be between 1 and 6999"):
        datasets.mnist_split(fake_mnist, n_train=n_train)


def test_mnist_split_without_pca_gives_pixels(fake_mnist):
    split = datasets.mnist_split(fake_mnist, n_train=6900, n_components=None)
    (bags, y, y_instances), test = split.train, split.test
    assert bags.X.shape == (69000, 784)
    assert y.shape == (6900,)
    assert y_instances.shape == (69000,)
    assert test.bags.X.shape == (1000, 784)
    assert (bags.sizes == 10).all()
    digits = np.rint(test.bags.X[:, 0] * 255)
    np.testing.assert_array_equal(np.isin(digits, [2, 9]), test.y_instances)
    np.testing.assert_array_equal(test.y, test.y_instances.reshape(-1, 10).max(axis=1))


def test_mnist_split_centres_on_the_training_instances(fake_mnist):
    raw = datasets.mnist_split(fake_mnist, n_train=100, n_components=None)
    split = datasets.mnist_split(fake_mnist, n_train=100, n_components=1)
    mean = raw.train.bags.X[:, 0].mean()  # only this pixel varies, so it is the first component up to sign
    assert abs(mean - raw.test.bags.X[:, 0].mean()) > 1e-6  # far above the tolerance below
    for part, pixels in zip(split, raw, strict=True):
        np.testing.assert_allclose(np.abs(part.bags.X[:, 0]), np.abs(pixels.bags.X[:, 0] - mean), atol=1e-12)


@pytest.mark.data
@needs_mnist
def test_mnist_files_hold_the_published_digits():
    images, labels = datasets.load_mnist(DATA / "mnist")
    assert images.shape == (70000, 784)
    assert np.bincount(labels).tolist() == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert abs(images[:60000].mean(dtype=np.float64) - 0.1307) < 5e-5
    assert abs(images[:60000].std(dtype=np.float64) - 0.3081) < 5e-5


@pytest.mark.data
@pytest.mark.slow
@needs_mnist
def test_mnist_split_fits_pca_on_training_instances_only():
    split = datasets.mnist_split(DATA / "mnist")
    raw = datasets.mnist_split(DATA / "mnist", n_components=None)
    assert split.train.bags.X.shape == (56000, 30)
    assert split.test.bags.X.shape == (14000, 30)
    mean = raw.train.bags.X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(raw.train.bags.X.T))
    W = vectors[:, :-31:-1]  # (784, 30), largest variance first
    np.testing.assert_allclose(split.train.bags.X.var(axis=0, ddof=1), values[:-31:-1], rtol=1e-8)
    expected = (raw.test.bags.X - mean) @ W
    signs = np.sign((split.test.bags.X * expected).sum(axis=0))
    np.testing.assert_allclose(split.test.bags.X * signs, expected, atol=1e-8)
    np.testing.assert_array_equal(split.test.y_instances, raw.test.y_instances)


# Synthetic bags


@pytest.mark.parametrize("seed", range(3))
def test_make_bags_labels_follow_the_rule(seed):
    bags, y, y_instances = datasets.make_bags(n_bags=41, seed=seed)
    assert bags.X.shape == (len(y_instances), 5)
    assert y.shape == (41,)
    assert y.sum() == 20
    assert bags.sizes.min() >= 3
    assert bags.sizes.max() <= 12
    np.testing.assert_array_equal(y, [part.max() for part in bags.split(y_instances)])


def test_make_bags_separates_by_the_distance_asked():
    bags, _, y_instances = datasets.make_bags(n_bags=4000, n_features=4, separation=3.0)
    gap = bags.X[y_instances == 1].mean(axis=0) - bags.X[y_instances == 0].mean(axis=0)
    n1, n0 = (y_instances == 1).sum(), (y_instances == 0).sum()
    np.testing.assert_allclose(gap, 1.5, atol=6 * np.sqrt(1 / n1 + 1 / n0))


def test_make_bags_seed_decides():
    first, again, other = (datasets.make_bags(seed=seed)[0].X for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 1), (1.0, 5)])
def test_make_bags_witness_rate_extremes(rate, expected):
    bags, y, y_instances = datasets.make_bags(bag_size=(5, 5), witness_rate=rate)
    assert {int(part.sum()) for part, label in zip(bags.split(y_instances), y, strict=True) if label} == {expected}


@pytest.mark.parametrize(
    "options",
    [{"n_bags": 0}, {"n_features": 0}, {"bag_size": (0, 3)}, {"bag_size": (4, 3)}, {"witness_rate": 1.5}],
)
def test_make_bags_refuses_bad_options(options):
    with pytest.raises(InputError, match=next(iter(options))):
        datasets.make_bags(**options)


def test_all_public_names_exist():
    assert all(getattr(datasets, name).__doc__ for name in datasets.__all__)


def test_embedded_archives_hold_no_pickles():
    folder = Path(datasets.__file__).parent / "data"
    for path in folder.glob("*.npz"):
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            assert {archive[key].dtype.kind for key in archive.files} == {"i"}
