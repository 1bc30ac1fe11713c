"""The directory layout of torchmil: one .npy file per bag in features, labels and, if known, inst_labels."""

import csv
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.datasets.labelled import (
    INSTANCE_LABELS,
    LabelledBags,
    OneBag,
    check_bags,
    checked_names,
    coordinates,
    labelled,
    together,
)
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile, OutputError
from psimil.model.bags import Bags
from psimil.model.labels import UNKNOWN

FEATURES, LABELS, COORDS, SPLITS = "features", "labels", "coords", "splits.csv"


def read_torchmil(directory: str | Path, split: str | None = None) -> LabelledBags:
    """Bags from the folder of a torchmil ``ProcessedMILDataset``.

    Parameters
    ----------
    directory : folder with ``features/<bag>.npy`` (n, D), ``labels/<bag>.npy`` (one number, 0 or 1) and, if the
        instances have labels, ``inst_labels/<bag>.npy`` (n,).
    split : only the bags that ``splits.csv`` (columns bag_name and split) puts here; None reads all.

    Returns
    -------
    data : bags sorted by name, y (B,), y_instances (N,), -1 without ``inst_labels``.

    Raises
    ------
    MissingFile
        When the folder or one of a bag's files is not there.
    InputError
        When a file is damaged, holds Python objects, or breaks a rule.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     folder = Path(directory) / "data"
    ...     write_torchmil(folder, Bags.from_list([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"]), [1, 0])
    ...     bags, y, y_instances = read_torchmil(folder)
    >>> bags.ids.tolist(), bags["a"].tolist(), y.tolist(), y_instances.tolist()
    (['a', 'b'], [[1.0], [2.0]], [1, 0], [-1, -1, -1])
    """
    root = as_path(directory, "directory")
    if not (root / FEATURES).is_dir():
        raise MissingFile(f"{root} has no folder {FEATURES}. Name the folder that holds {FEATURES} and {LABELS}.")
    return together(TorchmilFolder(root, None if split is None else _members(root, split)))


class TorchmilFolder:
    """The bags of a torchmil folder, read one by one.

    Parameters
    ----------
    root : the folder.
    names : of the bags to read; None reads all.
    labels_optional : whether labels are unknown where there is no folder ``labels``, instead of missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_torchmil(Path(directory) / "data", Bags.from_list([[[1.0]], [[2.0]]], ids=["a", "b"]), [1, 0])
    ...     [(bag.name, bag.label) for bag in TorchmilFolder(Path(directory) / "data")]
    [('a', 1), ('b', 0)]
    """

    def __init__(self, root: Path, names: list[str] | None = None, *, labels_optional: bool = False) -> None:
        self._root = root
        self._names = sorted(path.stem for path in (root / FEATURES).glob("*.npy")) if names is None else names
        self._labelled = not labels_optional or (root / LABELS).is_dir()
        if not self._names:
            raise InputError(f"{root / FEATURES} has no .npy files: 0 bags.")

    def __len__(self) -> int:
        """Number of bags."""
        return len(self._names)

    def __iter__(self) -> Iterator[OneBag]:
        """One bag after another."""
        known = (self._root / INSTANCE_LABELS).is_dir()
        for name in self._names:
            X = self._array(FEATURES, name)
            labels = self._array(INSTANCE_LABELS, name).ravel() if known else None
            yield OneBag(name, X, self._label(name), labels)

    def _label(self, name: str) -> Any:
        if not self._labelled:
            return UNKNOWN
        label = self._array(LABELS, name)
        if label.size != 1:
            raise InputError(f"{LABELS}/{name}.npy has shape {label.shape}, expected one number.")
        return label.item()

    def _array(self, folder: str, name: str) -> NDArray[Any]:
        """The array of one file, of numbers."""
        shown = f"{folder}/{name}.npy"
        try:
            with (self._root / shown).open("rb") as stream:
                array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        except FileNotFoundError:
            raise MissingFile(f"{shown} was not found in {self._root}. Every bag needs one.") from None
        except Exception as error:  # numpy fails in many ways on a damaged or hostile file
            reason = " ".join(str(error).split())
            raise InputError(f"{shown} cannot be read as an array of numbers: {reason}.") from error
        if array.dtype.kind not in "biuf":
            raise InputError(f"{shown} must hold numbers, got {array.dtype}.")
        return array


