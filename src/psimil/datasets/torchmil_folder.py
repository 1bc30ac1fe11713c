"""A folder of torchmil, read bag by bag: which features and labels it has, and which bags belong to a split."""

import csv
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.data.bagtable import ALL_OF_IT, FARTHEST, TableOptions
from psimil.data.chunks import explained_text
from psimil.data.feature_choice import as_names
from psimil.datasets.labelled import INSTANCE_LABELS, OneBag, checked_names
from psimil.foundations.errors import DataWarning, InputError, MissingFile
from psimil.model.labels import UNKNOWN

FEATURES, LABELS, COORDS, SPLITS = "features", "labels", "coords", "splits.csv"
INSTANCE_FOLDERS = (INSTANCE_LABELS, "slice_labels", "patch_labels")  # of bags, scans and slides
NAMED = "features_"  # begins the folder of features that have a name
PATCHES = "patches_*"  # folders of a set of slides, one for each size of patches


class TorchmilFolder:
    """The bags of a torchmil folder, read one by one.

    Parameters
    ----------
    path, split : as of :func:`read_torchmil`.
    options : ``features`` is the name of a set of features, ``label``, ``instance_label`` and ``position`` are names of
        folders, None for those of torchmil; ``labels_optional`` says whether labels are unknown where there are none.

    Examples
    --------
    >>> from psimil.datasets import write_torchmil
    >>> from psimil.model.bags import Bags
    >>> write_torchmil("data", Bags.from_list([[[1.0]], [[2.0]]], ids=["a", "b"]), [1, 0])
    >>> [(bag.name, bag.label) for bag in TorchmilFolder(Path("data"))]
    [('a', 1), ('b', 0)]
    """

    def __init__(self, path: Path, options: TableOptions = ALL_OF_IT, split: str | None = None) -> None:
        sets = as_names(options.features)
        if len(sets) > 1:
            raise InputError(f"a folder is read with one set of features, got {', '.join(sets)}.")
        self.classes = None  # labels are numbers
        self._root = root_of(path)
        self._features, self.feature_set = _feature_folder(self._root, path, sets[0] if sets else None)
        there = sorted(file.stem for file in (self._root / self._features).glob("*.npy"))
        self._names = there if split is None else _members(self._root, split, there, self._features)
        if not self._names:
            raise InputError(f"{self._root / self._features} has no .npy files: 0 bags.")
        self._labels = self._folder(options.label, LABELS) or (None if options.labels_optional else LABELS)
        self.has_labels = self._labels is not None
        self._known = self._folder(options.instance_label, *INSTANCE_FOLDERS)
        self._coords = self._folder(options.position, COORDS)

    def __len__(self) -> int:
        """Number of bags."""
        return len(self._names)

    def __iter__(self) -> Iterator[OneBag]:
        """One bag after another."""
        for name in self._names:
            X = self._array(self._features, name)
            known = None if self._known is None else self._array(self._known, name).ravel()
            columns = feature_names(self.feature_set, X.shape[-1] if X.ndim else 0)
            yield OneBag(name, X, self._label(name), known, self._positions(name, X), columns)

    def _positions(self, name: str, X: NDArray[Any]) -> NDArray[Any] | None:
        """(n,) coordinates of the instances; None where they have several axes, which have no order."""
        if self._coords is None:
            return None
        places = self._array(self._coords, name)
        if places.ndim not in (1, 2) or (X.ndim and len(places) != len(X)):
            shape = f"{self._coords}/{name}.npy has shape {places.shape}"
            raise InputError(f"{shape}, expected one row for each of {len(X)} instances.")
        if places.ndim == 2 and places.shape[1] > 1:
            return None
        if not (np.abs(places) <= FARTHEST).all():
            raise InputError(f"{self._coords}/{name}.npy holds numbers that are no positions along a bag. Mend them.")
        return places.ravel()

    def _folder(self, asked: str | None, *usual: str) -> str | None:
        """The folder that was asked for, or the first of the usual ones that is there."""
        if asked is not None and not (self._root / checked_names([asked])[0]).is_dir():
            raise MissingFile(f"{self._root} has no folder {asked}.")
        there = [name for name in usual if (self._root / name).is_dir()]
        if asked is None and len(there) > 1:
            words = f"{self._root} has the folders {', '.join(there)}, of which {there[0]} is read."
            warnings.warn(words, DataWarning, stacklevel=4)
        return asked or next(iter(there), None)

    def _label(self, name: str) -> Any:
        if self._labels is None:
            return UNKNOWN
        label = self._array(self._labels, name)
        if label.size != 1:
            raise InputError(f"{self._labels}/{name}.npy has shape {label.shape}, expected one number.")
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


