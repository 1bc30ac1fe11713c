"""Which columns of a table are features: at once and chunk by chunk, the same choice and the same words."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import FULL
from psimil.data import chunks
from psimil.data.feature_columns import FeatureColumns
from psimil.foundations.errors import DataWarning, InputError
from psimil.store import import_bags, open_store
from psimil.store.tables import read_bags


@pytest.fixture(params=["at once", "chunks of 2", "chunks of 1000"])
def read(request, monkeypatch, tmp_path):
    """Names of the features and their rows, read in one of three ways."""
    if request.param == "at once":
        return lambda path, **options: _of(read_bags(path, **options))
    monkeypatch.setattr(chunks, "MAX_ROWS", 2 if "2" in request.param else 1000)

    def imported(path, **options):
        import_bags(path, tmp_path / "store", dtype="float64", overwrite=True, **options)
        return _of(open_store(tmp_path / "store").table())

    return imported


def _of(table):
    return list(table.feature_names), np.asarray(table.bags.X).tolist()


def frame(n_bags=10, size=4, seed=0):
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    found = pd.DataFrame(rng.normal(size=(len(bag), 3)), columns=["f1", "f2", "z"])
    found.insert(0, "bag", [f"b{b}" for b in bag])
    found["label"] = bag % 2
    return found


# Choice by name


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["f1", "f2", "z"]),
        ({"drop": ["z"]}, ["f1", "f2"]),
        ({"drop": "f*"}, ["z"]),
        ({"features": ["z", "f*"]}, ["z", "f1", "f2"]),
        ({"features": ["f?"], "drop": ["f2"]}, ["f1"]),
        ({"features": ["f[2-9]"]}, ["f2"]),
        ({"features": ["*"]}, ["f1", "f2", "z"]),
        ({"features": ["f2", "f2", "*2"]}, ["f2"]),
    ],
)
def test_names_and_patterns(write, read, options, expected):
    path = write(frame().to_csv(index=False))
    names, X = read(path, **options)
    assert names == expected
    assert X == frame()[expected].to_numpy().tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["F1"]}, r'bags.csv has no column "F1"\. Did you mean "f1"\?$'),
        ({"features": ["f1", "f7", "g8"]}, r'bags.csv has no column "f7", "g8"\. Columns: bag, f1, f2'),
        ({"drop": ["q*"]}, r'bags.csv has no column "q\*"\. Columns: f1, f2, z\.'),
        ({"drop": ["*"]}, "bags.csv has no numeric feature column"),
        ({"drop": ["label"]}, 'has no column "label"'),
        ({"drop": [""]}, 'has no column ""'),
    ],
)
def test_names_that_fit_nothing(write, read, options, message):
    with pytest.raises(InputError, match=message) as caught:
        read(write(frame().to_csv(index=False)), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"features": ["bag", "f1"]}, {"label": "bag"}, {"instance_label": "bag"}])
def test_ids_of_bags_are_nothing_else(write, read, options):
    """A column of ids as a feature was refused as numbers that are text, or learned by heart."""
    path = write(frame().assign(bag=range(len(frame()))).to_csv(index=False))
    with pytest.raises(InputError, match=r'^bags.csv: column "bag" holds the ids of bags and cannot be anything else'):
        read(path, **options)


def test_a_column_called_label_may_hold_the_ids(write, read):
    path = write(frame().drop(columns="label").rename(columns={"bag": "label"}).to_csv(index=False))
    assert read(path, bag="label")[0] == ["f1", "f2", "z"]


def test_numbers_are_names_like_any_other(write, read):
    table = frame().rename(columns={"f1": "0", "f2": "1", "z": "2"})
    path = write(table[["bag", "2", "0", "1", "label"]].to_csv(index=False))
    assert read(path)[0] == ["2", "0", "1"]
    assert read(path, features=["0", "1", "2"]) == (["0", "1", "2"], table[["0", "1", "2"]].to_numpy().tolist())
    assert read(path, drop=["1"])[0] == ["2", "0"]


def test_a_column_may_look_like_a_pattern(write, read):
    path = write("bag,f[0],f0\na,1.5,2\nb,2.5,3\n")
    assert read(path, features=["f[0]"]) == (["f[0]"], [[1.5], [2.5]])


def test_archives_choose_alike(savez, read):
    path = savez(X=[[1.0, 2.0, 3.0]], bag_ids=["a"], feature_names=["f1", "f2", "z"])
    assert read(path, drop=["f*"]) == (["z"], [[3.0]])
    assert read(path, features=["z", "f1"]) == (["z", "f1"], [[3.0, 1.0]])
    for names, message in ((["f", "f", "z"], 'more than one column "f"'), (["", "f", "z"], "column 1 has no name")):
        with pytest.raises(InputError, match=message):
            read(savez(X=[[1.0, 2.0, 3.0]], bag_ids=["a"], feature_names=names))


def test_a_store_keeps_the_features_it_was_made_with(write, tmp_path):
    import_bags(write(frame().to_csv(index=False)), tmp_path / "store", drop=["z"])
    assert read_bags(tmp_path / "store", features=["f1", "f2"]).feature_names == ("f1", "f2")
    for options in ({"drop": ["f1"]}, {"features": ["f2", "f1"]}):
        with pytest.raises(InputError, match="store is a store, which has its features"):
            read_bags(tmp_path / "store", **options)
    more = frame().rename(columns=str)
    more["bag"] = "x" + more["bag"]
    import_bags(write(more[["z", "f2", "bag", "f1", "label"]].to_csv(index=False)), tmp_path / "store", append=True)
    assert open_store(tmp_path / "store").feature_names == ("f1", "f2")


# Columns without a name


@pytest.mark.parametrize("dropped", ["", "Unnamed: 0", "Unnamed*"])
def test_the_index_of_a_data_frame_is_refused_until_it_is_dropped(write, read, dropped):
    path = write(frame().to_csv())
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        "bags.csv: column 1 has no name; it may be the index that pandas writes. Write the table with index=False, or "
        'leave the column out with --drop "Unnamed: 0" (of psimil fit and data import).'
    )
    assert read(path, drop=[dropped])[0] == ["f1", "f2", "z"]
    assert read(path, features=["f*"])[0] == ["f1", "f2"]
    with pytest.raises(InputError, match="column 1 has no name"):
        read(path, features=["*"])


def test_commas_at_the_end_of_lines_make_no_columns(write, read):
    for rows in ("a,1.5,,\nb,2.5,,\n", "a,1.5\nb,2.5,\n"):
        assert read(write("bag,f,,\n" + rows)) == (["f"], [[1.5], [2.5]])


def test_columns_without_a_name_that_have_values_are_refused(write, read):
    for rows in ("a,1.5,7,\nb,2.5,,\n", "a,1.5,7,\n" + "b,2.5,7,\n" * 3):
        path = write("bag,f,,\n" + rows)
        with pytest.raises(InputError, match="column 3 has no name"):
            read(path)
        assert read(path, drop=[""])[1][:2] == [[1.5], [2.5]]
    rows = "a,1.5,\n" * 4 + "b,2.5,7\n"
    with pytest.raises(InputError, match=r"bags.csv: (a column at the end|column 3) has .*no name"):
        read(write("bag,f,\n" + rows))


# Numbers and text in one column


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "2", "abc", "4"], "holds numbers, but 'abc' in row 3. Correct it, or leave the column out with --drop"),
        (["1.5", "?", "2", "x"], "holds numbers, but '?' in row 2."),
        (["x", "y", "3", "z"], "holds numbers, but 'x' in row 1."),
        (["True", "False", "1", "0"], "holds numbers, but 'True' in row 1."),
        (["1", '"12,3"', "4", "5"], "holds '12,3' in row 2, which is no number here. Write all decimals with a point"),
        (['"1,5"', '"2,5"', '"3,5"', '"4,5"'], "holds '1,5' in row 1, which is no number here."),
        (["1", "2", "3", '"1.234,5"'], "holds '1.234,5' in row 4, which is no number here."),
        (["1", "2", "3", "4\x1b[31m" + "m" * 99], "holds numbers, but '4\\x1b[31mmm"),
    ],
)  # fmt: skip
def test_one_bad_cell_stops_the_reading(write, read, cells, message):
    path = write("bag,g,f\n" + "".join(f"b{n},{cell},{n * n % 7}.5\n" for n, cell in enumerate(cells)))
    with pytest.raises(InputError) as caught:
        read(path)
    assert message in str(caught.value) and str(caught.value).startswith('bags.csv: column "g" ')
    assert len(str(caught.value)) < 200 and str(caught.value).isprintable()
    assert read(path, drop=["g"])[0] == ["f"]


@pytest.mark.parametrize(
    "cells", [["x", "y", "z", "x"], ["2024-01-01"] * 4, ["", "", "x", "y"], ["True", "no", "a", "b"]]
)
def test_columns_of_text_are_left_out_with_a_warning(write, read, cells):
    path = write("bag,g,f\n" + "".join(f"b{n},{cell},{n * n % 7}.5\n" for n, cell in enumerate(cells)))
    with pytest.warns(DataWarning, match=r"^bags.csv: columns that are not numeric are not used: g\.$"):
        assert read(path)[0] == ["f"]
    with pytest.raises(InputError, match='column "g" must hold numbers'):
        read(path, features=["*"])


def test_truths_are_numbers(write, read):
    assert read(write("bag,g\na,True\nb,False\nc,False\nd,True\n")) == (["g"], [[1], [0], [0], [1]])


def test_cells_of_parquet(tmp_path, read):
    from decimal import Decimal

    path = tmp_path / "bags.parquet"
    pd.DataFrame({"bag": ["a", "b"], "g": [Decimal("1.5"), Decimal("2.25")]}).to_parquet(path)
    assert read(path) == (["g"], [[1.5], [2.25]])
    pd.DataFrame({"bag": ["a", "b"], "g": ["1.5", "2.25"]}).to_parquet(path)
    with pytest.raises(InputError, match=r"holds numbers as text, '1\.5' in row 1\. Store them as numbers, or"):
        read(path)
    times = pd.to_datetime(["2024-01-01", "2024-02-01"])
    pd.DataFrame({"bag": ["a", "b"], "g": times, "f": [1.5, 1.0], "h": [[1], [2]]}).to_parquet(path)
    with pytest.warns(DataWarning, match="are not used: g, h"):
        assert read(path)[0] == ["f"]


# Features that are an order


def warned(frame, **options):
    """What is said about the order of columns."""
    found = FeatureColumns(list(frame.columns), "bags.csv", {"bag", "label"}, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bag, half = pd.factorize(frame["bag"])[0], len(frame) // 3
        for rows in (slice(half), slice(half, None)):
            found.look(frame[rows], bag[rows])
        found.names()
    return [str(one.message) for one in caught]


ORDERS = {
    "rows": lambda n, bag: np.arange(n),
    "rows from 1": lambda n, bag: np.arange(1, n + 1),
    "rows backwards": lambda n, bag: -2.5 * np.arange(n),
    "rows of a part": lambda n, bag: np.cumsum(1 + np.arange(n) % 3),
    "bags": lambda n, bag: bag,
    "bags backwards": lambda n, bag: 100.5 - bag,
    "bags by another number": lambda n, bag: (bag * 7) % 10 + 1000,
}


@pytest.mark.parametrize(
    ("kind", "shuffled"), [(kind, False) for kind in ORDERS] + [(kind, True) for kind in ORDERS if "bags" in kind]
)
def test_a_feature_that_is_an_order_is_warned_of(kind, shuffled):
    table = frame()
    bag = table["bag"].str[1:].to_numpy(int)
    table["index"] = ORDERS[kind](len(table), bag)
    if shuffled:  # within bags that still appear in their order
        table = table.iloc[np.argsort(np.tile(np.arange(4), 10), kind="stable")]
    words = "the order of the rows" if "rows" in kind else "the order or the number of the bag"
    assert warned(table) == [
        f'bags.csv: feature "index" is {words}, which says nothing about new bags. Unless it was measured, leave it '
        'out with --drop "index" (of psimil fit and data import).'
    ]
    assert warned(table, drop=["index"]) == []
    assert warned(table, features=["f1", "index"]) == []  # whoever names it wants it


def test_the_readers_warn_alike(write, read):
    table = frame()
    table["index"], table["patient"] = np.arange(40), np.repeat(np.arange(10), 4)
    with pytest.warns(DataWarning) as caught:
        read(write(table.to_csv(index=False)))
    assert [str(one.message).split(", which")[0] for one in caught] == [
        'bags.csv: feature "index" is the order of the rows',
        'bags.csv: feature "patient" is the order or the number of the bag',
    ]


def test_the_readers_of_archives_warn_alike(savez, read):
    table = frame()
    X = np.column_stack([table[["f1", "f2"]], np.arange(40), np.repeat(np.arange(10), 4)])
    path = savez(X=X, bag_ids=table["bag"].to_numpy(str))
    with pytest.warns(DataWarning) as caught:
        assert read(path) == (["0", "1", "2", "3"], X.tolist())
    assert [str(one.message).split(", which")[0] for one in caught] == [
        'bags.npz: feature "2" is the order of the rows',
        'bags.npz: feature "3" is the order or the number of the bag',
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(path, drop=["2", "3"])


@given(n_bags=st.integers(1, 30), size=st.integers(1, 9), seed=st.integers(0, 2**32 - 1), interleaved=st.booleans())
@settings(max_examples=200 if FULL else 50, deadline=None, derandomize=True)
def test_measurements_are_not_warned_of(n_bags, size, seed, interleaved):
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    within = np.tile(np.arange(size), n_bags)
    table = pd.DataFrame(
        {
            "bag": [f"b{b}" for b in bag],
            "label": bag % 2,
            "normal": rng.normal(size=len(bag)),
            "count": rng.integers(0, 10, len(bag)),
            "age": rng.integers(20, 90, n_bags)[bag],
            "voxels": rng.integers(0, 10**6, n_bags)[bag],
            "volume": rng.gamma(2.0, size=n_bags)[bag],
            "constant": 1.0,
            "flag": rng.random(len(bag)) < 0.5,
            "missing": np.nan,
            "slice": within,
            "z": 5.0 * within + rng.normal(size=n_bags)[bag],
        }
    )
    if interleaved:
        table = table.iloc[rng.permutation(len(table))]
    assert warned(table) == []


@pytest.mark.parametrize("n_bags", [1, 2, 3])
def test_small_tables_are_not_warned_of(n_bags):
    table = pd.DataFrame({"bag": [f"b{n}" for n in range(n_bags)], "f": np.arange(n_bags), "g": 5 * np.arange(n_bags)})
    assert warned(table) == []