def write_torchmil(
    directory: str | Path,
    bags: Bags,
    y: ArrayLike,
    y_instances: ArrayLike | None = None,
    *,
    coords: ArrayLike | None = None,
    split: Sequence[str] | None = None,
) -> None:
    """Write bags as torchmil reads them; the folder appears when all of it is written.

    Parameters
    ----------
    directory : new or empty folder.
    bags : B bags, N instances; the ids become file names.
    y : (B,) 0 or 1.
    y_instances : (N,) 0, 1, or -1 for unknown; None leaves ``inst_labels`` out.
    coords : (N, k) coordinates of the instances; None leaves ``coords`` out.
    split : (B,) "train", "test" or the like, for ``splits.csv``; None leaves it out.

    Raises
    ------
    InputError
        When labels do not fit the bags, or an id cannot be a file name.
    OutputError
        When the folder is not empty or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     folder = Path(directory) / "data"
    ...     write_torchmil(folder, Bags.from_list([[[1.0], [2.0]]], ids=["a"]), [1], [0, 1])
    ...     sorted(str(path.relative_to(folder)) for path in folder.rglob("*.npy"))
    ['features/a.npy', 'inst_labels/a.npy', 'labels/a.npy']
    """
    target = as_path(directory, "directory")
    check_bags(bags)
    names = checked_names(bags.names)
    data = labelled(bags, y, y_instances)
    columns = {FEATURES: list(bags), LABELS: [data.y[b : b + 1] for b in range(len(bags))]}
    if y_instances is not None:
        columns[INSTANCE_LABELS] = bags.split(data.y_instances)
    if coords is not None:
        columns[COORDS] = coordinates(coords, bags, "k")
    if split is not None and len(split) != len(bags):
        raise InputError(f"{len(bags)} bags but {len(split)} entries of split.")
    with _aside(target) as aside:
        for folder, arrays in columns.items():
            (aside / folder).mkdir()
            for name, array in zip(names, arrays, strict=True):
                np.save(aside / folder / f"{name}.npy", array, allow_pickle=False)
        if split is not None:
            with (aside / SPLITS).open("w", newline="", encoding="utf-8") as stream:
                csv.writer(stream, lineterminator="\n").writerows(
                    [("bag_name", "split"), *zip(names, split, strict=True)]
                )


@contextmanager
def _aside(directory: Path) -> Iterator[Path]:
    """A folder beside the target that takes its name at the end, or goes when something fails."""
    aside = directory.parent / f".{directory.name}-{secrets.token_hex(8)}.tmp"
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise OutputError(f"cannot write {directory}: something is there already. Name a new folder.")
        aside.mkdir(parents=True)
        yield aside
        os.replace(aside, directory)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {directory}: {(error.strerror or str(error)).lower()}.") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _members(root: Path, split: str) -> list[str]:
    """Names of the bags of one split, sorted."""
    try:
        with (root / SPLITS).open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise MissingFile(f"{SPLITS} was not found in {root}. Leave split out to read all bags.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{SPLITS} cannot be read: {error}.") from error
    if not rows or not {"bag_name", "split"} <= set(rows[0]):
        raise InputError(f"{SPLITS} must have rows with the columns bag_name and split.")
    names = sorted({row["bag_name"] for row in rows if row["split"] == split})
    if not names:
        found = ", ".join(sorted({str(row["split"]) for row in rows}))
        raise InputError(f'{SPLITS} puts no bag in "{split}". It has {found}.')
    return checked_names(names)
