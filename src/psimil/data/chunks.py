"""Tables in text and parquet files as data frames, a few thousand rows at a time or all at once."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd

from psimil.data.feature_choice import one_line
from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed

DELIMITED = tuple(f"{kind}{packed}" for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz"))
PARQUET = (".parquet", ".pq")
EMPTY = ["", "NA", "N/A", "NaN", "nan", "None", "null", "NULL"]
SEPARATORS = (",", ";", "\t")
TELLS_SEPARATOR = re.compile(r'"?sep=([,;|\t])"?\s*')  # a first line that Excel reads and writes
COMMENT = 'line {} begins with "#" and is no row. Comments are not read; remove it'
LONGER = "line {} has {} cells, the header has {}. Quote cells that hold the separator, such as decimals with a comma"
LONGER_BY_NOTHING = "line {} ends with a separator, the header does not. Remove it there and below, or add it above"
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
    with explained_text(path):
        layout = _layout(path, text)
    separator, header, skipped = layout
    with explained_text(path, layout):
        reader = pd.read_csv(
            path,
            sep=separator,
            skiprows=skipped,
            decimal="," if separator != "," and _decimal_commas(path, layout, text) else ".",
            dtype={text: str},
            na_values={column: EMPTY for column in header if column != text},
            keep_default_na=False,
            low_memory=False,
            index_col=False,
            iterator=True,
            chunksize=None if at_once else chunk_rows(len(header)),
        )
    ends: list[str] | None = None  # columns without name and values, of separators at the end of every line
    with reader:
        while True:
            with explained_text(path, layout), warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
                chunk = next(reader, None)
            if chunk is None:
                return
            _refuse_comments(chunk, path, layout, text)
            if ends is None:
                ends = [column for column in _nameless_end(header) if chunk[column].isna().all()]
            if not chunk[ends].isna().all(axis=None):
                raise InputError(f"{path.name}: a column at the end has values and no name. Name it or remove it.")
            yield chunk.drop(columns=ends) if ends else chunk


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


def not_utf8(lines: Iterable[bytes]) -> str:
    r"""Which of the lines of a file is not UTF-8, and what to do.

    Examples
    --------
    >>> not_utf8([b"bag,f\n", "M\xfcller,1\n".encode("latin-1")])
    'line 2 is not UTF-8. Save the file as UTF-8, in Excel as "CSV UTF-8"'
    """
    number = next(number for number, line in enumerate(lines, start=1) if not _is_utf8(line))
    return f'line {number} is not UTF-8. Save the file as UTF-8, in Excel as "CSV UTF-8"'


def _not_utf8(path: Path) -> str:
    with _opener(path)(path, "rb") as lines:
        return not_utf8(lines)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Layout(NamedTuple):
    """How a table is written: what separates its columns, their names, and how many lines come before these."""

    separator: str
    header: list[str]
    skipped: int


@contextmanager
def explained_text(path: Path, layout: Layout | None = None) -> Iterator[None]:
    """As :func:`explained` of a table in text: name the line that is not UTF-8, or does not fit the layout."""
    with explained(path, "CSV"):
        try:
            yield
        except UnicodeDecodeError as error:
            raise ValueError(_not_utf8(path)) from error
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            misfit = "" if layout is None else _misfit(path, layout, open_quote="EOF inside string" in str(error))
            raise ValueError(misfit or str(error)) from error


def _layout(path: Path, text: str) -> Layout:
    """The layout of a table, whose columns have different names; pandas would take seconds for many.

    A column without a name is called "Unnamed: 0" by its position, as pandas does.
    """
    with _opened(path) as lines:
        told = TELLS_SEPARATOR.fullmatch(next(lines, ""))
    skipped, marks = (0, SEPARATORS) if told is None else (1, (told[1],))
    headers: dict[str, list[str]] = {}
    for mark in marks:
        with suppress(csv.Error):  # all names as one field can be too long
            headers[mark] = next(_rows(path, mark, skipped), (0, []))[1]
    fitting = [mark for mark, names in headers.items() if text in names]
    fitting += [mark for mark, names in headers.items() if len(names) > 1]
    separator = fitting[0] if fitting else marks[0]
    line, header = next(_rows(path, separator, skipped), (0, []))
    if not header:
        raise InputError(f"{path.name} cannot be read as CSV: it is empty. Give it a header and rows.")
    if header[0].startswith("#") and text not in header:
        raise InputError(f"{path.name} cannot be read as CSV: {COMMENT.format(line)}.")
    header = [column or f"Unnamed: {position}" for position, column in enumerate(header)]
    known: set[str] = set()
    for column in header:
        if column in known:
            raise InputError(f'{path.name} has more than one column "{" ".join(column.split())}".')
        known.add(column)
    return Layout(separator, header, skipped)


def _opener(path: Path) -> Any:
    return gzip.open if path.suffix == ".gz" else open


def _opened(path: Path) -> TextIO:
    lines: TextIO = _opener(path)(path, "rt", encoding="utf-8-sig", newline="")
    return lines


def _rows(path: Path, separator: str, skipped: int) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, each with the number of its last line."""
    with _opened(path) as lines:
        rows = csv.reader(islice(lines, skipped, None), delimiter=separator)
        yield from ((skipped + rows.line_num, row) for row in rows if row)


def _decimal_commas(path: Path, layout: Layout, text: str) -> bool:
    """Whether the first rows have decimals with a comma, and none with a point."""
    names = [position for position, column in enumerate(layout.header) if column == text]
    rows = islice(_rows(path, layout.separator, layout.skipped), 1, SAMPLE + 1)
    cells = [cell for _, row in rows for n, cell in enumerate(row) if n not in names]
    return any(map(COMMA.fullmatch, cells)) and not any(map(POINT.fullmatch, cells))


def _nameless_end(header: list[str]) -> list[str]:
    """The columns at the end of a header that have no name."""
    names = list(takewhile(lambda name: name.startswith("Unnamed: "), reversed(header)))
    return names[::-1]


def _refuse_comments(chunk: pd.DataFrame, path: Path, layout: Layout, text: str) -> None:
    """Refuse lines that begin with # and are no rows, for they have fewer cells."""
    if text in chunk and chunk.loc[chunk.iloc[:, -1].isna(), text].str.startswith("#").any():
        misfit = _misfit(path, layout)
        if misfit:
            raise InputError(f"{path.name} cannot be read as CSV: {misfit}.")


def _misfit(path: Path, layout: Layout, *, open_quote: bool = False) -> str:
    """The first line that does not fit the header, and what to do; empty when all do."""
    n, begins, ends = len(layout.header), 0, 0
    try:
        for line, row in _rows(path, layout.separator, layout.skipped):
            if row[0].startswith("#") and len(row) != n:
                return COMMENT.format(line)
            if len(row) > n:
                return LONGER.format(line, len(row), n) if any(row[n:]) else LONGER_BY_NOTHING.format(line)
            begins, ends = ends + 1, line
    except csv.Error:  # the rest of the file as one cell is too long
        begins = ends + 1
    except UnicodeDecodeError:
        return _not_utf8(path)
    return f"the quotation mark in line {begins} is not closed. Close or remove it" if open_quote else ""
