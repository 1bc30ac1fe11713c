"""The two classes of bag labels: any two values, of which one is positive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

Array = NDArray[Any]

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
    array = np.asarray(values)
    kinds: list[Any] = []
    for value, place in first_of_each(array):
        if not is_label(value):
            shown = repr(value) if isinstance(value, str | bytes) else value
            raise InputError(f"label of bag {names[place]} is {shown}; give every bag one of two labels.")
        kinds.append(value)
        if len(kinds) > 2 or isinstance(value, str) != isinstance(kinds[0], str):
            raise _odd(value, names[place], kinds[:-1])
    return np.array(array.tolist()) if array.dtype == object else array


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
