"""Bags in a data frame read from CSV or parquet: one row per instance, one column per feature."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.data.bagtable import BagTable, instance_labels, table_labels
from psimil.data.columns import INSTANCE_LABEL, LABEL, as_labels, as_numbers, as_positions, ids_as_text, whole_numbers
from psimil.data.delimited import csv_options
from psimil.data.feature_choice import Names, one_line
from psimil.data.feature_columns import FeatureColumns
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.labels import ZERO_ONE

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


def read_csv(path: Path, text: str = "bag") -> pd.DataFrame:
    r"""The table in a text file with a header line, see :func:`psimil.data.delimited.csv_options`.

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
        options = csv_options(path, text)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            return pd.read_csv(path, **options)
    except InputError:
        raise
    except Exception as error:  # parser, codec and gzip fail in many ways on a damaged or hostile file
        raise InputError(f"{path.name} cannot be read as CSV: {reason(error, path)}.") from error


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
    features: Names = None,
    drop: Names = None,
    position: str | None = None,
    **labels: Any,
) -> BagTable:
    """The bags in a data frame; the arguments are those of :func:`psimil.read_bags`.

    Examples
    --------
    >>> import pandas as pd
    >>> table = table_from_frame(pd.DataFrame({"bag": [2, 1], "label": [1, 0], "f": [0.5, 0.25]}))
    >>> table.bags.X.tolist(), table.y.tolist()
    ([[0.5], [0.25]], [1, 0])
    """
    for column in (bag, label, instance_label, position):
        if column is not None and column not in frame.columns:
            raise InputError(
                f'{name} has no column "{column}". Columns: {one_line(", ".join(map(str, frame.columns)))}.'
            )
    if not frame.columns.is_unique:
        raise InputError(f'{name} has more than one column "{frame.columns[frame.columns.duplicated()][0]}".')
    if len(frame) == 0:
        raise InputError(f"{name} has no rows: 0 bags. Give at least 1 bag.")
    label = label or (LABEL if LABEL in frame.columns else None)
    instance_label = instance_label or (INSTANCE_LABEL if INSTANCE_LABEL in frame.columns else None)
    ids = ids_as_text(frame[bag], bag)
    found = FeatureColumns(list(frame.columns), name, {bag, label, instance_label, position}, features, drop)
    found.look(frame, ids)
    chosen = found.names()
    X = np.column_stack([as_numbers(frame[column], column) for column in chosen])
    bags = Bags.from_arrays(X, whole_numbers(ids))
    bags = replace(bags, feature_names=tuple(map(str, chosen)))
    along = None if position is None else as_positions(frame[position], position)
    bags = bags if along is None else bags.in_order(along)
    known, y = (ZERO_ONE, None) if label is None else table_labels(bags, as_labels(frame[label], label), **labels)
    return BagTable(
        bags,
        y,
        None if instance_label is None else instance_labels(bags, as_numbers(frame[instance_label], instance_label)),
        known,
        None if along is None else along[bags.rows],
    )


def reason(error: Exception, path: Path) -> str:
    """What a reader says about a file, in one line and without its folder.

    Examples
    --------
    >>> reason(OSError("cannot open '/home/me/bags.parquet'."), Path("/home/me/bags.parquet"))
    "cannot open 'bags.parquet'"
    """
    return one_line(str(error).replace(str(path), path.name))
