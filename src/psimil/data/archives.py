"""Bags in a numpy archive (.npz) of any size: plain numeric and text arrays, never pickled objects."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from psimil.data.bagtable import ALL_OF_IT, Rows, TableOptions
from psimil.data.chunks import chunk_rows, explained
from psimil.data.columns import BagLabels, instance_labels
from psimil.data.feature_columns import FeatureColumns
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.features import as_real
from psimil.model.labels import Classes, values_of_bags

MAX_BYTES = 16 << 30
MAX_RATIO = 1100  # of deflate, which numpy packs archives with
BESIDE_X = ("bag_ids", "offsets", "ids", "y", "y_instances", "feature_names")
KIND = "an npz archive"

Labels = tuple[Classes, NDArray[np.int64] | None]


class Archive:
    """The bags of an npz archive, as a :class:`psimil.data.bagtable.Source`; all arrays but X are read at once.

    Parameters
    ----------
    path : as for :func:`psimil.read_bags`.
    options : which features to keep, and what labels may be; the arrays of an archive have their names.
    at_once : whether X is to fit into memory.

    Examples
    --------
    >>> path = Path("bags.npz")
    >>> np.savez(path, X=[[1.0], [2.0]], bag_ids=["b", "a"])
    >>> [(rows.places.tolist(), rows.X.tolist()) for rows in Archive(path).rows()]
    [([0, 1], [[1.0], [2.0]])]
    """

    def __init__(self, path: Path, options: TableOptions = ALL_OF_IT, *, at_once: bool = False) -> None:
        arrays = _beside_matrix(path, at_once)
        self._matrix = ArchivedRows(path)
        self.dtype, (n_rows, width) = self._matrix.dtype, self._matrix.shape
        names = arrays.get("feature_names")
        self._columns = list(map(str, np.arange(width) if names is None else names.ravel()))
        if len(self._columns) != width:
            raise InputError(f"{path.name}: {width} features but {len(self._columns)} feature_names.")
        self._features = FeatureColumns(self._columns, path.name, (), options.features, options.drop)
        chosen = self._features.chosen
        every = chosen == self._columns
        self.feature_names = None if names is None and every else tuple(chosen)
        number = {column: n for n, column in enumerate(self._columns)}
        self._chosen = slice(None) if every else [number[column] for column in chosen]
        self.n_features = len(chosen)
        bags = _bags(np.zeros((n_rows, 1), np.float32), arrays)  # they are found without the features
        self.ids, self.sizes, self.grouped = bags.names, bags.sizes, bags.rows is None
        self._bag, self._places = (bags.in_input_order(each) for each in (bags.bag_index, np.arange(n_rows)))
        self.classes: Classes | None = None
        self.y: NDArray[np.int64] | None = None
        if "y" in arrays:
            self.classes, self.y = _labels(arrays, bags, self._bag, BagLabels.of(options))
        known = arrays.get("y_instances")
        self._known = None if known is None else instance_labels(known, self.ids[self._bag])
        self.n_chunks = -(-n_rows // chunk_rows(width))

    def rows(self) -> Iterator[Rows]:
        """All rows, in the order of the file."""
        start = 0
        for chunk in self._matrix.chunks():
            here = slice(start, start + len(chunk))
            if self._features.watching:
                self._features.look(pd.DataFrame(chunk, columns=self._columns), self._bag[here])
            known = None if self._known is None else self._known[here]
            yield Rows(chunk[:, self._chosen], self._places[here], known)
            start += len(chunk)
        self._features.names()


class ArchivedRows:
    """The matrix X (N, D) of an npz archive, compressed or not, row by row.

    A matrix that is stored by columns is first copied to a temporary file.

    Examples
    --------
    >>> path = Path("bags.npz")
    >>> np.savez_compressed(path, X=[[1.0, 2.0], [3.0, 4.0]])
    >>> rows = ArchivedRows(path)
    >>> rows.shape, [chunk.tolist() for chunk in rows.chunks()]
    ((2, 2), [[[1.0, 2.0], [3.0, 4.0]]])
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._opened() as (_, most_bytes):
            pass
        if self.dtype.hasobject:
            raise _holds_objects(path)
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise InputError(
                f"{path.name}: X has shape {self.shape}, expected (instances, features) with at least 1 instance and "
                "1 feature."
            )
        try:
            as_real(np.empty(0, self.dtype), "features")
        except InputError as error:
            raise InputError(f"{path.name}: X must hold numbers: {error}") from error
        if self.shape[0] * self.shape[1] * self.dtype.itemsize > most_bytes:
            raise InputError(
                f"{path.name} cannot be read as {KIND}: X has shape {self.shape}, which is more than the file holds."
            )

    def chunks(self) -> Iterator[Array]:
        """(n, D) rows, in the order of the file."""
        n_rows, width = self.shape
        with self._opened() as (stream, _), TemporaryFile() as spilled:
            if self._by_column:
                with explained(self._path, KIND):
                    shutil.copyfileobj(stream, spilled)
                    spilled.flush()
                    columns = np.memmap(spilled, self.dtype, "r", shape=self.shape, order="F")
            for start in range(0, n_rows, chunk_rows(width)):
                n = min(chunk_rows(width), n_rows - start)
                if self._by_column:
                    yield np.array(columns[start : start + n])
                    continue
                with explained(self._path, KIND):
                    chunk = np.frombuffer(stream.read(n * width * self.dtype.itemsize), self.dtype).reshape(n, width)
                yield chunk

    @contextmanager
    def _opened(self) -> Iterator[tuple[IO[bytes], int]]:
        """The numbers after the header, and how many bytes they can have at most, whatever the header says."""
        with explained(self._path, KIND):
            archive = zipfile.ZipFile(self._path)
        with archive:
            with explained(self._path, KIND):
                stream = archive.open("X.npy")
                most = min(archive.getinfo("X.npy").file_size, MAX_RATIO * self._path.stat().st_size)
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                self.shape, self._by_column, self.dtype = read(stream)
            with stream:
                yield stream, most


