"""Corners of imports: what is told on the way, archives by rows and columns, tables that change or mix numbers."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from psimil import Bags, datasets
from psimil.data import archives, chunks
from psimil.data.archives import ArchivedRows
from psimil.data.bagtable import TableOptions
from psimil.data.tabular import Table
from psimil.foundations.errors import InputError
from psimil.store import import_bags


class Told:
    """A progress that writes down what it is told."""

    def __init__(self):
        self.total, self.notes = None, []

    def __call__(self, total):
        self.total = total
        return self

    def __enter__(self):
        return self.notes.append

    def __exit__(self, *_):
        pass


def test_the_import_of_a_folder_tells_the_name_of_every_bag(tmp_path):
    bags = Bags.from_list([[[1.0]], [[2.0]], [[3.0]]], ids=["a", "b", "c"])
    datasets.write_torchmil(tmp_path / "data", bags, [1, 0, 1])
    told = Told()
    import_bags(tmp_path / "data", tmp_path / "store", progress=told)
    assert (told.total, told.notes) == (3, ["a", "b", "c"])


def test_the_import_of_a_table_tells_how_many_instances_are_done(tmp_path):
    np.savez(tmp_path / "bags.npz", X=np.ones((5, 1)), bag_ids=[0, 0, 1, 1, 1])
    told = Told()
    import_bags(tmp_path / "bags.npz", tmp_path / "store", progress=told)
    assert (told.total, told.notes) == (1, ["5 instances"])


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_the_steps_of_an_import_are_its_chunks(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(chunks, "MAX_ROWS", 2)
    path, told = tmp_path / f"bags.{kind}", Told()
    table = pd.DataFrame({"bag": ["a", "a", "b", "b", "b"], "f": np.arange(5.0)})
    if kind == "npz":
        np.savez(path, X=table[["f"]], bag_ids=table["bag"].to_numpy(str))
    else:
        table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    import_bags(path, tmp_path / "store", progress=told)
    assert (told.total, told.notes) == (3, ["2 instances", "4 instances", "5 instances"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_rows_of_an_archive_come_as_they_were_saved_by_rows_or_by_columns(tmp_path, monkeypatch, save, order, dtype):
    X = np.arange(12).reshape(4, 3).astype(dtype, order=order)
    save(tmp_path / "bags.npz", X=X)
    [whole] = ArchivedRows(tmp_path / "bags.npz").chunks()
    monkeypatch.setattr(chunks, "MAX_ROWS", 3)
    first, second = ArchivedRows(tmp_path / "bags.npz").chunks()
    np.testing.assert_array_equal(whole, X)
    np.testing.assert_array_equal(first, X[:3])
    np.testing.assert_array_equal(second, X[3:])


def test_a_row_that_lost_its_id_since_the_first_reading_is_numbered_from_one():
    readings = iter([["a", "b", "b"], ["a", "b", None]])

    def read():
        ids = next(readings)
        for rows in (ids[:2], ids[2:]):
            yield pd.DataFrame({"bag": pd.Series(rows, dtype=object), "f": np.ones(len(rows))})

    table = Table(read, "bags.csv")
    with pytest.raises(InputError, match="row 3 has no bag id"):
        list(table.rows())


def test_a_column_may_hold_every_kind_of_number():
    kinds = [np.array([-1]), np.array([2], np.uint64), np.array([0.5])]
    table = Table(lambda: (pd.DataFrame({"bag": ["a"], "f": column}) for column in kinds), "bags.csv")
    assert table.feature_names == ("f",)
    assert [rows.X.tolist() for rows in table.rows()] == [[[-1.0]], [[2.0]], [[0.5]]]


def test_an_archive_may_hold_as_much_beside_its_matrix_as_the_limit_says(tmp_path, monkeypatch):
    path = tmp_path / "bags.npz"
    np.savez(path, X=np.ones((3, 1)), bag_ids=[1, 1, 2])
    with zipfile.ZipFile(path) as members:
        beside = members.getinfo("bag_ids.npy").file_size
    monkeypatch.setattr(archives, "MAX_BYTES", beside)
    assert archives.Archive(path).ids.tolist() == [1, 2]
    monkeypatch.setattr(archives, "MAX_BYTES", beside - 1)
    with pytest.raises(InputError, match="content beside X is above the limit"):
        archives.Archive(path)


@pytest.mark.parametrize("names", [None, ["a", "b"]])
@pytest.mark.parametrize("chosen", [None, ["1"], ["b", "a"]])
def test_features_of_an_archive_have_names_where_names_are_given_or_chosen(tmp_path, names, chosen):
    path = tmp_path / "bags.npz"
    arrays = {} if names is None else {"feature_names": names}
    np.savez(path, X=np.array([[1.0, 2.0]]), bag_ids=["x"], **arrays)
    if chosen is not None and not set(chosen) <= set(names or ["0", "1"]):
        with pytest.raises(InputError, match="has no column"):
            archives.Archive(path, TableOptions(features=chosen))
        return
    expected = names if chosen is None else chosen
    assert archives.Archive(path, TableOptions(features=chosen)).feature_names == (
        None if expected is None else tuple(expected)
    )


def test_a_bag_may_have_a_name_that_means_missing_elsewhere(tmp_path):
    path = tmp_path / "bags.csv"
    path.write_text("bag,f\nNA,1.5\nnan,\nnull,NA\n")
    [chunk] = chunks.csv_chunks(path, "bag")
    assert chunk["bag"].tolist() == ["NA", "nan", "null"]
    np.testing.assert_array_equal(chunk["f"], [1.5, np.nan, np.nan])
