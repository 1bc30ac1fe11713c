"""Bags in an npz archive whose matrix is larger than the memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.data.archives import KEYS, MAX_BYTES, member, table_from_archive
from psimil.data.feature_choice import Names, chosen_columns
from psimil.data.feature_columns import FeatureColumns
from psimil.foundations.errors import InputError
from psimil.store.chunks import ArchivedRows, chunk_rows
from psimil.store.tabular import Rows

Array = NDArray[Any]


class Archive:
    """The bags of an npz archive; X is read chunk by chunk, the other arrays at once.

    Parameters
    ----------
    path : as for :func:`psimil.read_bags`.
    features, drop : which features to keep and which not; None keeps all.

    Attributes
    ----------
    ids, sizes, y, feature_names, n_features, n_chunks : as for :class:`psimil.store.tabular.Table`; feature_names is
        None when the archive has none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.npz"
    ...     np.savez(path, X=[[1.0], [2.0]], bag_ids=["b", "a"])
    ...     [(rows.places.tolist(), rows.X.tolist()) for rows in Archive(path).rows()]
    [([0, 1], [[1.0], [2.0]])]
    """

    def __init__(self, path: Path, features: Names = None, drop: Names = None, positive: str | None = None) -> None:
        arrays = _without_matrix(path)
        self._matrix = ArchivedRows(path)
        shape, dtype = self._matrix.shape, self._matrix.dtype
        if len(shape) != 2 or min(shape) < 1:
            raise InputError(
                f"{path.name}: X has shape {shape}, expected (instances, features) with at least 1 of each."
            )
        if dtype.kind not in "biuf":
            raise InputError(f"{path.name}: X must hold numbers, got {dtype}.")
        if shape[0] * shape[1] * dtype.itemsize > self._matrix.most_bytes:
            raise InputError(f"{path.name}: X has shape {shape}, which is more than the file holds.")
        names = arrays.pop("feature_names", None)
        self._columns = _columns(path.name, names, shape[1])
        chosen = chosen_columns(self._columns, path.name, (), features, drop)
        self.feature_names = None if names is None and features is None and drop is None else tuple(chosen)
        position = {column: n for n, column in enumerate(self._columns)}
        self._numbers, self.n_features = [position[column] for column in chosen], len(chosen)
        self._found = FeatureColumns(self._columns, path.name, (), features, drop)
        bones = np.zeros((shape[0], 1), np.float32)  # bags and labels are found without the features
        table = table_from_archive({"X": bones, **arrays}, path.name, positive=positive)
        self.classes = None if table.y is None else table.classes
        self.ids, self.sizes, self.y, self._known = table.bags.names, table.bags.sizes, table.y, table.y_instances
        self._places = table.bags.in_input_order(np.arange(shape[0]))
        self.n_chunks = -(-shape[0] // chunk_rows(shape[1]))

    def rows(self) -> Iterator[Rows]:
        """All rows, in the order of the file."""
        import pandas as pd

        start, ends = 0, np.cumsum(self.sizes)
        for chunk in self._matrix.chunks():
            places = self._places[start : start + len(chunk)]
            if self._found.watching:
                bag = np.searchsorted(ends, places, side="right")
                self._found.look(pd.DataFrame(chunk, columns=self._columns), bag)
            yield Rows(places, chunk[:, self._numbers], None if self._known is None else self._known[places])
            start += len(chunk)
        self._found.names()


def _without_matrix(path: Path) -> dict[str, Array]:
    """The arrays of the archive but X."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path.name} is not an npz archive. Write it with numpy.savez.")
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist() if member.filename != "X.npy")
        if size > MAX_BYTES:
            raise InputError(f"{path.name}: content beside X is above the limit of {MAX_BYTES >> 30} GB.")
        with np.load(path, allow_pickle=False) as archive:
            keys = [key for key in KEYS if key in archive.files]
            if "X" not in keys:
                held = " ".join(", ".join(archive.files).split()) or "nothing"
                raise InputError(f"{path.name} must hold X; it holds {held}.")
            return {key: member(archive, key) for key in keys if key != "X"}
    except InputError:
        raise
    except Exception as error:  # zip, zlib and numpy fail in many ways on a damaged or hostile file
        raise InputError(f"{path.name} cannot be read as an npz archive: {' '.join(str(error).split())}.") from error


def _columns(name: str, names: Array | None, width: int) -> list[str]:
    """The names of all features."""
    known = list(map(str, np.arange(width) if names is None else names.ravel()))
    if len(known) != width:
        raise InputError(f"{name}: {width} features but {len(known)} feature_names.")
    return known
