"""Import into a store: every kind of source gives what the readers in memory give."""

import gzip

import numpy as np
import pandas as pd
import pytest

from psimil import Bags, datasets
from psimil.data import chunks, tabular
from psimil.foundations.errors import DataWarning, InputError, MissingFile
from psimil.store import StoredBags, import_bags, open_store
from psimil.store.tables import read_bags


@pytest.fixture(params=[3, 1000])
def small_chunks(request, monkeypatch):
    monkeypatch.setattr(chunks, "MAX_ROWS", request.param)


def frame(text_ids=True, seed=0):
    rng = np.random.default_rng(seed)
    bag = rng.integers(0, 12, 60)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["f1", "f2", "f3"])
    table.insert(1, "bag", [f"b{b}" for b in bag] if text_ids else bag)
    table["label"], table["instance_label"] = bag % 2, rng.integers(-1, 2, 60)
    return table


def check(store, expected, dtype=np.float64):
    """The store holds the BagTable, number by number."""
    assert isinstance(store, StoredBags) and isinstance(store.X, np.memmap)
    assert not store.X.flags.writeable
    np.testing.assert_array_equal(store.X, expected.bags.X.astype(dtype))
    np.testing.assert_array_equal(store.offsets, expected.bags.offsets)
    np.testing.assert_array_equal(store.names, expected.bags.names)
    assert store.names.dtype.kind == expected.bags.names.dtype.kind
    for found, wanted in ((store.y, expected.y), (store.y_instances, expected.y_instances)):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_array_equal(found, wanted)
    assert store.feature_names == expected.feature_names


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("text_ids", [True, False])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "npz", "compressed.npz"])
def test_tables_in_any_row_order(tmp_path, kind, text_ids):
    path, table = tmp_path / f"bags.{kind}", frame(text_ids)
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    elif kind == "parquet":
        table.to_parquet(path)
    else:
        save = np.savez if kind == "npz" else np.savez_compressed
        known, names = table["instance_label"].to_numpy(), ["f1", "f2", "f3"]
        ids = table["bag"].to_numpy(str if text_ids else int)
        save(path, X=table[names], bag_ids=ids, y=table["label"], y_instances=known, feature_names=names)
    manifest = import_bags(path, tmp_path / "store", dtype="float64")
    assert (manifest.bags, manifest.instances) == (table["bag"].nunique(), 60)
    check(open_store(tmp_path / "store", verify=True), read_bags(path))


def test_default_is_float32_and_sorted_files_are_hashed_on_the_way(tmp_path, monkeypatch):
    frame().sort_values("bag").to_csv(tmp_path / "bags.csv", index=False)
    with monkeypatch.context() as patch:
        patch.setattr("psimil.store.digest.digest_file", None)  # reading again would fail
        import_bags(tmp_path / "bags.csv", tmp_path / "store")
    check(open_store(tmp_path / "store", verify=True), read_bags(tmp_path / "bags.csv"), np.float32)
    assert not list(tmp_path.glob(".psimil*"))


@pytest.mark.usefixtures("small_chunks")
def test_npz_with_offsets_and_chosen_columns(savez, tmp_path):
    path = savez(X=np.arange(12.0).reshape(4, 3), offsets=[0, 1, 4], ids=["b", "a"], y=[1, 0])
    import_bags(path, tmp_path / "store", features=["2", "0"], dtype="float64")
    check(open_store(tmp_path / "store"), read_bags(path, features=["2", "0"]))


@pytest.mark.usefixtures("small_chunks")
def test_other_columns_and_no_labels(tmp_path):
    table = frame().rename(columns={"bag": "scan", "label": "T"})
    table["note"] = [f"note {n}" for n in range(60)]
    table.to_csv(tmp_path / "bags.csv", index=False)
    options = {"bag": "scan", "label": "T"}
    with pytest.warns(DataWarning, match="not used: note"):
        import_bags(tmp_path / "bags.csv", tmp_path / "store", dtype="float64", **options)
    with pytest.warns(DataWarning, match="not used: note"):
        check(open_store(tmp_path / "store"), read_bags(tmp_path / "bags.csv", **options))
    frame()[["bag", "f1"]].to_csv(tmp_path / "bare.csv", index=False)
    import_bags(tmp_path / "bare.csv", tmp_path / "bare", dtype="float64")
    check(open_store(tmp_path / "bare"), read_bags(tmp_path / "bare.csv"))


BAGS = Bags.from_list([[[1.5, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10], [11, 12]]], ids=["b", "a", "scan 3.1"])


@pytest.mark.parametrize("known", [None, [0, 1, 0, -1, -1, 1]])
def test_torchmil(tmp_path, known):
    datasets.write_torchmil(tmp_path / "data", BAGS, [1, 0, 1], known)
    import_bags(tmp_path / "data", tmp_path / "store", dtype="float64")
    bags, y, y_instances = datasets.read_torchmil(tmp_path / "data")
    store = open_store(tmp_path / "store", verify=True)
    np.testing.assert_array_equal(store.X, bags.X)
    assert store.names.tolist() == bags.names.tolist() and store.y.tolist() == y.tolist()
    assert (store.y_instances is None) == (known is None)
    if known:
        assert store.y_instances.tolist() == y_instances.tolist()


