"""Tables as CSV, written whole or not at all, and safe in a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FORMULA_STARTS = ("=", "+", "-", "@", "\t")


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    r"""Write a table as CSV, atomically, so that a spreadsheet never takes a text cell for a formula.

    Text cells and column names that begin with ``=``, ``+``, ``-``, ``@`` or TAB get an apostrophe in front;
    numbers are written as they are.

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
    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     write_table(pd.DataFrame({"bag": ["=1+1", "b"], "log_odds": [-0.5, 2.0]}), path)
    ...     path.read_text()
    "bag,log_odds\n'=1+1,-0.5\nb,2.0\n"
    """
    path = as_path(path)
    if not hasattr(frame, "isetitem"):
        raise InputError(f"frame must be a pandas DataFrame, got {type(frame).__name__}.")
    safe = frame.rename(columns=_guarded)
    for position, dtype in enumerate(frame.dtypes):
        if dtype.kind not in "biufcmM":
            safe.isetitem(position, [_guarded(cell) for cell in frame.iloc[:, position]])
    atomic_write(path, lambda stream: safe.to_csv(stream, index=False, lineterminator="\n", encoding="utf-8"))


def _guarded(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell
