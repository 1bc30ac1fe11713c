"""Bags from files: tables, archives, folders and stores, read into memory or imported into a store."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from psimil.data.archives import Archive
from psimil.data.bagtable import BAG, BagTable, Source, TableOptions, in_memory
from psimil.data.chunks import DELIMITED, PARQUET, csv_chunks, parquet_chunks
from psimil.data.feature_choice import Names, chosen_columns
from psimil.data.tabular import Table
from psimil.datasets.labelled import table_of
from psimil.datasets.torchmil_folder import is_torchmil
from psimil.files.paths import as_path
from psimil.foundations.errors import DataWarning, InputError, MissingFile
from psimil.foundations.phases import tell
from psimil.model.labels import Classes, text
from psimil.store.bag_folders import Progress, import_folder, open_folder, refuse_options, refuse_position
from psimil.store.manifest import Manifest, is_store, read_manifest
from psimil.store.reader import open_store
from psimil.store.writer import StoreWriter

__all__ = ["import_bags", "read_bags"]


def read_bags(
    path: str | Path,
    *,
    bag: str = BAG,
    label: str | None = None,
    instance_label: str | None = None,
    features: Names = None,
    drop: Names = None,
    positive: str | None = None,
    classes: Classes | None = None,
    labels_optional: bool = False,
    position: str | None = None,
    split: str | None = None,
) -> BagTable:
    r"""Bags from a file with one row per instance, or from a folder.

    Parameters
    ----------
    path : ``.csv``, ``.tsv`` or ``.txt`` (also ``.gz``), ``.parquet`` or ``.npz``, a store (:mod:`psimil.store`),
        or a torchmil folder (:func:`psimil.datasets.read_torchmil`), whose folders stand for columns: ``features`` is
        the name of a set of features, ``label``, ``instance_label`` and ``position`` are those of folders; or a
        folder of slides: ``.h5`` or ``.pt`` files as CLAM and TRIDENT write them (:func:`psimil.datasets.read_h5`)
        and, for labels, a CSV file with ``slide_id`` and ``label``; ``bag`` may name its ``case_id``.
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
    split : of a torchmil folder, the bags that its ``splits.csv`` puts here; None reads all.

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
    >>> path = Path("bags.csv")
    >>> _ = path.write_text("bag,label,size,mass\nb,1,0.5,2\na,0,0.1,3\nb,1,0.7,1\n")
    >>> table = read_bags(path)
    >>> table.bags.ids.tolist(), table.y.tolist(), table.feature_names
    (['b', 'a'], [1, 0], ('size', 'mass'))
    """
    path = as_path(path)
    options = TableOptions(bag, label, instance_label, features, drop, position, positive, classes, labels_optional)
    if path.is_dir() and not is_store(path):
        folder = open_folder(path, options, split)
        if folder is None:
            known = "a file, a torchmil folder, a folder of slides, or a store of psimil data import"
            raise InputError(f"{path.name} is a directory. Name {known}.")
        optional = labels_optional or not folder.has_labels
        table = table_of(folder, path.name, folder.classes, labels_optional=optional)
        return _of_classes(table, path.name, options)
    refuse_options({"split": split}, f"{path.name} is no folder of bags with splits")
    if path.is_dir() or path.name.endswith(".npz"):
        refuse_position(path, options)
    if path.is_dir():
        columns = {"bag": options.named_bag, "label": label, "instance_label": instance_label}
        refuse_options(columns, f"{path.name} is a store, which has its labels and ids")
        table = open_store(path).table()
        if positive is not None and text(table.classes.positive) != text(positive):
            known = f"{path.name} is a store whose positive class is {table.classes.positive!r}, not {positive!r}"
            raise InputError(f"{known}. Leave it out, or import the data again with --positive {positive}.")
        return _of_store(table, path.name, options)
    return in_memory(_source(path, options, at_once=True))


def import_bags(
    source: str | Path,
    store: str | Path,
    *,
    bag: str = BAG,
    label: str | None = None,
    instance_label: str | None = None,
    features: Names = None,
    drop: Names = None,
    positive: str | None = None,
    labels: Mapping[str, int] | str | Path | None = None,
    split: str | None = None,
    dtype: str | None = None,
    append: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    r"""Write a store from files, a few megabytes at a time.

    Parameters
    ----------
    source : text, ``.parquet`` or ``.npz`` as for :func:`psimil.read_bags`, rows in any order;
        a torchmil folder; or a folder of ``.h5`` or ``.pt`` files as CLAM and TRIDENT write them.
    store : folder to write.
    bag, label, instance_label, features, drop, positive, split : as for :func:`psimil.read_bags`; ``bag``, ``label``
        and ``positive`` also of the table of slides.
    labels : labels of slides, as for :func:`psimil.datasets.read_h5`; None takes the table that lies beside them, if
        there is one.
    dtype : "float32" or "float64" on disk; None takes float32, or what the store has.
    append : add to the store that is there; its features are looked for by name.
    overwrite : replace the store that is there; it is kept until the new one is complete.
    progress : called with the number of steps; gives a context with a function to call after each.

    Returns
    -------
    manifest : of the store.

    Raises
    ------
    MissingFile
        When the source, or the store to append to, is not there.
    InputError
        When the source breaks a rule; a store that is there is kept as it was.
    OutputError
        When the store cannot be written; a store that is there is kept as it was.

    Examples
    --------
    >>> path = Path("bags.csv")
    >>> _ = path.write_text("bag,label,size\nb,1,0.5\na,0,0.25\nb,1,0.75\n")
    >>> manifest = import_bags(path, "store")
    >>> manifest.bags, manifest.instances, manifest.feature_names
    (2, 3, ('size',))
    """
    source, store = as_path(source, "source"), as_path(store, "store")
    options = TableOptions(
        bag, label, instance_label, features, drop, positive=positive, labels_optional=is_torchmil(source)
    )
    writing: dict[str, Any] = {"dtype": dtype, "append": append, "overwrite": overwrite}
    writing["bag_column"] = None if source.name.endswith(".npz") else options.named_bag
    steps = progress or (lambda total: nullcontext(lambda note: None))
    if source.is_dir():
        folder = open_folder(source, options, split, labels)
        if folder is None:
            kinds = "a folder features (torchmil) nor .h5 or .pt files (CLAM, TRIDENT)"
            raise InputError(f"{source.name} has neither {kinds}.")
        return import_folder(folder, store, writing, steps)
    if source.exists() and not source.is_file():
        raise InputError(f"{source.name} is not a regular file, which can be read twice. Copy it to one.")
    refuse_options({"labels": labels}, f"{source.name} is no folder of slides")
    refuse_options({"split": split}, f"{source.name} is no folder of bags with splits")
    old = read_manifest(store) if append else None
    if features is None and old is not None:
        options = replace(options, features=old.feature_names)
    return _import_table(_source(source, options), store, writing, steps)


def _source(path: Path, options: TableOptions, *, at_once: bool = False) -> Source:
    """The bags of a file, which is read into memory at once or chunk by chunk."""
    if not path.exists():
        raise MissingFile(f"{path.name} was not found. Check the path.")
    if path.name.endswith(".npz"):
        return Archive(path, options, at_once=at_once)
    if path.name.endswith(DELIMITED):
        chunks = partial(csv_chunks, path, options.bag, at_once=at_once)
    elif path.name.endswith(PARQUET):
        chunks = partial(parquet_chunks, path, at_once=at_once)
    else:
        raise InputError(f"{path.name}: unknown kind of table. Give a .csv, .tsv, .txt, .parquet or .npz file.")
    chunks_read = list(chunks()) if at_once else []
    return Table(lambda: iter(chunks_read) if at_once else _counted(chunks()), path.name, options)


def _counted(chunks: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The chunks of a table, with signs of progress: they are read once to count them, and once more to keep them."""
    for number, chunk in enumerate(chunks, start=1):
        tell("parts read", number)
        yield chunk