def test_h5(tmp_path):
    datasets.write_h5(tmp_path / "slides", BAGS)
    (tmp_path / "labels.csv").write_text("slide_id,label\nscan 3.1,1\na,0\n")
    for labels in (tmp_path / "labels.csv", {"scan 3.1": 1, "a": 0}):
        import_bags(tmp_path / "slides", tmp_path / "store", labels=labels, dtype="float64", overwrite=True)
        store, (bags, y, _) = open_store(tmp_path / "store"), datasets.read_h5(tmp_path / "slides", labels)
        np.testing.assert_array_equal(store.X, bags.X)
        assert store.names.tolist() == bags.names.tolist() == ["scan 3.1", "a"] and store.y.tolist() == y.tolist()
    import_bags(tmp_path / "slides", tmp_path / "all")
    assert open_store(tmp_path / "all").names.tolist() == ["a", "b", "scan 3.1"]
    assert open_store(tmp_path / "all").y is None


CASES = {
    "no bag id": ("bag,f\na,1\nb,2\nc,3\n,4\n", "row 4 has no bag id"),
    "torn": ("bag,label,f\na,1,1\nb,0,2\nb,0,3\na,0,4\n", "bag a has rows labelled 0 and rows labelled 1"),
    "label": ("bag,label,f\na,1,1\nb,2,2\n", "the labels are 1 and 2. Say which is positive: --positive 2"),
    "third label": ("bag,label,f\na,1,1\nb,2,2\nc,0,2\nd,1,1\n", "label of bag c is 0"),
    "known": ("bag,instance_label,f\na,1,1\nb,7,2\n", "an instance label of bag b is 7"),
    "missing value": (
        "bag,f\n7,1\n1,2\n1,3\n7,\n7,nan\n",
        "2 non-finite values, first at bag 7, instance 1, feature 0.",
    ),
    "too large": ("bag,f\na,1\nb,1e300\n", "bag b, instance 0, feature 0 is 1e+300, too large for float32"),
    "no rows": ("bag,f\n", "has no rows"),
    "empty": ("", "cannot be read as CSV"),
    "no column": ("id,f\na,1\n", 'has no column "bag". Columns: id, f.'),
    "twice": ("bag,f,f\na,1,2\n", 'more than one column "f"'),
    "no feature": ("bag,label\na,1\n", "no numeric feature column"),
    "long row": ("bag,f\na,1\nb,1\nc,1\nd,1,2\n", "cannot be read as CSV"),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("case", CASES)
def test_bad_tables_leave_nothing(write, tmp_path, case):
    content, message = CASES[case]
    with pytest.raises(InputError) as caught:
        import_bags(write(content), tmp_path / "store")
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["bags.csv"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((2, 2))}, "either bag_ids or offsets"),
        ({"bag_ids": [1]}, "must hold X"),
        ({"X": np.ones(2), "bag_ids": [1, 1]}, "X has shape (2,)"),
        ({"X": [["a"]], "bag_ids": [1]}, "must hold numbers"),
        ({"X": np.array([[None]]), "bag_ids": [1]}, "must hold numbers"),
        ({"X": [[1.0]], "bag_ids": [1], "y": np.array([None])}, "cannot be read"),
        ({"X": [[1.0]], "bag_ids": [1, 2]}, "bag_ids has shape"),
    ],
)
def test_bad_archives(savez, tmp_path, arrays, message):
    with pytest.raises(InputError) as caught:
        import_bags(savez(**arrays), tmp_path / "store")
    assert message in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_bad_sources(tmp_path, write):
    with pytest.raises(MissingFile):
        import_bags(tmp_path / "none.csv", tmp_path / "store")
    with pytest.raises(InputError, match="unknown kind of table"):
        import_bags(write("x", "bags.xlsx"), tmp_path / "store")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="neither a folder features"):
        import_bags(tmp_path / "folder", tmp_path / "store")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        import_bags(write("x", "bags.parquet"), tmp_path / "store")
    with pytest.raises(InputError, match="not an npz archive"):
        import_bags(write("x", "bags.npz"), tmp_path / "store")


def test_a_table_that_grows_while_it_is_read(tmp_path):
    path = tmp_path / "bags.csv"
    for line in ("a,3\n", "b,3\n"):
        path.write_text("bag,f\na,1\na,2\n")
        table = tabular.Table(lambda: chunks.csv_chunks(path, "bag"), "bags.csv")
        with path.open("a") as stream:
            stream.write(line)
        with pytest.raises(InputError, match="changed while it was read"):
            list(table.rows())
