"""What is refused before bags are built or asked: ids, offsets, rows, columns and keys that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import unmasked
from psimil.model.features import as_real, column_names, column_order

Array = NDArray[Any]

LABEL, INSTANCE_LABEL = "label", "instance_label"  # columns that are never features unless they are named


def whole_offsets(offsets: Any, instances: int) -> NDArray[np.int64]:
    """(B + 1,) where bags start, as whole numbers that run from 0 to the number of instances and never fall.

    Examples
    --------
    >>> whole_offsets([0, 2, 3], 3)
    array([0, 2, 3])
    >>> whole_offsets([0, 1.5, 3], 3)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: offsets must be whole numbers. Give the row at which each bag starts.
    """
    unmasked(offsets, "offsets")
    try:
        found = np.asarray(offsets)
        whole = found.astype(np.int64) if found.dtype.kind in "iuf" and np.isfinite(found).all() else None
    except (TypeError, ValueError):
        whole = None
    if whole is None or (whole != found).any():
        raise InputError("offsets must be whole numbers. Give the row at which each bag starts.")
    if whole.ndim != 1 or len(whole) == 0 or whole[0] != 0 or whole[-1] != instances:
        raise InputError(f"offsets must run from 0 to the number of instances, {instances}.")
    if (np.diff(whole) < 0).any():
        raise InputError("offsets must not decrease.")
    return whole


def as_ids(ids: Any, count: int) -> Array:
    """(B,) names of the bags; 0, 1, ... when None.

    Examples
    --------
    >>> as_ids(None, 2), as_ids(["a", "b"], 2)
    (array([0, 1]), array(['a', 'b'], dtype='<U1'))
    """
    if ids is None:
        return np.arange(count)
    found = _told_apart(ids, "bag ids are ragged, expected one id per bag.")
    if found.ndim != 1:
        raise InputError(f"bag ids have shape {found.shape}, expected one id per bag.")
    if len(found) != count:
        raise InputError(f"{count} bags but {len(found)} bag ids.")
    for name in found.tolist() if found.dtype.kind in "OU" else ():
        if isinstance(name, str) and "\0" in name:
            raise InputError(f"bag id {name!r} would be cut short. Give ids as text without NUL characters.")
    return found


def check_one_kind(ids: Iterable[Any]) -> None:
    """Refuse ids of several kinds, such as 1 and "1", which would become the same text.

    Examples
    --------
    >>> check_one_kind([1, "1"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bag_ids cannot be compared: they mix kinds. Give text or whole numbers.
    """
    present = (value for value in ids if value is not None and value == value)  # noqa: PLR0124
    if len({next((kind for kind in _KINDS if isinstance(value, kind)), None) for value in present}) > 1:
        raise InputError(_MIXED)


_KINDS = (str, bytes, (bool, np.bool_), Number)
_MIXED = "bag_ids cannot be compared: they mix kinds. Give text or whole numbers."


def _told_apart(ids: Any, ragged: str) -> Array:
    """Ids as an array in which every one is still what it was; ``ragged`` is what to say when they make none."""
    unmasked(ids, "bag ids")
    try:
        found = np.asarray(ids)
    except ValueError as error:
        raise InputError(ragged) from error
    listed = isinstance(ids, (list, tuple))
    if found.ndim != 1 or not (listed or found.dtype == object):
        return found
    given = list(ids) if listed else found.tolist()
    check_one_kind(given)
    for before, after in zip(given, found.tolist(), strict=True):
        if before != after and before == before:  # noqa: PLR0124
            raise InputError(f"bag id {before!r} would become {after!r}. Give ids as text without NUL characters.")
    return found


def check_index(X: Any, bag_ids: Any) -> None:
    """Refuse rows and ids whose pandas indexes are the same in another order: which row is meant is ambiguous.

    Examples
    --------
    >>> import pandas as pd
    >>> check_index(pd.DataFrame({"f": [1.0, 2.0]}), pd.Series(["a", "b"], index=[1, 0]))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: rows and bag_ids have the same index in another order. ...
    """
    if not (hasattr(X, "iloc") and hasattr(bag_ids, "iloc")) or len(X) != len(bag_ids) or X.index.equals(bag_ids.index):
        return
    if set(X.index) == set(bag_ids.index):
        raise InputError("rows and bag_ids have the same index in another order. Sort one like the other.")


def row_ids(bag_ids: Any, rows: int) -> Array:
    """(N,) the id of each row's bag; none may be missing.

    Examples
    --------
    >>> row_ids(["a", None], 2)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the bag id of row 1 is missing. Give every row a bag.
    """
    found = _told_apart(bag_ids, "bag_ids are ragged, expected one id per row.")
    if found.ndim != 1 or len(found) != rows:
        raise InputError(f"{rows} instances but bag_ids has shape {found.shape}.")
    if found.dtype.kind in "fO":
        missing = [n for n, value in enumerate(found.tolist()) if value is None or (value != value) is True]  # noqa: PLR0124
        if missing:
            raise InputError(f"the bag id of row {missing[0]} is missing. Give every row a bag.")
    return found


def in_order_of_appearance(values: Array) -> tuple[Array, NDArray[np.int64]]:
    """The distinct values (B,) as they first appear, and which of them each of the N values is.

    Examples
    --------
    >>> in_order_of_appearance(np.array(["b", "a", "b"]))
    (array(['b', 'a'], dtype='<U1'), array([0, 1, 0]))
    """
    try:
        distinct, first, which = np.unique(values, return_index=True, return_inverse=True)
    except TypeError as error:
        raise InputError(_MIXED) from error
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return distinct[order], place[which]


def different_ids(ids: Any, count: int) -> Array:
    """(B,) names of the bags, no two of them equal.

    Examples
    --------
    >>> different_ids(["a", "a"], 2)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bags 0 and 1 have the same id. Give every bag an id of its own.
    """
    found = as_ids(ids, count)
    if ids is None:
        return found
    seen: dict[str, int] = {}
    for place, name in enumerate(map(str, found.tolist())):
        if name in seen:
            raise InputError(f"bags {seen[name]} and {place} have the same id. Give every bag an id of its own.")
        seen[name] = place
    return found


def permutation(rows: Any, count: int) -> NDArray[np.int64] | None:
    """(N,) positions in the caller's table, each of 0, ..., N - 1 once; None stays None.

    Examples
    --------
    >>> permutation([1, 0], 2)
    array([1, 0])
    """
    if rows is None:
        return None
    found = np.asarray(unmasked(rows, "rows"))
    if found.shape != (count,) or (count and found.dtype.kind not in "iu"):
        raise InputError(f"rows have shape {found.shape}, expected {count} whole numbers, one per instance.")
    seen = np.zeros(count, dtype=bool)
    inside = (found >= 0) & (found < count)
    seen[found[inside].astype(np.int64)] = True
    if not (inside.all() and seen.all()):
        raise InputError(f"rows must hold each position from 0 to {count - 1} once.")
    return found.astype(np.int64)


def per_instance(values: Any, count: int) -> Array:
    """(N, ...) values, refused unless there is one per instance.

    Examples
    --------
    >>> per_instance([1, 2], 3)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: 3 instances but values of shape (2,). Give one value per instance.
    """
    found = np.asarray(unmasked(values, "values per instance"))
    if found.ndim == 0 or len(found) != count:
        raise InputError(f"{count} instances but values of shape {found.shape}. Give one value per instance.")
    return found


def place_of(key: int | str, ids: Array) -> int:
    """Which bag an id in text or a position means.

    Examples
    --------
    >>> place_of("7", np.array([3, 7])), place_of(-1, np.array([3, 7]))
    (1, 1)
    """
    if isinstance(key, str):
        matches = np.flatnonzero(ids.astype(str) == key)
        if len(matches) != 1:
            how = "no bag has" if len(matches) == 0 else f"{len(matches)} bags have"
            raise KeyError(f"{how} the id {key!r}. Ask by position, or for one of .ids.")
        return int(matches[0])
    if not -len(ids) <= key < len(ids):
        raise IndexError(f"bag {key} asked but there are {len(ids)} bags, counted from 0.")
    return int(key) % len(ids)


def feature_columns(columns: Sequence[Any], bag: Any, features: Any) -> list[Any]:
    """The columns of a table that are features: those named, or all but the bag and the labels.

    Examples
    --------
    >>> feature_columns(["bag", "label", "size"], "bag", None)
    ['size']
    """
    listed = ", ".join(map(str, columns))
    if isinstance(features, (str, bytes)) or not (features is None or hasattr(features, "__iter__")):
        raise InputError(f"features must be a list of column names, got {features!r}.")
    chosen = None if features is None else list(features)
    for name in (bag, *(chosen or ())):
        if name not in columns:
            raise InputError(f'the table has no column "{name}". Columns: {listed}.')
        if list(columns).count(name) > 1:
            raise InputError(f'the table has more than one column "{name}". Rename them.')
    found = [c for c in columns if c not in (bag, LABEL, INSTANCE_LABEL)] if chosen is None else chosen
    if not found:
        raise InputError(f"the table has no feature column beside the bag and label columns. Columns: {listed}.")
    return found


def matrices(bags: Sequence[Any], names: Sequence[Any] | Array) -> tuple[list[Array], tuple[str, ...] | None]:
    """The (n_i, D) features of each bag, columns in the order of the first table's, and the names of these columns.

    Parameters
    ----------
    bags : arrays, lists, tensors or tables.
    names : (B,) ids of the bags, for messages.

    Examples
    --------
    >>> matrices([[[1.0], [2.0]]], ["a"])
    ([array([[1.],
           [2.]])], None)
    """
    columns = next((found for found in map(column_names, bags) if found is not None), None)
    arrays = [_matrix(bag, columns, name) for bag, name in zip(bags, names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if array.ndim != 2:
            raise InputError(f"bag {name} has shape {array.shape}, expected (instances, features).")
        if array.shape[1] != arrays[0].shape[1]:
            raise InputError(
                f"bag {name} has {array.shape[1]} features, expected {arrays[0].shape[1]} (from bag {names[0]})."
            )
    return arrays, columns


def _matrix(bag: Any, names: tuple[str, ...] | None, name: Any) -> Array:
    """One bag with its columns in the order of the first bag's, where both are tables."""
    columns = column_names(bag)
    if columns is None and names is not None:
        raise InputError(f"bag {name} has no names of columns, but other bags have. Give all as tables, or none.")
    if names is None or columns is None or columns == names:
        return as_real(bag, f"bag {name}")
    if set(columns) != set(names):
        odd = sorted(set(columns) ^ set(names))[0]
        raise InputError(f'bag {name} does not have the columns of the first bag: "{odd}" is in only one of them.')
    return as_real(as_real(bag, f"bag {name}")[:, column_order(names, columns, f"bag {name}")], f"bag {name}")
