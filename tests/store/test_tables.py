import csv
import gzip
import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from psimil.data.bagtable import BagTable
from psimil.data.tabular import Table
from psimil.files.csv_table import write_table
from psimil.foundations.errors import DataWarning, InputError, MissingFile, OutputError
from psimil.store.tables import import_bags, read_bags

CSV = """bag,label,f1,f2,instance_label
b,1,0.5,2,0
a,0,0.1,3,
b,1,0.7,1,1
c,0,-4e-3,0,-1
"""


def check_csv_table(table):
    assert isinstance(table, BagTable)
    assert table.bags.ids.tolist() == ["b", "a", "c"]
    assert table.bags.X.tolist() == [[0.5, 2], [0.7, 1], [0.1, 3], [-4e-3, 0]]
    assert table.bags.sizes.tolist() == [2, 1, 1]
    assert table.y.tolist() == [1, 0, 0]
    assert table.y_instances.tolist() == [0, 1, -1, -1]
    assert table.feature_names == ("f1", "f2")
    assert table.bags.in_input_order(table.y_instances).tolist() == [0, -1, 1, -1]


# Reading


def test_csv(write):
    check_csv_table(read_bags(write(CSV)))
    check_csv_table(read_bags(str(write(gzip.compress(CSV.encode()), "bags.csv.gz"))))
    check_csv_table(read_bags(write("\ufeff" + CSV.replace("\n", "\r\n"), "windows.csv")))


@pytest.mark.parametrize("name", ["bags.parquet", "bags.pq"])
def test_parquet(tmp_path, name):
    pd.read_csv(io.StringIO(CSV)).to_parquet(tmp_path / name)
    check_csv_table(read_bags(tmp_path / name))


def test_parquet_with_nullable_columns(tmp_path):
    frame = pd.read_csv(io.StringIO(CSV)).convert_dtypes()
    frame.to_parquet(tmp_path / "bags.parquet")
    check_csv_table(read_bags(tmp_path / "bags.parquet"))


def test_npz_with_ids(savez):
    X = [[0.5, 2], [0.1, 3], [0.7, 1], [-4e-3, 0]]
    rest = {"bag_ids": ["b", "a", "b", "c"], "y_instances": [0, -1, 1, -1], "feature_names": ["f1", "f2"]}
    check_csv_table(read_bags(savez(X=X, y=[1, 0, 1, 0], **rest)))  # per row
    check_csv_table(read_bags(savez(X=X, y=[0, 1, 0], ids=["c", "b", "a"], **rest)))  # per bag, by its id
    with pytest.raises(InputError, match="has one label per bag and does not say which"):
        read_bags(savez(X=X, y=[0, 1, 0], **rest))
    ascending = savez(X=X, bag_ids=["a", "b", "b", "c"], y=[0, 1, 0])
    assert read_bags(ascending).y.tolist() == [0, 1, 0]


def test_positions_are_a_column_of_a_table(savez, tmp_path):
    """Rows are put in order by a column that is no feature, with their labels; an archive has no columns."""
    path = tmp_path / "bags.csv"
    path.write_text("bag,label,instance_label,f,mm\nb,1,1,0.5,20\na,0,0,0.1,1\nb,1,0,0.7,5\nb,1,0,0.6,10\n")
    table = read_bags(path, position="mm")
    assert table.bags.X.ravel().tolist() == [0.7, 0.6, 0.5, 0.1] and table.feature_names == ("f",)
    assert table.positions.tolist() == [5, 10, 20, 1] and table.y_instances.tolist() == [0, 0, 1, 0]
    assert table.bags.links.tolist() == [1, 1, 0, 0] and read_bags(path, drop="mm").positions is None
    archive = savez(X=np.ones((2, 1)), bag_ids=[1, 2])
    with pytest.raises(InputError, match="Give positions in a"):
        read_bags(archive, position="mm")


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e19"])
def test_numbers_that_are_no_positions_are_refused_with_their_row(write, value):
    path = write(f"bag,label,f,mm\nb,1,0.5,20\na,0,0.1,1\nb,1,0.7,{value}\n")
    shown = re.escape(f"{float(value):g}")
    with pytest.raises(InputError, match=rf'column "mm" holds {shown} in row 3, which is no position\. Mend it'):
        read_bags(path, position="mm")


def test_positions_that_order_nothing_are_refused(write):
    path = write("bag,label,f,mm\nb,1,0.5,20\na,0,0.1,1\nb,1,0.7,20\n")
    with pytest.raises(InputError, match=r"each bag has one position throughout, which orders nothing\. Name another"):
        read_bags(path, position="mm")
    path = write("bag,label,f,mm\nb,1,0.5,20\na,0,0.1,1\nc,1,0.7,20\n")  # bags of one instance need no order
    assert read_bags(path, position="mm").positions.tolist() == [20, 1, 20]


