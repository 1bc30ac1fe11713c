import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil import datasets
from psimil.datasets import published, scans
from psimil.foundations.errors import InputError, MissingFile

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
needs_ich = pytest.mark.skipif(not (DATA / "ich").is_dir(), reason="the CT features are not at hand")
RSNA = [*(f"feature_{d}" for d in range(8)), "cnn_prediction", "instance_label", "instance_name"]
RSNA += ["bag_name", "bag_label", "bag_cnn_prediction", "bag_cnn_probability"]
CQ500 = [*RSNA[:8], "bag_label", "instance_name", *RSNA[-4:-3], *RSNA[-2:]]
# slice, scan, position along the axis, label of the slice; feature_0 is the row of the file
SLICES = [("s3", "q", 1, 0), ("s1", "p", 2, 1), ("s2", "q", 0, 0), ("s4", "p", 0, 0), ("s5", "p", 1, 1)]


def rows_of(columns):
    for number, (name, scan, _, label) in enumerate(SLICES):
        cells = {f"feature_{d}": number + 10 * d for d in range(128)}
        cells |= {"cnn_prediction": 1 - label, "instance_label": label, "instance_name": name, "bag_name": scan}
        cells |= {"bag_label": int(scan == "p"), "bag_cnn_prediction": 1}
        cells |= {"bag_cnn_probability": {"p": 0.75, "q": 0.5}[scan]}
        yield [cells[column] for column in columns]


def write(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as stream:
        csv.writer(stream).writerows([columns, *rows])


@pytest.fixture
def folder(tmp_path):
    """Small files under the published names, one of them gzipped."""
    write(tmp_path / "ich" / "rsna_f8_cnn1.csv.gz", RSNA, rows_of(RSNA))
    write(tmp_path / "ich" / "cq500_f8_cnn1.csv", CQ500, rows_of(CQ500))
    write(tmp_path / "ich" / "rsna_slice_order.csv", ["instance_name", "order"], [(s[0], s[2]) for s in SLICES])
    return tmp_path


def test_rsna_comes_in_axial_order(folder):
    rsna = datasets.load_rsna(folder, 1, verify=False)
    assert rsna.bags.ids.tolist() == ["p", "q"]
    assert rsna.bags.X[:, 0].tolist() == [3, 4, 1, 2, 0]
    assert rsna.bags.X[:, 7].tolist() == [73, 74, 71, 72, 70]
    assert rsna.bags.rows.tolist() == [3, 4, 1, 2, 0]
    assert rsna.position.tolist() == [0, 1, 2, 0, 1]
    assert rsna.y.tolist() == [1, 0]
    assert rsna.y_instances.tolist() == [0, 1, 1, 0, 0]
    assert rsna.cnn_instances.tolist() == [1, 0, 0, 1, 1]
    assert rsna.cnn_prob.tolist() == [0.75, 0.5]
    assert rsna.cnn_pred.tolist() == [1, 1]


def test_rsna_without_positions_comes_as_in_the_file(folder):
    (folder / "ich" / "rsna_slice_order.csv").unlink()
    rsna = datasets.load_rsna(folder / "ich", 1, verify=False)
    assert rsna.bags.X[:, 0].tolist() == [1, 3, 4, 0, 2]
    assert rsna.y_instances.tolist() == [1, 0, 1, 0, 0]
    assert rsna.position is None


def test_cq500_comes_as_in_the_file(folder):
    cq500 = datasets.load_cq500(folder, 1, verify=False)
    assert cq500.bags.X[:, 0].tolist() == [1, 3, 4, 0, 2]
    assert cq500.position.tolist() == [0, 1, 2, 0, 1]
    assert cq500.y.tolist() == [1, 0]
    assert cq500.y_instances.tolist() == [-1] * 5
    assert cq500.cnn_prob.tolist() == [0.75, 0.5]
    assert cq500.cnn_instances is None


@pytest.mark.parametrize("load", [datasets.load_rsna, datasets.load_cq500, datasets.load_ich_pair])
def test_other_content_is_refused_by_default(folder, load):
    with pytest.raises(InputError, match=r"_f8_cnn1.csv(.gz)?: content is not the published file"):
        load(folder, 1)
    with pytest.raises(MissingFile, match=r"_f8_cnn4.csv \(or .csv.gz\) was not found"):
        load(folder, 4)
    for cnn in (5, -1):
        with pytest.raises(InputError, match=f"cnn must be between 0 and 4, got {cnn}"):
            load(folder, cnn)


def test_another_table_of_positions_is_refused_by_default(folder, monkeypatch):
    path = folder / "ich" / "rsna_f8_cnn1.csv.gz"
    monkeypatch.setattr(published, "PUBLISHED", dict(published.PUBLISHED))
    content = gzip.decompress(path.read_bytes())
    sha = published.hashlib.sha256(content).hexdigest()
    published.PUBLISHED["rsna_f8_cnn1.csv"] = published.Published("ich", len(content), sha, "https://localhost/")
    with pytest.raises(InputError, match=r"rsna_slice_order.csv: content is not the published file"):
        datasets.load_rsna(folder, 1)


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (2, "feature_3", "x", 'row 3, column "feature_3" is x; it must be a number'),
        (2, "feature_3", "", 'row 3, column "feature_3" is empty; it must be a number'),
        (0, "feature_0", "inf", 'row 1, column "feature_0" is inf; it must be a number'),
        (4, "bag_label", "2", 'row 5, column "bag_label" is 2; it must be 0 or 1'),
        (4, "bag_label", "0", 'row . gives scan p a second value of "bag_label"'),
        (1, "instance_label", "-1", 'row 2, column "instance_label" is -1; it must be 0 or 1'),
        (1, "cnn_prediction", "0.5", 'row 2, column "cnn_prediction" is 0.5; it must be 0 or 1'),
        (1, "bag_cnn_probability", "1.5", 'row 2, column "bag_cnn_probability" is 1.5; it must be between 0 and 1'),
        (2, "bag_cnn_probability", "0.6", 'row . gives scan q a second value of "bag_cnn_probability"'),
        (2, "bag_cnn_prediction", "0", 'row . gives scan q a second value of "bag_cnn_prediction"'),
        (3, "bag_name", "", 'row 4 has no scan'),
        (3, "instance_name", "s9", "the slice of row 4 has no axial position"),
    ],
)  # fmt: skip
def test_broken_values_are_named(folder, row, column, value, message):
    rows = list(rows_of(RSNA))
    rows[row][RSNA.index(column)] = value
    write(folder / "ich" / "rsna_f8_cnn1.csv.gz", RSNA, rows)
    with pytest.raises(InputError, match=rf"rsna_f8_cnn1.csv.gz: (the )?{message}"):
        datasets.load_rsna(folder, 1, verify=False)