def _of_store(table: BagTable, name: str, options: TableOptions) -> BagTable:
    """The table of a store, whose features and classes are those that were imported."""
    names = list(table.feature_names)
    if chosen_columns(names, name, (), options.features, options.drop) != names:
        raise InputError(f"{name} is a store, which has its features. Choose them when you import: psimil data import.")
    return _of_classes(table, name, options)


def _of_classes(table: BagTable, name: str, options: TableOptions) -> BagTable:
    """The table, whose labels are those of a model; without them where they are not, if they are optional."""
    classes = options.classes
    if classes is None or table.y is None or table.classes == classes:
        return table
    ours, theirs = (f"{pair.negative!r} and {pair.positive!r} (positive)" for pair in (table.classes, classes))
    message = f"the labels of {name} are {ours}, those of the model {theirs}"
    if not options.labels_optional:
        raise InputError(f"{message}. Import the data again.")
    warnings.warn(f"labels are not used: {message}.", DataWarning, stacklevel=3)
    return replace(table, y=None)


def _import_table(table: Source, store: str | Path, options: dict[str, Any], steps: Progress) -> Manifest:
    n_features = table.n_features
    with StoreWriter(store, n_features, feature_names=table.feature_names, classes=table.classes, **options) as writer:
        writer.plan(table.ids.tolist(), table.sizes)
        done = 0
        with steps(table.n_chunks) as step:
            for rows in table.rows():
                writer.place(rows.places, rows.X, rows.known)
                done += len(rows.places)
                step(f"{done} instances")
        if table.y is not None:
            writer.label(table.y)
        return writer.finish()
