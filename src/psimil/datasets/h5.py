"""Slides in HDF5 files as CLAM and TRIDENT write them: one file per slide with features and coords."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.data.chunks import read_csv
from psimil.datasets.content import write_content
from psimil.datasets.labelled import LabelledBags, OneBag, check_bags, checked_names, coordinates, together
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile
from psimil.foundations.extras import install_command
from psimil.model.bags import Bags
from psimil.model.features import as_real
from psimil.model.labels import UNKNOWN

FEATURES, COORDS = "features", "coords"
SLIDE, LABEL = "slide_id", "label"
MAX_BYTES = 16 << 30


def read_h5(directory: str | Path, labels: Mapping[str, int] | str | Path) -> LabelledBags:
    """Bags from a folder of ``<slide>.h5`` files.

    Parameters
    ----------
    directory : folder of the files, each with a dataset ``features`` (n, D) or (1, n, D).
    labels : 0 or 1 by slide, or a CSV file with the columns ``slide_id`` and ``label``; slides that are not named
        there are not read.

    Returns
    -------
    data : bags in the order of ``labels``, y (B,), y_instances (N,) all -1.

    Raises
    ------
    MissingFile
        When a slide or the CSV file is not there.
    InputError
        When h5py is not installed, or a file is damaged, foreign, or breaks a rule.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_h5(directory, Bags.from_list([[[1.0], [2.0]], [[3.0]]], ids=["s1", "s2"]))
    ...     bags, y, _ = read_h5(directory, {"s1": 1, "s2": 0})
    >>> bags.ids.tolist(), bags["s1"].tolist(), y.tolist()
    (['s1', 's2'], [[1.0], [2.0]], [1, 0])
    """
    table = labels if isinstance(labels, Mapping) else as_path(labels, "labels")
    return together(H5Folder(as_path(directory, "directory"), table))


class H5Folder:
    """The slides of a folder of HDF5 files, read one by one.

    Parameters
    ----------
    root : folder of the files.
    labels : as of :func:`read_h5`; None reads all slides, with unknown labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_h5(directory, Bags.from_list([[[1.0]], [[2.0]]], ids=["s1", "s2"]))
    ...     [(slide.name, slide.label) for slide in H5Folder(Path(directory), {"s2": 1})]
    [('s2', 1)]
    """

    def __init__(self, root: Path, labels: Mapping[str, int] | str | Path | None) -> None:
        self._h5py, self._root = _h5py(), root
        if labels is None:
            table: dict[str, Any] = dict.fromkeys(sorted(path.stem for path in root.glob("*.h5")), UNKNOWN)
        else:
            table = dict(labels) if isinstance(labels, Mapping) else _labels(as_path(labels, "labels"))
        if not table:
            raise InputError("labels are empty: 0 bags. Give at least 1 slide.")
        self._labels = dict(zip(checked_names(table), table.values(), strict=True))

    def __len__(self) -> int:
        """Number of slides."""
        return len(self._labels)

    def __iter__(self) -> Iterator[OneBag]:
        """One slide after another."""
        for name, label in self._labels.items():
            yield OneBag(name, _features(self._h5py, self._root, name), label)


def write_h5(directory: str | Path, bags: Bags, coords: ArrayLike | None = None) -> None:
    """Write every bag as ``<bag>.h5`` with features and, if given, coords; each file appears complete or not at all.

    Parameters
    ----------
    directory : folder, made when it is not there; files of the same names are replaced.
    bags : N instances; the ids become file names.
    coords : (N, 2) coordinates of the instances, or None.

    Raises
    ------
    InputError
        When h5py is not installed, an id cannot be a file name, or coords do not fit.
    OutputError
        When a file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_h5(directory, Bags.from_list([[[1.0]]], ids=["s1"]), coords=[[0, 256]])
    ...     [path.name for path in Path(directory).iterdir()]
    ['s1.h5']
    """
    h5py = _h5py()
    folder = as_path(directory, "directory")
    check_bags(bags)
    names = checked_names(bags.names)
    columns = {FEATURES: list(bags)}
    if coords is not None:
        columns[COORDS] = coordinates(coords, bags, "2")
    for number, name in enumerate(names):
        content = _encoded(h5py, {key: arrays[number] for key, arrays in columns.items()})
        write_content(folder / f"{name}.h5", content)


def _h5py() -> ModuleType:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"HDF5 files need h5py. Install it with: {install_command('h5')}") from error
    module: ModuleType = h5py
    return module


def _labels(path: Path) -> dict[str, Any]:
    """Label by slide from a CSV file."""
    if not path.is_file():
        raise MissingFile(f"{path.name} was not found. Check the path.")
    frame = read_csv(path, text=SLIDE)
    for column in (SLIDE, LABEL):
        if column not in frame.columns:
            raise InputError(f'{path.name} has no column "{column}". It needs {SLIDE} and {LABEL}.')
    repeated = frame.loc[frame[SLIDE].duplicated(), SLIDE]
    if len(repeated):
        raise InputError(f"{path.name} names slide {repeated.iloc[0]} twice. Keep one row per slide.")
    if len(frame) and frame[LABEL].dtype.kind not in "biuf":
        raise InputError(f'{path.name}: column "{LABEL}" must hold 0 and 1, got {frame[LABEL].iloc[0]!r} among them.')
    return dict(zip(frame[SLIDE].tolist(), frame[LABEL].tolist(), strict=True))


def _features(h5py: ModuleType, directory: Path, name: str) -> NDArray[Any]:
    """(n, D) features of one slide."""
    path = directory / f"{name}.h5"
    if not path.is_file():
        raise MissingFile(f"{path.name} was not found in {directory}. Add it or take the slide out of the labels.")
    try:
        with h5py.File(path, "r") as file:
            dataset = _own_dataset(h5py, file, path.name)
            array = np.asarray(dataset[()])
    except InputError:
        raise
    except Exception as error:  # h5py fails in many ways on a damaged or hostile file
        raise InputError(f"{path.name} cannot be read as HDF5: {' '.join(str(error).split())}.") from error
    if array.ndim == 3 and len(array) == 1:
        array = array[0]
    if array.ndim != 2:
        raise InputError(f"{path.name}: {FEATURES} have shape {array.shape}, expected (instances, features).")
    return as_real(array, path.name)


def _own_dataset(h5py: ModuleType, file: Any, name: str) -> Any:
    """The dataset of features, stored in this very file: links to other files are not followed."""
    link = file.get(FEATURES, getlink=True)
    if link is None:
        raise InputError(f'{name} has no dataset "{FEATURES}". It has {", ".join(file) or "nothing"}.')
    dataset = file[FEATURES] if isinstance(link, h5py.HardLink) else None
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        raise InputError(f"{name}: {FEATURES} must be a dataset stored in the file itself.")
    if dataset.nbytes > MAX_BYTES:
        raise InputError(f"{name}: {FEATURES} are above the limit of {MAX_BYTES >> 30} GB.")
    return dataset


def _encoded(h5py: ModuleType, arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    return buffer.getvalue()