@pytest.mark.parametrize("column", ["feature_7", "bag_name", "bag_label", "instance_label", "cnn_prediction"])
def test_missing_columns_are_named(folder, column):
    columns = [name for name in RSNA if name != column]
    write(folder / "ich" / "rsna_f8_cnn1.csv.gz", columns, rows_of(columns))
    with pytest.raises(InputError, match=f'rsna_f8_cnn1.csv.gz has no column "{column}". It needs feature_0, '):
        datasets.load_rsna(folder, 1, verify=False)


def test_broken_tables_are_refused(folder):
    write(folder / "ich" / "cq500_f8_cnn1.csv", CQ500, [])
    with pytest.raises(InputError, match="has no rows: 0 slices"):
        datasets.load_cq500(folder, 1, verify=False)
    write(
        folder / "ich" / "rsna_slice_order.csv", ["instance_name", "order"], [(f"s{n}", 0) for n in (1, 2, 3, 4, 5, 5)]
    )
    with pytest.raises(InputError, match="names a slice twice"):
        datasets.load_rsna(folder, 1, verify=False)
    write(folder / "ich" / "rsna_slice_order.csv", ["instance_name", "place"], [("s1", 0)])
    with pytest.raises(InputError, match=r'rsna_slice_order.csv has no column "order"'):
        datasets.load_rsna(folder, 1, verify=False)
    write(folder / "ich" / "rsna_slice_order.csv", ["instance_name", "order"], [("s1", "top")])
    with pytest.raises(InputError, match=r'rsna_slice_order.csv: row 1, column "order" is top; it must be a number'):
        datasets.load_rsna(folder, 1, verify=False)