def test_npz_with_offsets(savez):
    path = savez(X=np.arange(6.0).reshape(3, 2), offsets=[0, 1, 3], ids=["z", "a"], y=[1, 0], extra=[1])
    table = read_bags(path)
    assert table.bags.ids.tolist() == ["z", "a"]
    assert table.bags["a"].tolist() == [[2, 3], [4, 5]]
    assert table.y.tolist() == [1, 0]
    assert table.y_instances is None
    assert table.feature_names == ("0", "1")
    assert read_bags(path, features=["1"]).bags.X.tolist() == [[1], [3], [5]]


def test_named_columns(write):
    path = write("scan,target,a,b,slice\n1,0,1,2,0\n2,1,3,4,1\n")
    table = read_bags(path, bag="scan", label="target", instance_label="slice", features=["b", "a"])
    assert table.feature_names == ("b", "a")
    assert table.bags.X.tolist() == [[2, 1], [4, 3]]
    assert table.y_instances.tolist() == [0, 1]


def test_labels_are_optional(write):
    table = read_bags(write("bag,f\n1,0.5\n"))
    assert table.y is None
    assert table.y_instances is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["10", "9", "2"], [10, 9, 2]),
        (["007", "7", "07"], ["007", "7", "07"]),
        (["NA", "null", "None"], ["NA", "null", "None"]),
        (["1.0", "1", "2"], ["1.0", "1", "2"]),
        (["9223372036854775808", "1", "2"], ["9223372036854775808", "1", "2"]),
    ],
)
def test_bag_ids_are_kept_as_written(write, written, expected):
    path = write("bag,f\n" + "".join(f"{name},1.5\n" for name in written))
    assert read_bags(path).bags.ids.tolist() == expected


def test_true_and_false_are_labels(write):
    assert read_bags(write("bag,label,f\n1,True,2\n2,False,3\n")).y.tolist() == [1, 0]


def test_text_columns_are_left_out_with_a_warning(write):
    path = write("bag,name,f\n1,x,2\n2,y,3\n")
    with pytest.warns(DataWarning, match=r"bags.csv: columns that are not numeric are not used: name\."):
        assert read_bags(path).feature_names == ("f",)


