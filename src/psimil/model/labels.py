"""Labels and other values of bags: which bag a value belongs to, and two classes of which one is positive."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence, Set, ValuesView
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import DataWarning, InputError
from psimil.foundations.numbers import unmasked
from psimil.model.bags import Bags

Array = NDArray[Any]

UNKNOWN = -1
USUAL = ((0, 1), (-1, 1))  # pairs of which everybody knows the positive one
USUAL_TEXTS = {"01", "-11", "falsetrue", "noyes", "negativepositive", "negpos"}


class Classes(NamedTuple):
    """The label of negative bags and that of positive bags.

    Examples
    --------
    >>> Classes.among(np.array(["healthy", "tumor"])), Classes.among(np.array([1, -1]))
    (Classes(negative='healthy', positive='tumor'), Classes(negative=-1, positive=1))
    """

    negative: Any
    positive: Any

    @classmethod
    def among(cls, values: Array, positive: Any = None) -> Classes:
        """The classes of labels that were checked by :func:`label_values`.

        Parameters
        ----------
        values : (B,) labels, of at most two kinds.
        positive : the label of positive bags, or its text; None takes the greater, as scikit-learn does.
        """
        distinct = sorted(set(values.tolist()))
        if np.ndim(positive):
            raise InputError(f"positive must be one label, got {type(positive).__name__}.")
        if positive is not None:
            chosen = [value for value in distinct if value == positive] or [v for v in distinct if text(v) == positive]
            if len(chosen) != 1:
                shown = " and ".join(repr(value) for value in distinct)
                raise InputError(f"positive is {positive!r} but the labels are {shown}. Give one of them.")
            distinct = [value for value in distinct if value != chosen[0]] + chosen
        if len(distinct) == 2:
            return cls(*distinct)
        pair = next((pair for pair in USUAL if distinct[0] in pair), None)
        if pair is None or (positive is not None and distinct[0] != pair[1]):
            raise InputError(f"all labels are {distinct[0]!r}; a fit needs bags of two classes.")
        return cls(*(map(bool, pair) if isinstance(distinct[0], bool) else pair))

    @property
    def usual(self) -> bool:
        """Whether it goes without saying which class is positive: 0 and 1, False and True, "no" and "yes"."""
        if isinstance(self.positive, str):
            return (self.negative + self.positive).lower() in USUAL_TEXTS
        return tuple(self) in USUAL

    def codes(self, values: Array, names: Sequence[Any] | Array) -> NDArray[np.int64]:
        """(B,) 1 for positive bags, 0 for negative ones; ``names`` are the ids of the bags.

        Examples
        --------
        >>> Classes("healthy", "tumor").codes(np.array(["tumor", "healthy"]), ["a", "b"])
        array([1, 0])
        """
        positive, negative = (np.asarray(values == kind) for kind in (self.positive, self.negative))
        other = np.flatnonzero(~np.broadcast_to(positive | negative, values.shape))
        if len(other):
            value, known = values.tolist()[other[0]], f"{self.negative!r} and {self.positive!r}"
            raise InputError(f"label of bag {names[other[0]]} is {value!r}; the classes are {known}.")
        return positive.astype(np.int64)


ZERO_ONE = Classes(0, 1)


def label_values(values: Any, names: Sequence[Any] | Array) -> Array:
    """(n,) labels of at most two kinds, numbers, bools or text, none of them missing.

    Parameters
    ----------
    values : (n,) labels as they came.
    names : (n,) the bag of each, for messages.

    Examples
    --------
    >>> label_values([0, 1, 2], ["a", "b", "c"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: label of bag c is 2; labels must be 0 or 1.
    """
    array = np.asarray(unmasked(values, "labels"))
    kinds: list[Any] = []
    for value, place in first_of_each(array):
        if not is_label(value):
            shown = repr(value) if isinstance(value, str | bytes) else value
            raise InputError(f"label of bag {names[place]} is {shown}; give every bag one of two labels.")
        kinds.append(value)
        if len(kinds) > 2 or isinstance(value, str) != isinstance(kinds[0], str):
            raise _odd(value, names[place], kinds[:-1])
    return np.array(array.tolist()) if array.dtype == object else array


def known_labels(values: Array, names: Any, what: str, allowed: Sequence[int] = (0, 1)) -> NDArray[np.int64]:
    """(n,) labels that are whole numbers already.

    Parameters
    ----------
    values : (n,) labels as they came.
    names : (n,) the bag of each, for messages.
    what : the values are, such as "label" or "an instance label".
    allowed : 0 and 1, and where a label may be unknown -1.

    Examples
    --------
    >>> known_labels(np.array([1, 2]), ["a", "b"], "label")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: label of bag b is 2; labels must be 0 or 1.
    """
    wrong = np.flatnonzero(~np.isin(values, allowed))
    if len(wrong):
        place, value = wrong[0], text(values[wrong[0]].item())
        rule = "0 or 1" if UNKNOWN not in allowed else "0, 1 or -1 (unknown)"
        raise InputError(f"{what} of bag {names[place]} is {value}; {what.removeprefix('an ')}s must be {rule}.")
    return values.astype(np.int64)


def first_of_each(values: Array) -> list[tuple[Any, int]]:
    """Every distinct value as a Python object, with its first place, in the order of these."""
    if values.dtype == object:
        seen: dict[Any, tuple[Any, int]] = {}
        for place, value in enumerate(values.tolist()):
            plain = value.item() if isinstance(value, np.generic) else value
            seen.setdefault((isinstance(plain, str), plain if is_label(plain) else repr(plain)), (plain, place))
        return list(seen.values())
    distinct, first = np.unique(values, return_index=True)
    order = np.argsort(first)
    return list(zip(distinct[order].tolist(), first[order].tolist(), strict=True))


def is_label(value: Any) -> bool:
    """Whether a value can be a label: a number, a bool or a text that is there.

    Examples
    --------
    >>> is_label("tumor"), is_label(""), is_label(float("nan"))
    (True, False, False)
    """
    return (isinstance(value, (bool, int, str)) and value != "") or (isinstance(value, float) and math.isfinite(value))


def text(value: Any) -> str:
    """A label as it is written on a command line or in a file.

    Examples
    --------
    >>> text(1.0), text("tumor"), text(True)
    ('1', 'tumor', 'True')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def _odd(value: Any, name: Any, before: list[Any]) -> InputError:
    if set(before) <= {0, 1}:
        number = "the numbers " if isinstance(value, str) else ""
        return InputError(f"label of bag {name} is {value!r}; labels must be {number}0 or 1.")
    shown = " and ".join(repr(kind) for kind in before)
    return InputError(f"label of bag {name} is {value!r}, after {shown}; labels must be of two classes.")


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
    if bags.rows is not None and len(array) == bags.n_instances:
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
    if bags.numbered or (bags.rows is not None and len(values) == bags.n_instances > len(bags)):
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
    unmasked(values, what)
    try:
        return np.asarray(values, dtype=object if mixed else None)  # NumPy would write numbers as text
    except ValueError as error:
        raise InputError(f"{what} are ragged, expected one per bag.") from error


def _is_sorted(ids: Array) -> bool:
    return bool((ids[1:] >= ids[:-1]).all())


def _twice(values: list[Any]) -> Any:
    seen: set[Any] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
