"""Bags in a numpy archive (.npz): plain numeric and text arrays, never pickled objects."""

import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.data.bagtable import BagTable, instance_labels, table_labels
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.labels import ZERO_ONE, values_of_bags

MAX_BYTES = 16 << 30
KEYS = ("X", "bag_ids", "offsets", "ids", "y", "y_instances", "feature_names")

Array = NDArray[Any]


def read_archive(path: Path) -> dict[str, Array]:
    """The arrays among ``KEYS`` that the archive holds; other members are not read.

    Parameters
    ----------
    path : an .npz file.

    Returns
    -------
    arrays : by name, each of numbers or text.

    Raises
    ------
    InputError
        When the file is no archive, is damaged, is too large, or holds Python objects.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.npz"
    ...     np.savez(path, X=np.ones((3, 2)), bag_ids=[0, 0, 1])
    ...     sorted(read_archive(path))
    ['X', 'bag_ids']
    """
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path.name} is not an npz archive. Write it with numpy.savez.")
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > MAX_BYTES:
            raise InputError(f"{path.name}: content is above the limit of {MAX_BYTES >> 30} GB.")
        with np.load(path, allow_pickle=False) as archive:
            return {key: member(archive, key) for key in KEYS if key in archive.files}
    except InputError:
        raise
    except Exception as error:  # zip, zlib and numpy fail in many ways on a damaged or hostile file
        if "pickle" in str(error) or "Object arrays" in str(error):
            raise InputError(
                f"{path.name} holds Python objects; such files can run code and are not loaded. "
                "Save arrays of numbers or text."
            ) from error
        raise InputError(f"{path.name} cannot be read as an npz archive: {error}.") from error


def member(archive: Any, key: str) -> Array:
    """One array of an open archive; numpy gives the bytes of a member that is none.

    Values of zero bytes are refused: a small file could hold any number of them.

    Examples
    --------
    >>> member({"X": b"text"}, "X")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: X in the archive is not an array. Write it with numpy.savez.
    """
    value = archive[key]
    if not isinstance(value, np.ndarray) or value.dtype.itemsize == 0:
        raise InputError(f"{key} in the archive is not an array. Write it with numpy.savez.")
    if value.dtype.kind == "U":
        points = np.ascontiguousarray(value, value.dtype.newbyteorder("=")).view(np.uint32)
        if points.max(initial=0) > sys.maxunicode:
            raise InputError(f"{key} in the archive holds characters that do not exist.")
    return value


def table_from_archive(
    arrays: dict[str, Array], name: str, features: Sequence[str] | None = None, **labels: Any
) -> BagTable:
    """The bags that the arrays of :func:`read_archive` describe.

    Parameters
    ----------
    arrays : X (N, D) with bag_ids (N,), or with offsets (B+1,) and optionally ids (B,); optionally y (N,) or (B,),
        y_instances (N,), feature_names (D,).
    name : of the file, for messages.
    features : which features to keep, in this order; None keeps all.
    labels : ``positive``, ``classes`` and ``optional`` of :func:`psimil.data.bagtable.table_labels`.

    Returns
    -------
    table : BagTable; bags come as their ids first appear.

    Examples
    --------
    >>> arrays = {"X": np.ones((3, 2)), "bag_ids": np.array([7, 7, 5]), "y": np.array([0, 0, 1])}
    >>> table = table_from_archive(arrays, "bags.npz")
    >>> table.bags.ids.tolist(), table.y.tolist(), table.feature_names
    ([7, 5], [0, 1], ('0', '1'))
    """
    if "X" not in arrays or ("bag_ids" in arrays) == ("offsets" in arrays):
        raise InputError(
            f"{name} must hold X and either bag_ids or offsets; it holds {', '.join(arrays) or 'neither'}."
        )
    X = arrays["X"]
    if X.ndim != 2 or len(X) == 0:
        raise InputError(f"{name}: X has shape {X.shape}, expected (instances, features) with at least 1 instance.")
    names = None if "feature_names" not in arrays else tuple(map(str, arrays["feature_names"].ravel()))
    if names is not None and len(names) != X.shape[1]:
        raise InputError(f"{name}: {X.shape[1]} features but {len(names)} feature_names.")
    if features is not None:
        known = names or tuple(map(str, range(X.shape[1])))
        for feature in features:
            if feature not in known:
                raise InputError(f'{name} has no feature "{feature}".')
        X, names = X[:, [known.index(feature) for feature in features]], tuple(features)
    bags = replace(_bags(X, arrays), feature_names=names)
    y, y_instances = arrays.get("y"), arrays.get("y_instances")
    found, T = (ZERO_ONE, None) if y is None else table_labels(bags, _per_row(bags, y, arrays), **labels)
    return BagTable(bags, T, None if y_instances is None else instance_labels(bags, y_instances), found)


def _bags(X: Array, arrays: dict[str, Array]) -> Bags:
    if "bag_ids" in arrays:
        return Bags.from_arrays(X, arrays["bag_ids"])
    offsets = arrays["offsets"]
    if offsets.dtype.kind not in "iu":
        raise InputError(f"offsets must be whole numbers, got {offsets.dtype}.")
    return Bags(X, offsets, arrays.get("ids"))


def _per_row(bags: Bags, y: Array, arrays: dict[str, Array]) -> Array:
    """Labels per row from labels per row or, when the lengths differ, per bag."""
    if y.shape == (len(bags.X),):
        return y
    if y.shape != (len(bags),):
        raise InputError(f"{len(bags)} bags but {y.size} labels.")
    if "bag_ids" in arrays:
        ids = arrays.get("ids")
        if ids is not None and ids.shape == y.shape:
            y = values_of_bags(dict(zip(ids.tolist(), y.tolist(), strict=True)), bags)
        elif (bags.names[1:] < bags.names[:-1]).any():
            raise InputError(
                "the archive has one label per bag and does not say which: bag_ids are not in ascending order. "
                "Add ids, one per label, or give one label per row."
            )
    return bags.in_input_order(np.repeat(y, bags.sizes))