def root_of(path: Path) -> Path:
    """The folder that holds features and labels, of a path that names it, one of its features, or a set of slides."""
    if path.parent.name == FEATURES and path.name.startswith(NAMED) and path.is_dir():
        return path.parent.parent
    if (path / FEATURES).is_dir():
        return path
    sizes = sorted(size for size in path.glob(PATCHES) if (size / FEATURES).is_dir())
    if len(sizes) > 1:
        raise InputError(f"{path} has {', '.join(size.name for size in sizes)}. Name one of these folders.")
    if not sizes:
        raise MissingFile(f"{path} has no folder {FEATURES}. Name the folder that holds {FEATURES} and {LABELS}.")
    return sizes[0]


def is_torchmil(path: Path) -> bool:
    """Whether a folder looks like one of torchmil."""
    named = path.parent.name == FEATURES and path.name.startswith(NAMED) and any(path.glob("*.npy"))
    return named or any((size / FEATURES).is_dir() for size in (path, *path.glob(PATCHES)))


def feature_names(feature_set: str | None, n_features: int) -> tuple[str, ...] | None:
    """Names of features that belong to a set; None for a set without a name.

    Examples
    --------
    >>> feature_names("resnet50", 2)
    ('resnet50_0', 'resnet50_1')
    """
    return None if feature_set is None else tuple(f"{feature_set}_{number}" for number in range(n_features))


def known_set(path: Path, names: Sequence[str]) -> str | None:
    """The set of features in a folder that a model was trained on, by their names; None where it cannot be told."""
    name = names[0].rpartition("_")[0]
    if not name or not is_torchmil(path) or path.parent.name == FEATURES:  # a set that was named itself is taken
        return None
    there = (root_of(path) / FEATURES / f"{NAMED}{name}").is_dir()
    return name if there and tuple(names) == feature_names(name, len(names)) else None


def _feature_folder(root: Path, path: Path, asked: str | None) -> tuple[str, str | None]:
    """The folder of the features under the root, and their name where they have one."""
    sets = sorted(one.name.removeprefix(NAMED) for one in (root / FEATURES).glob(f"{NAMED}*") if one.is_dir())
    if root == path.parent.parent and path.parent.name == FEATURES:
        own = path.name.removeprefix(NAMED)
        if asked not in (None, own):
            raise InputError(f"{path} has the features {own}, not {asked}. Name the folder above it.")
        asked = own
    if asked is None and not sets:
        return FEATURES, None
    if asked is None and any((root / FEATURES).glob("*.npy")):
        words = f"{root} has features in {FEATURES} itself, which are not read, beside {', '.join(sets)}."
        warnings.warn(words, DataWarning, stacklevel=4)
    name = sets[0] if asked is None and len(sets) == 1 else asked
    if name is None or name not in sets:
        subject = f"{root} has no features {name!r}. It" if name else str(root)
        if not sets:
            raise InputError(f"{subject} has one set, without a name. Leave the name out.")
        cure = f'Choose one by name, such as "{sets[0]}", or name its folder, {FEATURES}/{NAMED}{sets[0]}.'
        raise InputError(f"{subject} has the features {', '.join(sets)}. {cure}")
    return f"{FEATURES}/{NAMED}{name}", name


def _members(root: Path, split: str, there: Collection[str], folder: str) -> list[str]:
    """Names of the bags of one split that are there, sorted."""
    holder = root if (root / SPLITS).is_file() else root.parent  # sets of slides have it beside the sizes of patches
    try:
        stream = (holder / SPLITS).open(newline="", encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingFile(f"{SPLITS} was not found in {root}. Leave split out to read all bags.") from None
    with explained_text(holder / SPLITS), stream:
        rows = list(csv.DictReader(stream))
    if not rows or not {"bag_name", "split"} <= set(rows[0]):
        raise InputError(f"{SPLITS} must have rows with the columns bag_name and split.")
    splits: dict[str, str] = {}
    for row in rows:
        name, own = (str(row[column] or "").strip() for column in ("bag_name", "split"))
        if not name or not own:
            raise InputError(f"{SPLITS} has a row without a name or a split: {name or own or 'an empty one'}.")
        if splits.setdefault(name, own) != own:
            raise InputError(f"{SPLITS} puts bag {name} in {splits[name]} and in {own}. A bag has one split.")
    names = checked_names(sorted(name for name, own in splits.items() if own == split))
    if not names:
        known = ", ".join(sorted(set(splits.values())))
        raise InputError(f'{SPLITS} puts no bag in "{split}". It has {known}.')
    present = [name for name in names if name in set(there)]
    if not present:
        raise MissingFile(f"{folder}/{names[0]}.npy was not found in {root}, nor any other bag of {split!r}.")
    if len(present) < len(names):
        words = f'{len(names) - len(present)} of {len(names)} bags of "{split}" have no features and are left out.'
        warnings.warn(words, DataWarning, stacklevel=4)
    return present
