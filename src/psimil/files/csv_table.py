"""Tables as CSV, written whole or not at all, and safe in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from psimil.files.atomic import atomic_stream, writing
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError

GUARDED = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # what a spreadsheet calculates, and the guard itself


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    r"""Write a table as CSV, atomically, so that a spreadsheet never takes a text cell for a formula.

    Text cells and column names that begin with ``=``, ``+``, ``-``, ``@``, TAB, a line break or an apostrophe get an
    apostrophe in front, so that no two become the same; numbers are written as they are.

    Parameters
    ----------
    frame : table to write, without its index.
    path : CSV file to create or replace.

    Raises
    ------
    OutputError
        When the file cannot be written; an old file is kept.

    Examples
    --------
    >>> path = Path("bags.csv")
    >>> write_table(pd.DataFrame({"bag": ["=1+1", "b"], "log_odds": [-0.5, 2.0]}), path)
    >>> path.read_text()
    "bag,log_odds\n'=1+1,-0.5\nb,2.0\n"
    """
    path = as_path(path)
    if not hasattr(frame, "isetitem"):
        raise InputError(f"frame must be a pandas DataFrame, got {type(frame).__name__}.")
    with growing_table(path) as add:
        add(frame)


@contextmanager
def growing_table(path: str | Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    r"""A function that adds rows to a table, which is there as a whole at the end, as :func:`write_table` writes it.

    Examples
    --------
    >>> with growing_table(Path("bags.csv")) as add:
    ...     add(pd.DataFrame({"bag": ["a"], "log_odds": [-0.5]}))
    ...     add(pd.DataFrame({"bag": ["b"], "log_odds": [2.0]}))
    >>> Path("bags.csv").read_text()
    'bag,log_odds\na,-0.5\nb,2.0\n'
    """
    with atomic_stream(path) as stream:

        def add(frame: pd.DataFrame) -> None:
            safe = frame.rename(columns=guarded)
            texts = [list(safe.columns)]
            for position, dtype in enumerate(frame.dtypes):
                if dtype.kind not in "biufcmM":
                    texts.append([guarded(cell) for cell in frame.iloc[:, position]])
                    safe.isetitem(position, texts[-1])
            how, header = quoting(chain.from_iterable(texts)), stream.tell() == 0
            with writing(path):
                safe.to_csv(stream, header=header, index=False, lineterminator="\n", encoding="utf-8", quoting=how)

        yield add


def quoting(cells: Iterable[Any]) -> Literal[0, 2]:
    r"""How the csv module is to quote: all texts where one has a carriage return, which it would leave bare.

    Examples
    --------
    >>> quoting(["a", 1.5]) == csv.QUOTE_MINIMAL, quoting(["a\rb"]) == csv.QUOTE_NONNUMERIC
    (True, True)
    """
    return csv.QUOTE_NONNUMERIC if any(isinstance(cell, str) and "\r" in cell for cell in cells) else csv.QUOTE_MINIMAL


def guarded(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; what is no text stays as it is.

    Examples
    --------
    >>> guarded("=1+1"), guarded("'=1+1"), guarded(-1)
    ("'=1+1", "''=1+1", -1)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(GUARDED) else cell


def unguarded(cell: str) -> str:
    """The text that :func:`guarded` has made a cell of.

    Examples
    --------
    >>> unguarded("''=1+1")
    "'=1+1"
    """
    return cell.removeprefix("'")
