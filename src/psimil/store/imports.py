"""Import of data of any size into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.data.delimited import DELIMITED
from psimil.data.feature_choice import Names
from psimil.datasets.torchmil import FEATURES
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile
from psimil.foundations.phases import tell
from psimil.store.archive import Archive
from psimil.store.chunks import csv_chunks, parquet_chunks
from psimil.store.folders import H5Folder, TorchmilFolder
from psimil.store.manifest import Manifest, read_manifest
from psimil.store.tabular import Table
from psimil.store.writer import StoreWriter

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int], AbstractContextManager[Callable[[str], None]]]


def import_bags(
    source: str | Path,
    store: str | Path,
    *,
    bag: str = "bag",
    label: str | None = None,
    instance_label: str | None = None,
    features: Names = None,
    drop: Names = None,
    positive: str | None = None,
    labels: Mapping[str, int] | str | Path | None = None,
    dtype: str | None = None,
    append: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    r"""Write a store from files, a few megabytes at a time.

    Parameters
    ----------
    source : text, ``.parquet`` or ``.npz`` as for :func:`psimil.read_bags`, rows in any order;
        a torchmil folder; or a folder of ``.h5`` files as CLAM and TRIDENT write them.
    store : folder to write.
    bag, label, instance_label, features, drop, positive : of a table, as for :func:`psimil.read_bags`.
    labels : labels of ``.h5`` files, as for :func:`psimil.datasets.read_h5`; None leaves them unknown.
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
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text("bag,label,size\nb,1,0.5\na,0,0.25\nb,1,0.75\n")
    ...     manifest = import_bags(path, Path(directory) / "store")
    >>> manifest.bags, manifest.instances, manifest.feature_names
    (2, 3, ('size',))
    """
    source, store = as_path(source, "source"), as_path(store, "store")
    old = read_manifest(store) if append else None
    if features is None and old is not None and old.feature_names is not None:
        features = old.feature_names
    options: dict[str, Any] = {"dtype": dtype, "append": append, "overwrite": overwrite}
    steps = progress or _silent
    if not source.exists():
        raise MissingFile(f"{source.name} was not found. Check the path.")
    if source.is_dir():
        return _import_folder(_folder(source, labels), store, options, steps)
    if not source.is_file():
        raise InputError(f"{source.name} is not a regular file, which can be read twice. Copy it to one.")
    columns: dict[str, Any] = {
        "bag": bag,
        "label": label,
        "instance_label": instance_label,
        "features": features,
        "drop": drop,
    }
    columns["positive"] = positive
    return _import_table(_table(source, columns), store, options, steps)


def _folder(source: Path, labels: Mapping[str, int] | str | Path | None) -> TorchmilFolder | H5Folder:
    if (source / FEATURES).is_dir():
        return TorchmilFolder(source)
    if any(source.glob("*.h5")):
        return H5Folder(source, labels)
    raise InputError(f"{source.name} has neither a folder {FEATURES} (torchmil) nor .h5 files (CLAM, TRIDENT).")


def _table(source: Path, columns: dict[str, Any]) -> Table | Archive:
    if source.name.endswith(".npz"):
        return Archive(source, columns["features"], columns["drop"], columns["positive"])
    if source.name.endswith(DELIMITED):
        return Table(lambda: _told(csv_chunks(source, columns["bag"])), source.name, **columns)
    if source.name.endswith((".parquet", ".pq")):
        return Table(lambda: _told(parquet_chunks(source)), source.name, **columns)
    raise InputError(f"{source.name}: unknown kind of table. Give a .csv, .tsv, .txt, .parquet or .npz file.")


def _told(chunks: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The chunks of a table, told one by one: they are read once to count them, and once more to keep them."""
    for number, chunk in enumerate(chunks, start=1):
        tell("parts read", number)
        yield chunk


def _import_folder(
    bags: TorchmilFolder | H5Folder, store: str | Path, options: dict[str, Any], steps: Progress
) -> Manifest:
    found = iter(bags)
    first = next(found)
    if first.X.ndim != 2:
        raise InputError(f"bag {first.name} has shape {first.X.shape}, expected (instances, features).")
    with StoreWriter(store, first.X.shape[1], **options) as writer, steps(len(bags)) as step:
        for one in chain([first], found):
            writer.add(one.X, one.label, one.name, one.known)
            step(one.name)
        return writer.finish()


def _import_table(table: Table | Archive, store: str | Path, options: dict[str, Any], steps: Progress) -> Manifest:
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


@contextmanager
def _silent(total: int) -> Iterator[Callable[[str], None]]:
    yield lambda note: None
