"""One value per bag, however the caller says which bag is meant: by id, by row, or by the order of the bags."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Set, ValuesView
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import DataWarning, InputError
from psimil.model.bags import Bags

Array = NDArray[Any]


def values_of_bags(values: Any, bags: Bags, what: str = "labels", *, from_rows: bool = False) -> Array:
    """(B, ...) values in the order of the bags.

    Parameters
    ----------
    values : a mapping or a pandas Series (or frame) indexed by bag id, which is looked up; otherwise (B, ...) in the
        order of the bags, which with ``bag_ids`` is that of their first rows; or (N, ...), one per row of the table
        that the bags came from, constant within each bag.
    bags : B bags.
    what : the values are, for messages.
    from_rows : whether the caller gave rows and their ids, so that the order of the bags is not in sight; then a plain
        list is warned of where sorted ids would have another order.

    Examples
    --------
    >>> bags = Bags.from_arrays([[1.0], [2.0], [3.0]], ["p2", "p10", "p2"])
    >>> values_of_bags({"p10": 0, "p2": 1}, bags).tolist(), values_of_bags([1, 0, 1], bags).tolist()
    ([1, 0], [1, 0])
    """
    if isinstance(values, Mapping):
        return _looked_up(values, list(bags.names.tolist()), what)
    if hasattr(values, "index") and hasattr(values, "iloc"):
        found = _by_index(values, bags, what)
        if found is not None:
            return found
    array = _as_array(values, what)
    if bags.rows is not None and len(array) == len(bags.X):
        return _per_row(array[bags.rows], bags, what)
    if len(array) != len(bags):
        raise InputError(f"{len(bags)} bags but {len(array)} {what}.")
    if from_rows and not _is_sorted(bags.names):
        first = ", ".join(map(str, bags.names[:3]))
        warnings.warn(
            f"{what} are taken in the order in which bags first appear ({first}, ...), which is not that of sorted "
            f"ids. Give {what} as a dict or a Series by bag id to be sure.",
            DataWarning,
            stacklevel=4,
        )
    return array


def _by_index(values: Any, bags: Bags, what: str) -> Array | None:
    """Values of a pandas object looked up by bag id; None where its index does not hold ids."""
    if bags.numbered or (bags.rows is not None and len(values) == len(bags.X) > len(bags)):
        return None
    index, ids = values.index.tolist(), bags.names.tolist()
    plain = type(values.index).__name__ == "RangeIndex"  # which pandas gives by itself
    known = set(index)
    if all(identifier in known for identifier in ids):
        if len(known) < len(index):
            raise InputError(f"{what} have the index {_twice(index)!r} twice. Give one value per bag.")
        if plain and ids != index:
            raise InputError(
                f"{what} are a Series with the index 0, 1, ..., and the bags have these ids in another order. "
                f"Give a dict by bag id, or .to_numpy() in the order in which bags first appear."
            )
        rows = {identifier: row for row, identifier in enumerate(index)}
        return _as_array(values.iloc[[rows[identifier] for identifier in ids]], what)
    numbers = all(isinstance(key, int) for key in index)
    if plain or (numbers and known.isdisjoint(ids)):  # positions of rows, or what scikit-learn took of them
        return None
    missing = next(identifier for identifier in ids if identifier not in known)
    raise InputError(
        f"{what} are indexed, and bag {missing} is not in their index. Index them by bag id, or give .to_numpy() in "
        f"the order of the bags."
    )


def _looked_up(values: Mapping[Any, Any], ids: list[Any], what: str) -> Array:
    missing = [identifier for identifier in ids if identifier not in values]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{what} have no value for bag {missing[0]}{more}. Give one per bag, by its id.")
    return _as_array([values[identifier] for identifier in ids], what)


def _per_row(by_row: Array, bags: Bags, what: str) -> Array:
    """(B, ...) from values per stored row, which must agree within each bag."""
    values = by_row[bags.offsets[:-1]]
    mixed = by_row != np.repeat(values, bags.sizes, axis=0)
    mixed = mixed.any(axis=tuple(range(1, mixed.ndim))) if mixed.ndim > 1 else mixed
    if mixed.any():
        raise InputError(f"bag {bags.names[bags.bag_index[np.argmax(mixed)]]} has rows with different {what}.")
    return np.asarray(values)


def _as_array(values: Any, what: str) -> Array:
    values = list(values) if isinstance(values, ValuesView) else values
    if isinstance(values, (str, bytes, Set)) or not hasattr(values, "__len__"):
        raise InputError(f"{what} must be a sequence with one value per bag, got {type(values).__name__}.")
    mixed = isinstance(values, (list, tuple)) and len({isinstance(value, str) for value in values}) > 1
    try:
        return np.asarray(values, dtype=object if mixed else None)  # NumPy would write numbers as text
    except ValueError as error:
        raise InputError(f"{what} are ragged, expected one per bag.") from error


def _is_sorted(ids: Array) -> bool:
    return bool((ids[1:] >= ids[:-1]).all())


def _twice(values: list[Any]) -> Any:
    seen: set[Any] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