# Refusing


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read as CSV: it is empty. Give it a header and rows."),
        ("bag,f\n", "has no rows: 0 bags. Give at least 1 bag"),
        ("id,f\n1,2\n", 'bags.csv has no column "bag". Columns: id, f'),
        ("bag,label\n1,0\n", "no numeric feature column"),
        ("bag,f\n1,2\n,3\n", 'row 2 has no bag id .column "bag".'),
        ('bag,f\n"x\ny",3\n', r"bag id 'x\\ny' holds a line break"),
        ("bag,f\n1,2\n7,\n", "1 non-finite values, first at bag 7, instance 0, feature 0"),
        ("bag,f\n1,2\n7,inf\n", "1 non-finite values, first at bag 7"),
        ("bag,f,g\n1,2\n7,3,4\n", "1 non-finite values, first at bag 1, instance 0, feature 1"),
        ("bag,label,f\n3,2,1\n", "all labels are 2; a fit needs bags of two classes"),
        ("bag,label,f\n3,0.5,1\n4,0,1\n5,1,1\n", "label of bag 5 is 1.0, after 0.5 and 0.0; labels must be of two"),
        ("bag,label,f\n3,,1\n", "label of bag 3 is nan; give every bag one of two labels"),
        ("bag,label,f\n3,yes,1\n", "all labels are 'yes'; a fit needs bags of two classes"),
        ("bag,label,f\n3,tumor,1\n4,normal,1\n", "Say which is positive: --positive tumor"),
        ("bag,label,f\n3,1,1\n4,2,1\n", "the labels are 1 and 2. Say which is positive: --positive 2"),
        ("bag,label,f\n3,0,1\n4,1,1\n3,1,1\n", "bag 3 has rows labelled 0 and rows labelled 1"),
        ("bag,instance_label,f\n3,2,1\n", "instance label of bag 3 is 2; instance labels must be 0, 1 or -1"),
        ("bag,f,f\n1,2,3\n", 'more than one column "f"'),
        ("bag,f\n1,2,3\n4,5,6\n", "cannot be read as CSV"),
        ("bag,f\n1,2\n4,5,6\n", "cannot be read as CSV"),
        (b"bag,f\n\xff\xfe,2\n", "cannot be read as CSV"),
        (b"\0" * 100, "bags.csv"),
    ],
)
def test_csv_that_breaks_a_rule(write, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_bags(write(content))
    assert "\n" not in str(caught.value)


def test_features_and_columns_asked_for_must_exist_and_be_numbers(write):
    path = write("bag,name,f\n1,x,2\n")
    for option in ({"label": "g"}, {"instance_label": "g"}, {"features": ["g"]}, {"bag": "g"}):
        with pytest.raises(InputError, match='has no column "g"'):
            read_bags(path, **option)
    with pytest.raises(InputError, match="column \"name\" must hold numbers, got 'x'"):
        read_bags(path, features=["name"])


def test_no_such_file_directory_unknown_kind(write, tmp_path):
    with pytest.raises(MissingFile, match=r"none.csv was not found. Check the path\."):
        read_bags(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_bags(tmp_path)
    with pytest.raises(InputError, match=r"bags.xlsx: unknown kind of table"):
        read_bags(write("x", "bags.xlsx"))


def test_options_that_would_have_no_effect_are_refused(write, tmp_path):
    """A store has its ids and labels, a folder of torchmil has folders for columns, and a table no labels of slides."""
    path = write("bag,label,size\na,1,0.5\nb,0,0.25\n")
    store, folder = tmp_path / "store", tmp_path / "folder"
    import_bags(path, store)
    (folder / "features").mkdir(parents=True)
    (folder / "labels").mkdir()
    for name, y in (("a", 1), ("b", 0)):
        np.save(folder / "features" / f"{name}.npy", np.ones((2, 3)))
        np.save(folder / "labels" / f"{name}.npy", np.array(y))
    with pytest.raises(InputError, match="store is a store whose positive class is 1, not 'x'"):
        read_bags(store, positive="x")
    assert read_bags(store, positive="1").y.tolist() == [1, 0]
    for option in ({"bag": "x"}, {"label": "x"}, {"instance_label": "x"}, {"positive": "x"}):
        if "positive" not in option:
            with pytest.raises(InputError, match=f"{next(iter(option))}='x' would have no effect"):
                read_bags(store, **option)
        refused = f"{next(iter(option))}='x' would have no effect"
        with pytest.raises(InputError, match="has no folder x" if "label" in refused else refused):
            import_bags(folder, tmp_path / "other", **option)
    with pytest.raises(InputError, match="It has one set, without a name"):
        import_bags(folder, tmp_path / "other", features=["f"])
    for option in ({"drop": ["f"]}, {"labels": {"a": 1}}):
        with pytest.raises(InputError, match="would have no effect"):
            import_bags(folder, tmp_path / "other", **option)
    with pytest.raises(InputError, match="would have no effect"):
        import_bags(path, tmp_path / "other", labels={"a": 1})
    assert not (tmp_path / "other").exists()
    assert import_bags(folder, tmp_path / "other").bags == 2


def test_damaged_parquet(write):
    with pytest.raises(InputError, match=r"bags.parquet cannot be read as parquet"):
        read_bags(write("PAR1 nonsense PAR1", "bags.parquet"))


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    pd.DataFrame({"bag": [1], "f": [2.0]}).to_parquet(tmp_path / "bags.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow.*pip install .*\[parquet\]"):
        read_bags(tmp_path / "bags.parquet")


def test_repeated_columns_in_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table([pa.array([1]), pa.array([2.0]), pa.array([3.0])], names=["bag", "f", "f"])
    pa.parquet.write_table(table, tmp_path / "bags.parquet")
    with pytest.raises(InputError):
        read_bags(tmp_path / "bags.parquet")


def test_repeated_columns_in_a_frame():
    frame = pd.DataFrame([[1, 2.0, 3.0]], columns=["bag", "f", "f"])
    with pytest.raises(InputError, match='the table has more than one column "f"'):
        Table(lambda: iter([frame]), "the table")


# Writing


def test_written_tables_are_safe_for_spreadsheets(tmp_path):
    payloads = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "plain", "a=b", "", 'é,"\n']
    frame = pd.DataFrame({"bag": payloads, "=name": range(9), "log_odds": np.linspace(-1, 1, 9)})
    path = tmp_path / "bags.csv"
    write_table(frame, path)
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["bag", "'=name", "log_odds"]
    assert [row[0] for row in rows] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", *payloads[5:]]
    assert [float(row[2]) for row in rows] == frame["log_odds"].tolist()  # bitwise, sign kept
    assert frame["bag"].tolist() == payloads  # the caller's table is untouched


def test_object_and_category_columns_are_guarded_and_numbers_in_them_kept(tmp_path):
    frame = pd.DataFrame({"a": pd.Series(["=x", -1.5, None], dtype=object), "b": pd.Categorical(["-y", "z", "z"])})
    write_table(frame, tmp_path / "bags.csv")
    assert (tmp_path / "bags.csv").read_text() == "a,b\n'=x,'-y\n-1.5,z\n,z\n"


def test_written_table_is_read_back(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"bag": ["x", "y", "x"], "label": [1, 0, 1], "f": rng.standard_normal(3)})
    write_table(frame, tmp_path / "bags.csv")
    table = read_bags(tmp_path / "bags.csv")
    assert table.bags.in_input_order(table.bags.X)[:, 0].tolist() == frame["f"].tolist()


def test_write_failure_keeps_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "results.csv"
    path.write_text("old")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError) as caught:
        write_table(pd.DataFrame({"a": [1]}), path)
    assert str(caught.value) == "cannot write results.csv: no space left (old file kept)."
    assert path.read_text() == "old"


def test_messages_never_show_the_folder(tmp_path):
    private = tmp_path / "patient-name"
    with pytest.raises(MissingFile) as caught:
        read_bags(Path(private) / "bags.csv")
    assert "patient-name" not in str(caught.value)
