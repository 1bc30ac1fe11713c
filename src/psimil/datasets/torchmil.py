"""The directory layout of torchmil: one .npy file per bag in features, labels and, if known, labels of instances."""

import csv
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from psimil.data.bagtable import TableOptions
from psimil.datasets.labelled import (
    INSTANCE_LABELS,
    LabelledBags,
    check_bags,
    checked_names,
    coordinates,
    labelled,
    together,
)
from psimil.datasets.torchmil_folder import COORDS, FEATURES, INSTANCE_FOLDERS, LABELS, NAMED, SPLITS, TorchmilFolder
from psimil.files.paths import as_path
from psimil.files.rundir import explained
from psimil.foundations.errors import InputError, OutputError
from psimil.model.bags import Bags


def read_torchmil(directory: str | Path, split: str | None = None, *, features: str | None = None) -> LabelledBags:
    """Bags from the folder of a torchmil dataset, such as RSNA_ICH_MIL.

    Parameters
    ----------
    directory : folder with ``features/<bag>.npy`` or ``features/features_<name>/<bag>.npy`` (n, D),
        ``labels/<bag>.npy`` (one number, 0 or 1) and, if the instances have labels, ``inst_labels/<bag>.npy`` (n,), or
        ``slice_labels`` or ``patch_labels``; or one of its folders ``features/features_<name>``. Where ``coords`` have
        one column, instances are put in their order; those of several columns are not read.
    split : only the bags that ``splits.csv`` (columns bag_name and split) puts here; None reads all.
    features : name of the features, such as "resnet50"; needed where there are several.

    Returns
    -------
    data : bags sorted by name, y (B,), y_instances (N,), -1 without labels of instances. Features that have a name are
        called by it, "resnet50_0" and so on.

    Raises
    ------
    MissingFile
        When the folder or one of a bag's files is not there.
    InputError
        When a file is damaged, holds Python objects, or breaks a rule; when there are several features, or no such
        split.

    Examples
    --------
    >>> folder = Path("data")
    >>> write_torchmil(folder, Bags.from_list([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"]), [1, 0])
    >>> bags, y, y_instances = read_torchmil(folder)
    >>> bags.ids.tolist(), bags["a"].tolist(), y.tolist(), y_instances.tolist()
    (['a', 'b'], [[1.0], [2.0]], [1, 0], [-1, -1, -1])
    """
    return together(TorchmilFolder(as_path(directory, "directory"), TableOptions(features=features), split))


def write_torchmil(
    directory: str | Path,
    bags: Bags,
    y: ArrayLike,
    y_instances: ArrayLike | None = None,
    *,
    coords: ArrayLike | None = None,
    split: Sequence[str] | None = None,
    features: str | None = None,
    instance_labels: str = INSTANCE_LABELS,
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
    features : name of the features, which then lie in ``features/features_<name>``.
    instance_labels : folder of their labels; "slice_labels" for scans, "patch_labels" for slides.

    Raises
    ------
    InputError
        When labels do not fit the bags, or an id cannot be a file name.
    OutputError
        When the folder is not empty or cannot be written.

    Examples
    --------
    >>> folder = Path("data")
    >>> write_torchmil(folder, Bags.from_list([[[1.0], [2.0]]], ids=["a"]), [1], [0, 1])
    >>> sorted(str(path.relative_to(folder)) for path in folder.rglob("*.npy"))
    ['features/a.npy', 'inst_labels/a.npy', 'labels/a.npy']
    """
    target = as_path(directory, "directory")
    check_bags(bags)
    names = checked_names(bags.names)
    data = labelled(bags, y, y_instances)
    if instance_labels not in INSTANCE_FOLDERS:
        raise InputError(f"instance_labels must be one of {', '.join(INSTANCE_FOLDERS)}, got {instance_labels!r}.")
    feature_folder = FEATURES if features is None else f"{FEATURES}/{NAMED}{checked_names([features])[0]}"
    columns = {feature_folder: list(bags), LABELS: [data.y[b : b + 1] for b in range(len(bags))]}
    if y_instances is not None:
        columns[instance_labels] = bags.split(data.y_instances)
    if coords is not None:
        columns[COORDS] = coordinates(coords, bags, "k")
    if split is not None and len(split) != len(bags):
        raise InputError(f"{len(bags)} bags but {len(split)} entries of split.")
    with _aside(target) as aside:
        for folder, arrays in columns.items():
            (aside / folder).mkdir(parents=True)
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
        with explained(directory):
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                raise OutputError(f"cannot write {directory}: something is there already. Name a new folder.")
            aside.mkdir(parents=True)
            yield aside
            os.replace(aside, directory)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
