"""Tables in text files: what separates their columns, what marks their decimals, and their header line."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from psimil.foundations.errors import InputError

DELIMITED = tuple(f"{kind}{packed}" for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz"))
EMPTY = ["", "NA", "N/A", "NaN", "nan", "None", "null", "NULL"]
SEPARATORS = (",", ";", "\t")
SAMPLE = 1000  # rows that say whether decimals are written with a comma
COMMA, POINT = (re.compile(rf"\s*[+-]?\d*{mark}\d+([eE][+-]?\d+)?\s*") for mark in (",", r"\."))


def csv_options(path: Path, text: str) -> dict[str, Any]:
    r"""How pandas is to read a table with a header line; column ``text`` is kept as it is written.

    Columns are separated by commas, semicolons or tabs, whichever makes ``text`` a column. Decimals are written with a
    comma when semicolons or tabs separate, and the first rows have decimals with a comma and none with a point.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text("bag;f\n007;1,5\n")
    ...     options = csv_options(path, "bag")
    >>> options["sep"], options["decimal"], options["na_values"].keys()
    (';', ',', dict_keys(['f']))
    """
    separator, header = csv_header(path, text)
    return {
        "sep": separator,
        "decimal": "," if separator != "," and _decimal_commas(path, separator, text) else ".",
        "dtype": {text: str},
        "na_values": {column: EMPTY for column in header if column != text},
        "keep_default_na": False,
        "low_memory": False,
        "index_col": False,
    }


def csv_header(path: Path, text: str) -> tuple[str, list[str]]:
    r"""What separates the columns of a table, and their names, each another one; pandas would take seconds for many.

    A column without a name is called "Unnamed: 0" by its position, as pandas does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text(',bag,"f, g"\n0,007,1.5\n')
    ...     csv_header(path, "bag")
    (',', ['Unnamed: 0', 'bag', 'f, g'])
    """
    headers: dict[str, list[str]] = {}
    for mark in SEPARATORS:
        with suppress(csv.Error):  # all names as one field can be too long
            headers[mark] = next(_rows(path, mark), [])
    fitting = [mark for mark, names in headers.items() if text in names]
    fitting += [mark for mark, names in headers.items() if len(names) > 1]
    separator = fitting[0] if fitting else ","
    header = headers[separator] if separator in headers else next(_rows(path, separator))
    header = [column or f"Unnamed: {position}" for position, column in enumerate(header)]
    known: set[str] = set()
    for column in header:
        if column in known:
            raise InputError(f'{path.name} has more than one column "{" ".join(column.split())}".')
        known.add(column)
    return separator, header


def _rows(path: Path, separator: str) -> Iterator[list[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
        yield from (row for row in csv.reader(lines, delimiter=separator) if row)


def _decimal_commas(path: Path, separator: str, text: str) -> bool:
    """Whether the first rows have decimals with a comma, and none with a point."""
    rows = _rows(path, separator)
    names = [position for position, column in enumerate(next(rows)) if column == text]
    cells = [cell for row in islice(rows, SAMPLE) for n, cell in enumerate(row) if n not in names]
    return any(map(COMMA.fullmatch, cells)) and not any(map(POINT.fullmatch, cells))
