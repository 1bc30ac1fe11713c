"""Cells of tables: no formula, and no two texts become the same."""

import csv

import pandas as pd

from psimil.files.csv_table import unguarded, write_table


def test_no_two_texts_become_the_same_cell(tmp_path):
    texts = ["=x", "'=x", "''=x", "'x", "x", "\rx", "\nx", "'\nx", "-1", "'-1"]
    write_table(pd.DataFrame({"bag": texts, "'=f": range(len(texts)), "=f": 0}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert [unguarded(row[0]) for row in rows] == texts
    assert not any(row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in rows)
    assert header == ["bag", "''=f", "'=f"]
