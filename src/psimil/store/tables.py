"""Bags as tables: one row per instance with a bag column, from CSV, parquet, npz or a store."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from psimil.data.archives import read_archive, table_from_archive
from psimil.data.bagtable import BagTable
from psimil.data.delimited import DELIMITED
from psimil.data.feature_choice import Names, chosen_columns
from psimil.data.feature_columns import FeatureColumns
from psimil.data.frames import read_csv, read_parquet, table_from_frame
from psimil.files.paths import as_path
from psimil.foundations.errors import DataWarning, InputError, MissingFile
from psimil.model.labels import Classes
from psimil.store.layout import is_store
from psimil.store.reader import open_store

BLOCK = 1000  # rows of an archive that are looked at together


def read_bags(
    path: str | Path,
    *,
    bag: str = "bag",
    label: str | None = None,
    instance_label: str | None = None,
    features: Names = None,
    drop: Names = None,
    positive: str | None = None,
    classes: Classes | None = None,
    labels_optional: bool = False,
    position: str | None = None,
) -> BagTable:
    r"""Bags from a file with one row per instance.

    Parameters
    ----------
    path : ``.csv``, ``.tsv`` or ``.txt`` (also ``.gz``), ``.parquet`` or ``.npz``, or a store (:mod:`psimil.store`).
        Commas, semicolons or tabs separate the columns of text. An npz archive holds ``X`` (N, D) with ``bag_ids``
        (N,), or with ``offsets`` (B+1,) and optionally ``ids`` (B,); optionally ``y`` (per row, or per bag in the order
        of ``ids`` or of ascending ``bag_ids``), ``y_instances`` (N,) and ``feature_names`` (D,).
    bag : column of the bag ids.
    label : column of the bag labels, repeated on every row of the bag; None takes "label" if there is one.
    instance_label : column of the instance labels, -1 or empty for unknown; None takes "instance_label" if there is
        one.
    features : feature columns in this order, names or patterns such as ``"f*"``; None takes every other column. A
        column of numbers with text in it, or one without a name, is refused; columns of nothing but text are left out
        with a warning.
    drop : columns that are no features, names or patterns.
    positive : the label of positive bags; needed unless labels are 0 and 1, False and True, or -1 and 1.
    classes : the two classes of a model, when the file is to be scored by it; other labels are refused.
    labels_optional : leave out labels that cannot be used, with a warning, instead of refusing them.
    position : column of the positions along each bag, by which its instances are put in order, see
        :meth:`psimil.Bags.in_order`; None where rows have no order, or are in it. Archives and stores have none.

    Returns
    -------
    table : BagTable.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When the file or a value in it breaks a rule.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text("bag,label,size,mass\nb,1,0.5,2\na,0,0.1,3\nb,1,0.7,1\n")
    ...     table = read_bags(path)
    >>> table.bags.ids.tolist(), table.y.tolist(), table.feature_names
    (['b', 'a'], [1, 0], ('size', 'mass'))
    """
    path = as_path(path)
    labels: dict[str, Any] = {"positive": positive, "classes": classes, "optional": labels_optional}
    if position is not None and (path.is_dir() or path.name.endswith(".npz")):
        raise InputError(
            f'{path.name} has no column "{position}". Give positions in a .csv, .tsv, .txt or .parquet file.'
        )
    if path.is_dir():
        if is_store(path):
            return _of_store(open_store(path).table(), path.name, features, drop, classes, optional=labels_optional)
        raise InputError(f"{path.name} is a directory. Name a file, or a store of psimil data import.")
    if not path.exists():
        raise MissingFile(f"{path.name} was not found. Check the path.")
    if path.name.endswith(".npz"):
        return _of_archive(read_archive(path), path.name, features, drop, **labels)
    if path.name.endswith(DELIMITED):
        frame = read_csv(path, text=bag)
    elif path.name.endswith((".parquet", ".pq")):
        frame = read_parquet(path)
    else:
        raise InputError(f"{path.name}: unknown kind of table. Give a .csv, .tsv, .txt, .parquet or .npz file.")
    return table_from_frame(frame, path.name, bag, label, instance_label, features, drop, position, **labels)


def _of_archive(arrays: dict[str, Any], name: str, features: Names, drop: Names, **labels: Any) -> BagTable:
    import pandas as pd

    X = arrays.get("X", np.empty(0))
    names = list(map(str, arrays.get("feature_names", np.arange(X.shape[-1])).ravel()))
    if X.ndim != 2 or X.shape[1] != len(names):
        return table_from_archive(arrays, name)  # says what is wrong
    chosen = chosen_columns(names, name, (), features, drop)
    table = table_from_archive(arrays, name, None if chosen == names else chosen, **labels)
    found = FeatureColumns(names, name, (), features, drop)
    ids = table.bags.in_input_order(table.bags.bag_index)
    for start in range(0, len(X), BLOCK):
        if found.watching:
            found.look(pd.DataFrame(X[start : start + BLOCK], columns=names), ids[start : start + BLOCK])
    found.names()
    return table


def _of_store(
    table: BagTable, name: str, features: Names, drop: Names, classes: Classes | None, *, optional: bool
) -> BagTable:
    """The table of a store, whose features and classes are those that were imported."""
    names = list(table.feature_names)
    if chosen_columns(names, name, (), features, drop) != names:
        raise InputError(f"{name} is a store, which has its features. Choose them when you import: psimil data import.")
    if classes is not None and table.y is not None and table.classes != classes:
        ours, theirs = (f"{pair.negative!r} and {pair.positive!r} (positive)" for pair in (table.classes, classes))
        message = f"the labels of {name} are {ours}, those of the model {theirs}"
        if not optional:
            raise InputError(f"{message}. Import the data again.")
        warnings.warn(f"labels are not used: {message}.", DataWarning, stacklevel=3)
        return replace(table, y=None)
    return table