@pytest.mark.parametrize("n_features", [8, 32, 128])
def test_training_protocol_reads_the_files_of_one_split(tmp_path, n_features):
    features = [f"feature_{d}" for d in range(n_features)]
    columns = [*features, "cnn_prediction", "instance_label", "instance_name", "bag_name", "bag_label"]
    for part, split, ending in (("train", 2, ".gz"), ("test", 2, "")):
        path = tmp_path / f"RSNA_{n_features}" / part / f"RSNA_{part}_{n_features}_{split}.csv{ending}"
        write(path, columns, list(rows_of(columns))[: 3 if part == "train" else 5])
    columns = [*features, *CQ500[8:]]
    write(tmp_path / f"CQ500_{n_features}" / f"CQ500_{n_features}_2.csv", columns, rows_of(columns))
    train, test, cq500 = datasets.load_rsna_training(tmp_path, n_features, 2)
    assert train.bags.X.shape == (3, n_features)
    assert test.bags.X.shape == cq500.bags.X.shape == (5, n_features)
    assert test.bags.X[:, 0].tolist() == [1, 3, 4, 0, 2]
    assert test.y_instances.tolist() == [1, 0, 1, 0, 0]
    assert test.cnn_instances.tolist() == [0, 1, 0, 1, 1]
    assert test.cnn_prob is test.cnn_pred is test.position is None
    assert cq500.cnn_prob.tolist() == [0.75, 0.5]
    assert cq500.position.tolist() == [0, 1, 2, 0, 1]
    with pytest.raises(MissingFile, match=rf"RSNA_{n_features}/train/RSNA_train_{n_features}_3.csv was not found in"):
        datasets.load_rsna_training(tmp_path, n_features, 3)


@pytest.mark.parametrize(("n_features", "split", "culprit"), [(16, 1, "n_features"), (8, 0, "split"), (8, 6, "split")])
def test_training_protocol_refuses_other_splits(tmp_path, n_features, split, culprit):
    with pytest.raises(InputError, match=f"{culprit} must be"):
        datasets.load_rsna_training(tmp_path, n_features, split)


@pytest.mark.data
@needs_ich
@pytest.mark.parametrize(
    ("cnn", "auc_rsna", "auc_cq500"),
    [(0, 0.9535, 0.9034), (1, 0.9452, 0.9054), (2, 0.9587, 0.8957), (3, 0.9347, 0.9224), (4, 0.9601, 0.9036)],
)
def test_published_files_have_the_published_counts(cnn, auc_rsna, auc_cq500):
    rsna, cq500 = datasets.load_ich_pair(DATA, cnn)
    assert (len(rsna.bags), rsna.y.sum(), rsna.y_instances.sum(), rsna.bags.X.shape) == (150, 72, 806, (5254, 8))
    assert (len(cq500.bags), cq500.y.sum(), cq500.bags.X.shape) == (490, 205, (21190, 8))
    assert (rsna.bags.sizes.min(), rsna.bags.sizes.max()) == (24, 57)
    assert (cq500.bags.sizes.min(), cq500.bags.sizes.max()) == (4, 413)
    assert abs(roc_auc_score(rsna.y, rsna.cnn_prob) - auc_rsna) < 5e-5
    assert abs(roc_auc_score(cq500.y, cq500.cnn_prob) - auc_cq500) < 5e-5
    for part in rsna.bags.split(rsna.position):
        np.testing.assert_array_equal(part, np.arange(len(part)))


@pytest.mark.data
@needs_ich
def test_published_rows_keep_their_values_and_place():
    with gzip.open(DATA / "ich" / "rsna_f8_cnn0.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    with gzip.open(DATA / "ich" / "rsna_slice_order.csv.gz", "rt") as stream:
        order = {row["instance_name"]: int(row["order"]) for row in csv.DictReader(stream)}
    rsna = datasets.load_rsna(DATA)
    expected = sorted(rows, key=lambda row: (row["bag_name"], order[row["instance_name"]]))
    np.testing.assert_array_equal(rsna.bags.X, [[float(row[f"feature_{d}"]) for d in range(8)] for row in expected])
    np.testing.assert_array_equal(rsna.y_instances, [int(row["instance_label"]) for row in expected])
    np.testing.assert_array_equal(rsna.bags.names[rsna.bags.bag_index], [row["bag_name"] for row in expected])
    # along the axis the positive slices of most scans form one run
    positive = [part for part, y in zip(rsna.bags.split(rsna.y_instances), rsna.y, strict=True) if y]
    assert sum(int((np.diff(np.r_[0, part, 0]) == 1).sum() == 1) for part in positive) == 55


@pytest.mark.data
@needs_ich
def test_published_cq500_rows_are_in_axial_order():
    with gzip.open(DATA / "ich" / "cq500_f8_cnn0.csv.gz", "rt") as stream:
        numbers = np.array([int(row["instance_name"].rsplit("_", 1)[1]) for row in csv.DictReader(stream)])
    cq500 = scans.read_scans(DATA / "ich" / "cq500_f8_cnn0.csv.gz", n_features=8, rows_in_order=True)
    assert all((np.diff(part) > 0).all() for part in cq500.bags.split(numbers[cq500.bags.rows]))
