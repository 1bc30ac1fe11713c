"""Features as users hold them: numbers of any real kind, and the names of their columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import unmasked

Array = NDArray[Any]

COLUMNS = "columns sha256:"
MOST_NAMED = 5  # names that a message lists


def as_real(values: Any, what: str) -> Array:
    """The values as a float32 or float64 array; anything that is not a real number is refused.

    Half precision of either kind (float16, bfloat16) becomes float64 and float32.

    Examples
    --------
    >>> as_real([[1, 2]], "features")
    array([[1., 2.]])
    """
    device = getattr(values, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        raise InputError(f"{what} is on {device} but the model is on cpu.")
    if hasattr(values, "detach"):
        values = values.detach()
        half = str(getattr(values, "dtype", "")) == "torch.bfloat16"  # NumPy has no such type
        values = values.float() if half else values
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InputError(f"{what} is a sparse matrix; give a dense array (for instance .toarray()).")
    unmasked(values, what)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} is ragged: every instance needs the same number of features.") from error
    if array.dtype == object and {getattr(kind, "kind", "O") for kind in getattr(values, "dtypes", "?")} <= set("biuf"):
        array = array.astype(np.float64)  # a table of numbers and bools
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        kind = "text" if array.dtype.kind in "US" else str(array.dtype)
        raise InputError(f"{what} must be real numbers, got {kind}.")
    native = array.dtype.newbyteorder("=") if array.dtype.kind == "f" else array.dtype
    return np.asarray(array, dtype=native if native in (np.float32, np.float64) else np.float64)


def numbered(names: Sequence[str]) -> bool:
    """Whether the names are mere numbers 0, 1, ..., which 1.0.0 did not store.

    Examples
    --------
    >>> numbered(("0", "1")), numbered(("size",))
    (True, False)
    """
    return list(names) == list(map(str, range(len(names))))


def columns_fingerprint(names: Sequence[str]) -> str:
    """The digest of names by which model files of 1.0.0 know their features.

    Examples
    --------
    >>> columns_fingerprint(["size", "mass"])[:20]
    'columns sha256:0fb85'
    """
    return COLUMNS + hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def column_names(values: Any) -> tuple[str, ...] | None:
    """Names of the columns of a table, as text; None of what has none.

    Examples
    --------
    >>> import pandas as pd
    >>> column_names(pd.DataFrame({"size": [1.0], 7: [2.0]})), column_names(np.ones((1, 2)))
    (('size', '7'), None)
    """
    columns = getattr(values, "columns", None)
    return None if columns is None else checked_names(list(columns), len(columns))


def checked_names(names: Any, count: int) -> tuple[str, ...] | None:
    """D names of features as text, each another one; None stays None.

    Examples
    --------
    >>> checked_names(["size", "size"], 2)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: two features have the name "size". Rename one of them.
    """
    if names is None:
        return None
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise InputError(f"feature_names must be a list of names, got {names!r}.")
    found = tuple(map(str, names))
    if len(found) != count:
        raise InputError(f"{count} features but {len(found)} feature_names.")
    seen: set[str] = set()
    for name in found:
        if name in seen:
            raise InputError(f'two features have the name "{name}". Rename one of them.')
        seen.add(name)
    return found


def column_order(wanted: Sequence[str], given: Sequence[str], what: str) -> list[int]:
    """Where each wanted feature stands among the given ones; missing ones are named.

    Examples
    --------
    >>> column_order(("mass", "size"), ("size", "colour", "mass"), "the bags")
    [2, 0]
    >>> column_order(("mass",), ("size",), "the bags")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the bags lack the feature "mass" that the model was trained on. ...
    """
    place = {name: number for number, name in enumerate(given)}
    missing = [name for name in wanted if name not in place]
    if missing:
        lacking = "the feature" if len(missing) == 1 else f"{len(missing)} features,"
        raise InputError(
            f"{what} lack {lacking} {listed(missing)} that the model was trained on. They have {listed(given)}."
        )
    return [place[name] for name in wanted]


def listed(names: Sequence[str]) -> str:
    """Some names for a message, in quotes, with the number of those that are left out.

    Examples
    --------
    >>> listed(["a", "b"]), listed(list("abcdefg"))
    ('"a", "b"', '"a", "b", "c", "d", "e" and 2 more')
    """
    shown = ", ".join(f'"{name}"' for name in names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"