def _beside_matrix(path: Path, at_once: bool) -> dict[str, Array]:
    """The arrays that the archive holds beside X; members with other names are not read."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path.name} is not an npz archive. Write it with numpy.savez.")
    with explained(path, KIND):
        with zipfile.ZipFile(path) as members:
            size = sum(one.file_size for one in members.infolist() if at_once or one.filename != "X.npy")
        if size > MAX_BYTES:
            what = "content" if at_once else "content beside X"
            raise InputError(f"{path.name}: {what} is above the limit of {MAX_BYTES >> 30} GB.")
        with np.load(path, allow_pickle=False) as archive:
            keys = [key for key in ("X", *BESIDE_X) if key in archive.files]
            if "X" not in keys or ("bag_ids" in keys) == ("offsets" in keys):
                shown = ", ".join(keys) or "neither"
                raise InputError(f"{path.name} must hold X and either bag_ids or offsets; it holds {shown}.")
            return {key: _member(archive, key, path) for key in keys if key != "X"}


def _member(archive: Any, key: str, path: Path) -> Array:
    """One array of an open archive; numpy gives the bytes of a member that is none.

    Values of zero bytes are refused: a small file could hold any number of them.
    """
    try:
        value = archive[key]
    except ValueError as error:
        raise (_holds_objects(path) if "Object arrays" in str(error) else error) from error
    if not isinstance(value, np.ndarray) or value.dtype.itemsize == 0:
        raise InputError(f"{key} in the archive is not an array. Write it with numpy.savez.")
    if value.dtype.kind == "U":
        points = np.ascontiguousarray(value, value.dtype.newbyteorder("=")).view(np.uint32)
        if points.max(initial=0) > sys.maxunicode:
            raise InputError(f"{key} in the archive holds characters that do not exist.")
    return value


def _holds_objects(path: Path) -> InputError:
    return InputError(
        f"{path.name} cannot be read: it holds Python objects; such files can run code and are not loaded. "
        "Arrays must hold numbers or text."
    )


def _bags(X: Array, arrays: dict[str, Array]) -> Bags:
    if "bag_ids" in arrays:
        return Bags.from_arrays(X, arrays["bag_ids"])
    offsets = arrays["offsets"]
    if offsets.dtype.kind not in "iu":
        raise InputError(f"offsets must be whole numbers, got {offsets.dtype}.")
    return Bags(X, offsets, arrays.get("ids"))


def _labels(arrays: dict[str, Array], bags: Bags, bag: Array, labels: BagLabels) -> Labels:
    """The classes and (B,) labels of the bags, from one label per row or, when the lengths differ, per bag."""
    y = arrays["y"]
    if y.shape != bag.shape:
        if y.shape != (len(bags),):
            raise InputError(f"{len(bags)} bags but {y.size} labels.")
        ids = arrays.get("ids")
        if "bag_ids" in arrays and ids is not None and ids.shape == y.shape:
            y = values_of_bags(dict(zip(ids.tolist(), y.tolist(), strict=True)), bags)
        elif (bags.names[1:] < bags.names[:-1]).any() and "bag_ids" in arrays:
            raise InputError(
                "the archive has one label per bag and does not say which: bag_ids are not in ascending order. "
                "Add ids, one per label, or give one label per row."
            )
        bag = np.arange(len(bags))
    labels.look(y, bag, bags.names)
    return labels.coded(len(bags))
