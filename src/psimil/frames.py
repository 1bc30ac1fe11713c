"""Bags in a data frame read from CSV or parquet: one row per instance, one column per feature."""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.bagtable import BagTable, bag_labels, instance_labels
from psimil.columns import INSTANCE_LABEL, LABEL, NUMERIC, as_numbers, ids_as_text, whole_numbers
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.bags import Bags

if TYPE_CHECKING:
    import pandas as pd

EMPTY = ["", "NA", "N/A", "NaN", "nan", "None", "null", "NULL"]

Array = NDArray[Any]


def read_csv(path: Path, text: str = "bag") -> pd.DataFrame:
    r"""The table in a CSV file with a header line; column ``text`` is kept as it is written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text("bag,f\n007,1.5\n")
    ...     read_csv(path).values.tolist()
    [['007', 1.5]]
    """
    import pandas as pd

    try:
        header = csv_header(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            empty = {column: EMPTY for column in header if column != text}
            options = {"dtype": {text: str}, "na_values": empty, "keep_default_na": False, "low_memory": False}
            return pd.read_csv(path, index_col=False, **options)
    except InputError:
        raise
    except Exception as error:  # parser, codec and gzip fail in many ways on a damaged or hostile file
        raise InputError(f"{path.name} cannot be read as CSV: {reason(error, path)}.") from error


def csv_header(path: Path) -> list[str]:
    r"""Names of the columns of a CSV file, each another one; pandas would take seconds for very many.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text('bag,"f, g"\n007,1.5\n')
    ...     csv_header(path)
    ['bag', 'f, g']
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
        header = next((row for row in csv.reader(lines) if row), [])
    known: set[str] = set()
    for column in header:
        if column in known:
            raise InputError(f'{path.name} has more than one column "{column}".')
        known.add(column)
    return header


def read_parquet(path: Path) -> pd.DataFrame:
    """The table in a parquet file.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.parquet"
    ...     pd.DataFrame({"bag": ["a"], "f": [1.5]}).to_parquet(path)
    ...     read_parquet(path).values.tolist()
    [['a', 1.5]]
    """
    import pandas as pd

    try:
        return pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        from psimil.foundations.extras import install_command

        raise InputError(f"reading parquet needs pyarrow. Install it with: {install_command('parquet')}") from error
    except Exception as error:  # pyarrow has its own family of errors
        raise InputError(f"{path.name} cannot be read as parquet: {reason(error, path)}.") from error


def table_from_frame(
    frame: pd.DataFrame,
    name: str = "the table",
    bag: str = "bag",
    label: str | None = None,
    instance_label: str | None = None,
    features: Sequence[str] | None = None,
) -> BagTable:
    """The bags in a data frame; the arguments are those of :func:`psimil.tables.read_bags`.

    Examples
    --------
    >>> import pandas as pd
    >>> table = table_from_frame(pd.DataFrame({"bag": [2, 1], "label": [1, 0], "f": [0.5, 0.25]}))
    >>> table.bags.X.tolist(), table.y.tolist()
    ([[0.25], [0.5]], [0, 1])
    """
    for column in (bag, label, instance_label, *(features or ())):
        if column is not None and column not in frame.columns:
            raise InputError(
                f'{name} has no column "{column}". Columns: {_one_line(", ".join(map(str, frame.columns)))}.'
            )
    if not frame.columns.is_unique:
        raise InputError(f'{name} has more than one column "{frame.columns[frame.columns.duplicated()][0]}".')
    if len(frame) == 0:
        raise InputError(f"{name} has no rows: 0 bags. Give at least 1 bag.")
    label = label or (LABEL if LABEL in frame.columns else None)
    instance_label = instance_label or (INSTANCE_LABEL if INSTANCE_LABEL in frame.columns else None)
    chosen = _feature_columns(frame, name, features, {bag, label, instance_label})
    X = np.column_stack([as_numbers(frame[column], column) for column in chosen])
    bags = Bags.from_arrays(X, whole_numbers(ids_as_text(frame[bag], bag)))
    return BagTable(
        bags,
        None if label is None else bag_labels(bags, as_numbers(frame[label], label)),
        None if instance_label is None else instance_labels(bags, as_numbers(frame[instance_label], instance_label)),
        tuple(map(str, chosen)),
    )


def _feature_columns(
    frame: pd.DataFrame, name: str, features: Sequence[str] | None, others: set[str | None]
) -> list[str]:
    if features is not None:
        return list(features)
    candidates = [column for column in frame.columns if column not in others]
    numeric = [column for column in candidates if frame[column].dtype.kind in NUMERIC]
    if not numeric:
        raise InputError(f"{name} has no numeric feature column beside the bag and label columns.")
    if len(numeric) < len(candidates):
        skipped = ", ".join(str(column) for column in candidates if column not in numeric)
        warnings.warn(f"{name}: columns that are not numeric are not used: {skipped}.", DataWarning, stacklevel=4)
    return numeric


def reason(error: Exception, path: Path) -> str:
    """What a reader says about a file, in one line and without its folder.

    Examples
    --------
    >>> reason(OSError("cannot open '/home/me/bags.parquet'."), Path("/home/me/bags.parquet"))
    "cannot open 'bags.parquet'"
    """
    return _one_line(str(error).replace(str(path), path.name))


def _one_line(message: object) -> str:
    return " ".join(str(message).split()).rstrip(".")
