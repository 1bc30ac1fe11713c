"""Columns of a table of bags: ids as text or whole numbers, features and labels as numbers."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.bag_checks import INSTANCE_LABEL, LABEL, check_one_kind

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INSTANCE_LABEL", "LABEL", "NUMERIC", "as_labels", "as_numbers", "ids_as_text", "whole_numbers"]

NUMERIC = "biuf"

Array = NDArray[Any]


def ids_as_text(column: pd.Series[Any], name: str, rows_before: int = 0) -> Array:
    """(n,) bag ids as they are written; none may be missing, and all must fit on a line.

    Parameters
    ----------
    rows_before : of the table that this column goes on with.

    Examples
    --------
    >>> import pandas as pd
    >>> ids_as_text(pd.Series([7, 8]), "bag").tolist()
    ['7', '8']
    >>> ids_as_text(pd.Series([[1], [2]]), "bag")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: column "bag" must hold text or numbers; bytes, lists and records are no ids.
    """
    if column.dtype == object and any(isinstance(value, (bytes, list, tuple, dict, np.ndarray)) for value in column):
        raise InputError(f'column "{name}" must hold text or numbers; bytes, lists and records are no ids.')
    if column.dtype == object:
        check_one_kind(column.dropna())
    missing = np.flatnonzero(column.isna() | (column == ""))
    if len(missing):
        row = rows_before + int(missing[0]) + 1
        raise InputError(f'row {row} has no bag id (column "{name}"). Fill it in or remove the row.')
    try:
        text = np.asarray(column.to_numpy()).astype(str)
    except Exception as error:  # pyarrow has its own family of errors
        raise InputError(f'column "{name}" holds text that is not UTF-8. Write the table again.') from error
    for identifier in np.unique(text):
        if not identifier.isprintable():
            raise InputError(f"bag id {str(identifier)!r} holds a line break or another control character.")
    return text


def whole_numbers(text: Array) -> Array:
    """Ids as whole numbers when all are written as such, otherwise as they are.

    Examples
    --------
    >>> whole_numbers(np.array(["7", "8"])), whole_numbers(np.array(["07", "8"]))
    (array([7, 8]), array(['07', '8'], dtype='<U2'))
    """
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if np.array_equal(numbers.astype(str), text) else text


def as_labels(column: pd.Series[Any], name: str) -> Array:
    """(n,) labels of bags as they are, numbers, bools or text.

    Examples
    --------
    >>> import pandas as pd
    >>> as_labels(pd.Series(["tumor", "normal"]), "label").tolist()
    ['tumor', 'normal']
    """
    try:
        return np.asarray(column.to_numpy(), dtype=None if column.dtype.kind in NUMERIC else object)
    except Exception as error:  # pyarrow has its own family of errors
        raise InputError(f'column "{name}" holds text that is not UTF-8. Write the table again.') from error


def as_numbers(column: pd.Series[Any], name: str) -> NDArray[np.float64]:
    """(n,) float64, nan where empty.

    Examples
    --------
    >>> import pandas as pd
    >>> as_numbers(pd.Series([1, None]), "label")
    array([ 1., nan])
    >>> as_numbers(pd.Series(["yes"]), "label")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: column "label" must hold numbers, got 'yes' among them.
    """
    try:
        if column.dtype.kind in NUMERIC or all(isinstance(value, (Real, Decimal)) for value in column.dropna()):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except Exception as error:  # pyarrow has its own family of errors; numbers beyond any float
        raise InputError(f'column "{name}" must hold numbers, got {_first(column)} among them.') from error
    raise InputError(f'column "{name}" must hold numbers, got {_first(column)} among them.')


def as_positions(column: pd.Series[Any], name: str) -> NDArray[np.float64]:
    """(n,) float64, all of them finite.

    Examples
    --------
    >>> import pandas as pd
    >>> as_positions(pd.Series([0.5, None]), "mm")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: column "mm" must hold a position in every row, row 2 has none.
    """
    found = as_numbers(column, name)
    missing = np.flatnonzero(~np.isfinite(found))
    if len(missing):
        raise InputError(f'column "{name}" must hold a position in every row, row {missing[0] + 1} has none.')
    return found


def _first(column: pd.Series[Any]) -> str:
    try:
        return repr(column.dropna().iloc[0])
    except Exception:  # pyarrow has its own family of errors
        return "text that is not UTF-8"
