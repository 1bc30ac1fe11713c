"""Tables in text and parquet files as data frames, a few thousand rows at a time or all at once."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import pandas as pd

from psimil.data.feature_choice import one_line
from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed

DELIMITED = tuple(f"{kind}{packed}" for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz"))
PARQUET = (".parquet", ".pq")
EMPTY = ["", "NA", "N/A", "NaN", "nan", "None", "null", "NULL"]
SEPARATORS = (",", ";", "\t")
SAMPLE = 1000  # rows that say whether decimals are written with a comma
COMMA, POINT = (re.compile(rf"\s*[+-]?\d*{mark}\d+([eE][+-]?\d+)?\s*") for mark in (",", r"\."))
CHUNK_BYTES, MAX_ROWS = 2 << 20, 100_000
BUFFER, AT_ONCE = 1 << 16, 64 << 20  # bytes of a parquet file: read ahead, and of one whose columns are read whole


def chunk_rows(n_columns: int) -> int:
    """Rows that are read at a time.

    Examples
    --------
    >>> chunk_rows(32), chunk_rows(2_000_000)
    (8192, 1)
    """
    return max(1, min(MAX_ROWS, CHUNK_BYTES // (8 * max(1, n_columns))))


def csv_chunks(path: Path, text: str, *, at_once: bool = False) -> Iterator[pd.DataFrame]:
    r"""The rows of a text file with a header line; column ``text`` is kept as it is written.

    Columns are separated by commas, semicolons or tabs, whichever makes ``text`` a column. Decimals are written with a
    comma when semicolons or tabs separate, and the first rows have decimals with a comma and none with a point.

    Parameters
    ----------
    path : plain, or gzipped with the ending ``.gz``.
    text : column of bag ids.
    at_once : give all rows as one chunk.

    Examples
    --------
    >>> path = Path("bags.csv")
    >>> _ = path.write_text("bag;f\n007;1,5\n")
    >>> [chunk.values.tolist() for chunk in csv_chunks(path, "bag")]
    [[['007', 1.5]]]
    """
    with explained(path, "CSV"):
        separator, header = _header(path, text)
        reader = pd.read_csv(
            path,
            sep=separator,
            decimal="," if separator != "," and _decimal_commas(path, separator, text) else ".",
            dtype={text: str},
            na_values={column: EMPTY for column in header if column != text},
            keep_default_na=False,
            low_memory=False,
            index_col=False,
            iterator=True,
            chunksize=None if at_once else chunk_rows(len(header)),
        )
    with reader:
        while True:
            with explained(path, "CSV"), warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
                chunk = next(reader, None)
            if chunk is None:
                return
            yield chunk


def read_csv(path: Path, text: str) -> pd.DataFrame:
    """The only chunk of :func:`csv_chunks` at once."""
    return next(csv_chunks(path, text, at_once=True))


def parquet_chunks(path: Path, *, at_once: bool = False) -> Iterator[pd.DataFrame]:
    """The rows of a parquet file; the first chunk has the columns and no rows.

    Parameters
    ----------
    path : the file.
    at_once : give all rows as one chunk.

    Examples
    --------
    >>> path = Path("bags.parquet")
    >>> pd.DataFrame({"bag": ["a"], "f": [1.5]}).to_parquet(path)
    >>> [chunk.values.tolist() for chunk in parquet_chunks(path)]
    [[], [['a', 1.5]]]
    """
    with needed("reading parquet needs pyarrow", "parquet"):
        import pyarrow.parquet as pq
    with explained(path, "parquet"):
        # A buffer spares memory, but a page that lies about its size gets as much as it asks for.
        buffer_size = BUFFER if path.stat().st_size > AT_ONCE and not at_once else 0
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=buffer_size)
        rows = chunk_rows(len(file.schema_arrow))
        batches = iter([file.read()]) if at_once else file.iter_batches(rows, use_threads=False)
        first = file.schema_arrow.empty_table().to_pandas()
    yield first
    with file:
        while True:
            with explained(path, "parquet"):
                batch = next(batches, None)
                chunk = None if batch is None else batch.to_pandas()
            if chunk is None:
                return
            if not chunk.columns.equals(first.columns):
                raise InputError(f"{path.name} cannot be read as parquet: its rows have other columns than it says.")
            yield chunk


@contextmanager
def explained(path: Path, kind: str) -> Iterator[None]:
    """Refuse the file in one line and without its folder; parsers, codecs and zip fail in many ways on a hostile one.

    Examples
    --------
    >>> with explained(Path("/home/me/bags.parquet"), "parquet"):
    ...     raise OSError("cannot open '/home/me/bags.parquet'.")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bags.parquet cannot be read as parquet: cannot open 'bags.parquet'.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = one_line(str(error).replace(str(path), path.name))
        raise InputError(f"{path.name} cannot be read as {kind}: {reason}.") from error


def _header(path: Path, text: str) -> tuple[str, list[str]]:
    """What separates the columns of a table, and their names, each another one; pandas would take seconds for many.

    A column without a name is called "Unnamed: 0" by its position, as pandas does.
    """
    headers: dict[str, list[str]] = {}
    for mark in SEPARATORS:
        with suppress(csv.Error):  # all names as one field can be too long
            headers[mark] = next(_lines(path, mark), [])
    fitting = [mark for mark, names in headers.items() if text in names]
    fitting += [mark for mark, names in headers.items() if len(names) > 1]
    separator = fitting[0] if fitting else ","
    header = headers[separator] if separator in headers else next(_lines(path, separator))
    header = [column or f"Unnamed: {position}" for position, column in enumerate(header)]
    known: set[str] = set()
    for column in header:
        if column in known:
            raise InputError(f'{path.name} has more than one column "{" ".join(column.split())}".')
        known.add(column)
    return separator, header


def _lines(path: Path, separator: str) -> Iterator[list[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
        yield from (row for row in csv.reader(lines, delimiter=separator) if row)


def _decimal_commas(path: Path, separator: str, text: str) -> bool:
    """Whether the first rows have decimals with a comma, and none with a point."""
    rows = _lines(path, separator)
    names = [position for position, column in enumerate(next(rows)) if column == text]
    cells = [cell for row in islice(rows, SAMPLE) for n, cell in enumerate(row) if n not in names]
    return any(map(COMMA.fullmatch, cells)) and not any(map(POINT.fullmatch, cells))
