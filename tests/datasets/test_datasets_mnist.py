import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from psimil import datasets
from psimil.datasets import mnist
from psimil.foundations.errors import InputError, MissingFile

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
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
    monkeypatch.setattr(mnist, "MAX_BYTES", 1 << 20)
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
    with pytest.raises(MissingFile, match=r"t10k-labels-idx1-ubyte \(or .gz\) was not found in .* Name the folder"):
        datasets.load_mnist(fake_mnist)


@pytest.mark.parametrize(
    ("array", "message"),
    [(np.zeros(9, np.uint8), "10 images but 9 labels"), (np.zeros((10, 1), np.uint8), "2 axes in the header")],
)
def test_load_mnist_refuses_files_that_do_not_fit(fake_mnist, array, message):
    (fake_mnist / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(array))
    with pytest.raises(InputError, match=message):
        datasets.load_mnist(fake_mnist)


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


@pytest.mark.parametrize("train", [[0, 2], np.array([True, False, True])])
def test_mnist_features_learn_from_the_training_bags_only(train):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(12, 5)).astype(np.float32)
    index = rng.permutation(12).reshape(3, 4)
    features = datasets.mnist_features(images, index, train, n_components=2)
    pixels = images[index[[0, 2]].ravel()].astype(np.float64)
    _, _, components = np.linalg.svd(pixels - pixels.mean(axis=0))  # the same axes by another road
    expected = (images[index.ravel()] - pixels.mean(axis=0)) @ components[:2].T
    assert features.dtype == np.float64
    np.testing.assert_allclose(np.abs(features), np.abs(expected), atol=1e-6)
    changed = images.copy()
    changed[index[1]] += 1  # a test bag moves by itself and moves nothing else
    again = datasets.mnist_features(changed, index, train, n_components=2)
    np.testing.assert_allclose(again[[0, 1, 2, 3, 8, 9, 10, 11]], features[[0, 1, 2, 3, 8, 9, 10, 11]], atol=1e-12)
    assert np.abs(again[4:8] - features[4:8]).max() > 0.01


@pytest.mark.parametrize(
    ("train", "n_components", "message"),
    [
        ([], None, "train must be a mask of 3 bags or their numbers"),
        (np.zeros(3, bool), None, "with at least one training bag"),
        (np.ones(4, bool), None, "train must be a mask of 3 bags"),
        ([0.5], None, "train must be a mask"),
        ([3], None, "train holds bag 3 of 3 bags"),
        ([-1, 2], None, "train holds bag -1 of 3 bags"),
        ([0], 5, "n_components must be between 1 and 4, .* got 5"),
        ([0], 0, "n_components must be between 1 and 4"),
    ],
)
def test_mnist_features_refuse_bad_choices(train, n_components, message):
    with pytest.raises(InputError, match=message):
        datasets.mnist_features(np.zeros((12, 5)), np.arange(12).reshape(3, 4), train, n_components=n_components)


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
