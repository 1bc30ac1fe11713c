"""Cells of tables: no formula, and no two texts become the same."""

import csv

import pandas as pd
import pytest

from psimil.files.csv_table import growing_table, unguarded, write_table
from psimil.foundations.errors import OutputError


def test_no_two_texts_become_the_same_cell(tmp_path):
    texts = ["=x", "'=x", "''=x", "'x", "x", "\rx", "\nx", "'\nx", "-1", "'-1"]
    write_table(pd.DataFrame({"bag": texts, "'=f": range(len(texts)), "=f": 0}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert [unguarded(row[0]) for row in rows] == texts
    assert not any(row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in rows)
    assert header == ["bag", "''=f", "'=f"]


def test_a_table_grows_to_the_bytes_of_one_piece(tmp_path):
    frame = pd.DataFrame({"bag": ["=a", "b,c", "d"], "prob": [0.1, 1e-9, 1.0], "refer": [True, False, True]})
    write_table(frame, tmp_path / "one.csv")
    with growing_table(tmp_path / "many.csv") as add:
        add(frame[:1])
        assert not (tmp_path / "many.csv").exists()
        add(frame[1:])
    assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_a_carriage_return_in_a_later_range_is_read_as_it_was(tmp_path):
    with growing_table(tmp_path / "t.csv") as add:
        for name in ("a", "b\rc", "d"):
            add(pd.DataFrame({"bag": [name], "prob": [0.5]}))
    with (tmp_path / "t.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["bag", "prob"], ["a", "0.5"], ["b\rc", "0.5"], ["d", "0.5"]]


def test_what_fails_between_two_ranges_leaves_the_old_table_and_its_own_words(tmp_path):
    (tmp_path / "t.csv").write_text("old")
    with pytest.raises(FileNotFoundError, match="features") as caught, growing_table(tmp_path / "t.csv") as add:
        add(pd.DataFrame({"bag": ["a"]}))
        raise FileNotFoundError("features of the store are gone")
    assert not isinstance(caught.value, OutputError)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("t.csv", "old")]
