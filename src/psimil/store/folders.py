"""Bags in folders with one file per bag, read file by file: torchmil, and HDF5 of CLAM and TRIDENT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.data.frames import read_csv
from psimil.datasets.filenames import checked_names
from psimil.datasets.h5 import LABEL, SLIDE, read_h5
from psimil.datasets.torchmil import FEATURES, INSTANCE_LABELS, LABELS
from psimil.foundations.errors import InputError, MissingFile
from psimil.store.layout import UNKNOWN

Array = NDArray[Any]


class OneBag(NamedTuple):
    """A bag: its name, X (n, D), its label or -1, and known (n,) instance labels or None."""

    name: str
    X: Array
    label: Any
    known: Array | None


class TorchmilFolder:
    """The bags of a torchmil folder, see :func:`psimil.datasets.read_torchmil`; labels are unknown without ``labels``.

    Examples
    --------
    >>> import tempfile
    >>> from psimil import Bags
    >>> from psimil.datasets import write_torchmil
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_torchmil(Path(directory) / "data", Bags.from_list([[[1.0]], [[2.0]]], ids=["a", "b"]), [1, 0])
    ...     [(bag.name, bag.label) for bag in TorchmilFolder(Path(directory) / "data")]
    [('a', 1), ('b', 0)]
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names = sorted(path.stem for path in (root / FEATURES).glob("*.npy"))
        if not self._names:
            raise InputError(f"{root / FEATURES} has no .npy files: 0 bags.")

    def __len__(self) -> int:
        """Number of bags."""
        return len(self._names)

    def __iter__(self) -> Iterator[OneBag]:
        """One bag after another."""
        labels, known = ((self._root / folder).is_dir() for folder in (LABELS, INSTANCE_LABELS))
        for name in self._names:
            label = _array(self._root, LABELS, name) if labels else np.array([UNKNOWN])
            if label.size != 1:
                raise InputError(f"{LABELS}/{name}.npy has shape {label.shape}, expected one number.")
            X = _array(self._root, FEATURES, name)
            yield OneBag(name, X, label.item(), _array(self._root, INSTANCE_LABELS, name).ravel() if known else None)


class H5Folder:
    """The slides of a folder of HDF5 files, see :func:`psimil.datasets.read_h5`.

    Parameters
    ----------
    root : folder of the files.
    labels : 0 or 1 by slide, or a CSV file with slide_id and label; slides that are not named there are not read. None
        reads all slides, with unknown labels.

    Examples
    --------
    >>> import tempfile
    >>> from psimil import Bags
    >>> from psimil.datasets import write_h5
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_h5(directory, Bags.from_list([[[1.0]], [[2.0]]], ids=["s1", "s2"]))
    ...     [(slide.name, slide.label) for slide in H5Folder(Path(directory), {"s2": 1})]
    [('s2', 1)]
    """

    def __init__(self, root: Path, labels: Mapping[str, int] | str | Path | None = None) -> None:
        if labels is None:
            table: dict[str, Any] = dict.fromkeys(sorted(path.stem for path in root.glob("*.h5")), UNKNOWN)
        else:
            table = dict(labels) if isinstance(labels, Mapping) else _slide_labels(Path(labels))
        if not table:
            raise InputError("labels are empty: 0 bags. Give at least 1 slide.")
        self._root, self._labels = root, dict(zip(checked_names(table), table.values(), strict=True))

    def __len__(self) -> int:
        """Number of slides."""
        return len(self._labels)

    def __iter__(self) -> Iterator[OneBag]:
        """One slide after another."""
        for name, label in self._labels.items():
            data = read_h5(self._root, {name: 0 if label == UNKNOWN else label})
            yield OneBag(name, data.bags.X, UNKNOWN if label == UNKNOWN else int(data.y[0]), None)


def _array(root: Path, folder: str, name: str) -> Array:
    """The numbers in one file of a torchmil folder."""
    shown = f"{folder}/{name}.npy"
    try:
        with (root / shown).open("rb") as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    except FileNotFoundError:
        raise MissingFile(f"{shown} was not found in {root}. Every bag needs one.") from None
    except Exception as error:  # numpy fails in many ways on a damaged or hostile file
        raise InputError(f"{shown} cannot be read as an array of numbers: {' '.join(str(error).split())}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{shown} must hold numbers, got {array.dtype}.")
    return array


def _slide_labels(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise MissingFile(f"{path.name} was not found. Check the path.")
    frame = read_csv(path, text=SLIDE)
    for column in (SLIDE, LABEL):
        if column not in frame.columns:
            raise InputError(f'{path.name} has no column "{column}". It needs {SLIDE} and {LABEL}.')
    repeated = frame.loc[frame[SLIDE].duplicated(), SLIDE]
    if len(repeated):
        raise InputError(f"{path.name} names slide {repeated.iloc[0]} twice. Keep one row per slide.")
    return dict(zip(frame[SLIDE].tolist(), frame[LABEL].tolist(), strict=True))
