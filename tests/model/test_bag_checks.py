"""Ids that would merge, and values that are masked, are refused wherever data come in."""

import numpy as np
import pandas as pd
import pytest

from psimil import VGPMIL, read_bags
from psimil.data.tabular import Table
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.labels import values_of_bags
from psimil.results.metrics import bag_metrics
from psimil.store import StoreWriter
from tiny import fitted, problem, quick

X = np.arange(6.0).reshape(3, 2)
HIDDEN = np.ma.array(X, mask=X == 3)


@pytest.mark.parametrize(
    "ids",
    [
        [1, "1", 2],
        (1, "1", "1"),
        [True, 1, 2],
        [b"a", "a", "b"],
        np.array([1, "1", 2], dtype=object),
        pd.Series([1, True, 2], dtype=object),
    ],
)
def test_ids_of_several_kinds_do_not_merge(ids):
    for make in (
        lambda: Bags.from_arrays(X, ids),
        lambda: Bags(X, [0, 1, 2, 3], ids),
        lambda: Bags.from_list([X] * 3, ids),
    ):
        with pytest.raises(InputError, match="mix kinds"):
            make()
    with pytest.raises(InputError, match="mix kinds"):
        VGPMIL().fit(X, [0, 1, 1], bag_ids=ids)


def test_a_column_of_several_kinds_does_not_merge():
    frame = pd.DataFrame({"bag": [1, "1", "2"], "f": [1.0, 2.0, 3.0]})
    for read in (Bags.from_frame, lambda frame: Table(lambda: iter([frame]), "the table")):
        with pytest.raises(InputError, match="mix kinds"):
            read(frame)


@pytest.mark.parametrize("ids", [["a", "a\0", "b"], [2**63, 2**63 + 1, -1], [2**53, 2**53 + 1, 0.5]])
def test_ids_that_an_array_would_change_are_refused(ids):
    with pytest.raises(InputError, match="would become"):
        Bags.from_arrays(X, ids)


@pytest.mark.parametrize(
    "ids", [["a", "b", "a"], [1, 2, 1], [1, 2.5, 1.0], [np.int64(3), 3, 4], np.array(["a", "b", "a"])]
)
def test_ids_of_one_kind_are_taken(ids):
    assert len(Bags.from_arrays(X, ids)) == 2


MASKED = {
    "rows": lambda: Bags.from_arrays(HIDDEN, ["a", "a", "b"]),
    "bags": lambda: Bags(HIDDEN, [0, 3]),
    "list of bags": lambda: Bags.from_list([X, HIDDEN]),
    "rows of a bag": lambda: Bags.from_list([list(HIDDEN)]),
    "offsets": lambda: Bags(X, np.ma.array([0, 1, 3], mask=[0, 1, 0])),
    "ids": lambda: Bags.from_arrays(X, np.ma.array(["a", "a", "b"], mask=[0, 1, 0])),
    "names": lambda: Bags(X, [0, 1, 3], np.ma.array([1, 2], mask=[0, 1])),
    "order": lambda: Bags(X, [0, 3], rows=np.ma.array([0, 1, 2], mask=[1, 0, 0])),
    "links": lambda: Bags(X, [0, 3], links=np.ma.array([1.0, 1.0, 0.0], mask=[1, 0, 0])),
    "positions": lambda: Bags(X, [0, 3]).in_order(np.ma.array([0.0, 1.0, 2.0], mask=[1, 0, 0])),
    "values": lambda: values_of_bags(np.ma.array([0, 1, 1], mask=[0, 0, 1]), Bags(X, [0, 1, 2, 3])),
    "inducing points": lambda: quick(inducing_points=HIDDEN).fit([X, X + 9.0], [0, 1]),
    "metrics": lambda: bag_metrics(np.ma.array([0, 1], mask=[0, 1]), [0.1, 0.9]),
}


@pytest.mark.parametrize("make", MASKED.values(), ids=MASKED)
def test_masked_values_are_refused(make):
    with pytest.raises(InputError, match="masked values"):
        make()


def test_masked_values_are_refused_by_estimators():
    bags, y, known = problem()
    rows, split = np.ma.array(bags.X), bags.split(known)
    rows[4, 1] = np.ma.masked
    hidden = np.ma.array(y, mask=np.arange(len(y)) == 2)
    weights = np.ma.array(np.ones(len(y)), mask=np.arange(len(y)) == 2)
    some = [np.ma.array(part, mask=np.arange(len(part)) == 0) for part in split]
    ids = np.repeat(bags.ids, bags.sizes)
    for fit in (
        lambda: quick().fit(rows, y, bag_ids=ids),
        lambda: quick().fit(bags, hidden),
        lambda: quick().fit(bags, y, sample_weight=weights),
        lambda: quick().fit(bags, y, y_instances=some),
        lambda: quick().fit(bags, y, y_instances=np.ma.array(np.concatenate(split), mask=np.arange(len(bags.X)) == 1)),
        lambda: quick().fit(bags, y, eval_set=(bags, hidden)),
        lambda: fitted().predict_proba(rows, bag_ids=ids),
        lambda: fitted().score(bags, hidden),
        lambda: fitted().partial_fit(bags, hidden),
    ):
        with pytest.raises(InputError, match="masked values"):
            fit()


def test_masked_values_are_refused_by_stores(tmp_path):
    with StoreWriter(tmp_path / "s", 2) as writer:
        for values in ({"X": HIDDEN}, {"X": X, "y_instances": np.ma.array([0, 1, 0], mask=[1, 0, 0])}):
            with pytest.raises(InputError, match="masked values"):
                writer.add(**values)
        with pytest.raises(InputError, match="masked values"):
            writer.add_many(Bags(X, [0, 1, 3]), np.ma.array([0, 1], mask=[1, 0]))
        writer.add(X)


def test_an_array_without_a_masked_value_is_taken():
    assert Bags(np.ma.array(X, mask=False), [0, 3]).X.tolist() == X.tolist()


@pytest.mark.parametrize("end", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("odd", ["a\0", "a\0b"])
def test_an_id_with_a_nul_is_refused_and_never_merged(tmp_path, end, odd):
    table, path = pd.DataFrame({"bag": [odd, "a"], "label": [1, 1], "f": [1.0, 2.0]}), tmp_path / f"bags{end}"
    if end == ".csv":
        table.to_csv(path, index=False)
    elif end == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    else:
        ids = np.array(["a\0b", "a"])  # NumPy itself keeps no NUL at the end
        np.savez(path, X=np.ones((2, 1)), bag_ids=ids, y=np.array([1, 1]))
    with pytest.raises(InputError, match=r"bag id 'a\\x00b?' (holds a line break|would)"):
        read_bags(path)
    with pytest.raises(InputError, match="without NUL characters"):
        Bags.from_list([[[1.0]], [[2.0]]], ids=np.array([odd, "b"], dtype=object))


def test_a_label_with_a_nul_is_refused(tmp_path):
    (tmp_path / "bags.csv").write_text("bag,label,f\na,x\0,0.5\nb,y,1\n")
    with pytest.raises(InputError, match=r"bag a: label 'x\\x00' holds a line break or another control character"):
        read_bags(tmp_path / "bags.csv", positive="x")
