import csv
import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest

from psimil import datasets
from psimil.foundations.errors import InputError, MissingFile

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
needs_musk = pytest.mark.skipif(not (DATA / "musk").is_dir(), reason="the MUSK tables are not at hand")
needs_classic = pytest.mark.skipif(not (DATA / "classic").is_dir(), reason="the classic tables are not at hand")


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


# Digits


def test_digits_bags_show_what_they_label():
    from sklearn.datasets import load_digits

    stored = load_digits()
    bags, y, y_instances, images = datasets.digits_bags(n_bags=40, bag_size=6, seed=3)
    assert bags.X.shape == (240, 64)
    assert images.shape == (240, 8, 8)
    assert (bags.sizes == 6).all()
    np.testing.assert_array_equal(bags.X, images.reshape(240, 64))
    assert (images.min(), images.max()) == (0, 1)
    digit_of = {image.tobytes(): digit for image, digit in zip(stored.images, stored.target, strict=True)}
    digits = np.array([digit_of[(image * 16).tobytes()] for image in images])
    np.testing.assert_array_equal(y_instances, np.isin(digits, (2, 9)))
    np.testing.assert_array_equal(y, [part.max() for part in bags.split(y_instances)])
    assert y.sum() == 20


def test_digits_bags_seed_decides_and_small_bags_work():
    first, again, other = (datasets.digits_bags(20, seed=seed).bags.X for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(*datasets.digits_bags(6, bag_size=1)[1:3])
    assert datasets.digits_bags().bags.X.shape == (4000, 64)


# Classic benchmarks


@pytest.mark.data
@needs_classic
@pytest.mark.parametrize(
    ("name", "n_bags", "n_positive", "shape", "smallest", "largest"),
    [
        ("elephant", 200, 100, (1391, 230), 2, 13),
        ("birds_brown_creeper", 548, 197, (10232, 38), 2, 43),
        ("protein", 193, 25, (26611, 9), 35, 189),
    ],
)
def test_classic_tables_have_the_published_counts(name, n_bags, n_positive, shape, smallest, largest):
    bags, y = datasets.read_classic(DATA / "classic" / f"{name}.csv.gz")
    assert (len(bags), y.sum(), bags.X.shape) == (n_bags, n_positive, shape)
    assert (bags.sizes.min(), bags.sizes.max()) == (smallest, largest)
    with gzip.open(DATA / "classic" / f"{name}.csv.gz", "rt") as stream:
        rows = [[float(cell) for cell in row] for row in csv.reader(stream)]
    np.testing.assert_array_equal(bags.in_input_order(bags.X), [row[2:] for row in rows])
    np.testing.assert_array_equal(bags.in_input_order(np.repeat(y, bags.sizes)), [row[0] for row in rows])


@pytest.mark.parametrize("zipped", [False, True])
def test_classic_bags_need_not_be_contiguous(tmp_path, zipped):
    content = b"0,5,1,2\n1,-3,3,4\n0,5,5,6\n"
    path = tmp_path / "zoo"
    path.write_bytes(gzip.compress(content) if zipped else content)
    bags, y = datasets.read_classic(path)
    assert bags.ids.tolist() == [5, -3]
    assert y.tolist() == [0, 1]
    assert bags[0].tolist() == [[1, 2], [5, 6]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "zoo.csv is empty: 0 bags"),
        (b" \n\n", "zoo.csv is empty"),
        (b"label,bag,f\n1,1,2\n", "zoo.csv is not a CSV of numbers without a header: could not convert string 'label'"),
        (b"1,1,2\n1,1\n", "the number of columns changed from 3 to 2"),
        (b"1,1\n", "zoo.csv has 2 columns, expected label, bag id and at least one feature"),
        (b"1,1,2\n1,1.5,2\n", "zoo.csv: row 2 has the bag id 1.5, expected a whole number"),
        (b"1,nan,2\n", "row 1 has the bag id nan"),
        (b"1,1e300,2\n", "row 1 has the bag id 1e.300"),
        (b"2,1,2\n", "all labels are 2.0; a fit needs bags of two classes"),
        (b"1,1,2\n0,1,2\n", "bag 1 has rows labelled 0 and rows labelled 1"),
        (b"1,1,nan\n", "non-finite"),
        (b"1,1,\xff\n", "zoo.csv is not a CSV of numbers without a header: could not convert string"),
    ],
)
def test_classic_refuses_broken_tables(tmp_path, content, message):
    path = tmp_path / "zoo.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        datasets.read_classic(path)


def test_classic_missing_file(tmp_path):
    with pytest.raises(MissingFile, match=r"zoo.csv was not found"):
        datasets.read_classic(tmp_path / "zoo.csv")


# The room


def test_all_public_names_exist():
    assert all(getattr(datasets, name).__doc__ for name in datasets.__all__)


def test_embedded_archives_hold_no_pickles():
    folder = Path(datasets.__file__).parent / "data"
    for path in folder.glob("*.npz"):
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            assert {archive[key].dtype.kind for key in archive.files} == {"i"}
