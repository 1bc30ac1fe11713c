"""Cells of tables that no reader of files refuses: text that is not UTF-8, ids that break lines."""

import numpy as np
import pandas as pd
import pytest

from psimil.foundations.errors import InputError
from psimil.store import import_bags
from psimil.store.tables import read_bags

pa = pytest.importorskip("pyarrow")


def not_utf8(*values):
    """A column of pyarrow that holds these bytes as text."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(values)))


def read(path, tmp_path, how):
    return read_bags(path) if how == "at once" else import_bags(path, tmp_path / "store")


@pytest.mark.parametrize("how", ["at once", "in chunks"])
@pytest.mark.parametrize(
    ("bag", "label", "message"),
    [
        (not_utf8(b"a", b"b\xff"), pa.array([0, 1]), r'^column "bag" holds text that is not UTF-8\. Write'),
        (
            pa.array(["a", "b"]),
            not_utf8(b"\xff", b"1"),
            r'^column "label" holds text that is not UTF-8\. Write',
        ),
        (pa.array(["a", "b\nc"]), pa.array([0, 1]), r"^bag id 'b\\nc' holds a line break"),
        (pa.array([b"a", b"b"]), pa.array([0, 1]), r'^column "bag" must hold text or numbers; bytes'),
    ],
    ids=["bag not UTF-8", "label not UTF-8", "line break", "bytes"],
)
def test_cells_that_cannot_be_used_are_named(bag, label, message, how, tmp_path):
    from pyarrow.parquet import write_table

    path = tmp_path / "bags.parquet"
    write_table(pa.table({"bag": bag, "label": label, "f": pa.array([0.5, 1.5])}), path)
    with pytest.raises(InputError, match=message):
        read(path, tmp_path, how)


def test_ids_that_are_whole_numbers_stay_so(tmp_path):
    path = tmp_path / "bags.parquet"
    pd.DataFrame({"bag": ["2", "10"], "label": [0, 1], "f": [0.5, 1.5]}).to_parquet(path)
    assert read_bags(path).bags.names.tolist() == [2, 10]
