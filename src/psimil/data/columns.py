"""Columns of a table of bags: ids as text or whole numbers, labels of bags, and numbers."""

from __future__ import annotations

import warnings
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from psimil.data.bagtable import TableOptions
from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.bag_checks import check_one_kind
from psimil.model.labels import (
    UNKNOWN,
    ZERO_ONE,
    Classes,
    first_of_each,
    is_label,
    known_labels,
    label_values,
    text,
)

NUMERIC = "biuf"


class BagIds:
    """The ids of bags as they are written, numbered as they first appear.

    Parameters
    ----------
    name : of the column, for messages.

    Attributes
    ----------
    written : the B ids that have appeared.

    Examples
    --------
    >>> ids = BagIds("bag")
    >>> ids.numbers(pd.Series(["8", "7", "8"])), ids.names()
    (array([0, 1, 0]), array([8, 7]))
    >>> ids.numbers(pd.Series([[1], [2]]))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: column "bag" must hold text or numbers; bytes, lists and records are no ids.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: dict[str, int] = {}
        self.written: list[str] = []

    def numbers(self, column: pd.Series[Any], rows_before: int = 0) -> NDArray[np.int64]:
        """(n,) numbers of the bags of further rows; no id may be missing, and all must fit on a line."""
        name = self._name
        if column.dtype == object:
            if any(isinstance(value, (bytes, list, tuple, dict, np.ndarray)) for value in column):
                raise InputError(f'column "{name}" must hold text or numbers; bytes, lists and records are no ids.')
            check_one_kind(column.dropna())
        missing = np.flatnonzero(column.isna() | (column == ""))
        if len(missing):
            row = rows_before + int(missing[0]) + 1
            raise InputError(f'row {row} has no bag id (column "{name}"). Fill it in or remove the row.')
        try:
            codes, distinct = pd.factorize(np.asarray(column.to_numpy()))
            texts = distinct.tolist() if distinct.dtype == object else distinct.astype(str).tolist()
            written = list(map(str, texts))  # NumPy's own text would lose NUL at its end
        except Exception as error:  # pyarrow has its own family of errors
            raise InputError(f'column "{name}" holds text that is not UTF-8. Write the table again.') from error
        for identifier in written:
            if identifier not in self._numbers:
                if not identifier.isprintable():
                    raise InputError(f"bag id {identifier!r} holds a line break or another control character.")
                self._numbers[identifier] = len(self.written)
                self.written.append(identifier)
        number = np.array([self._numbers[identifier] for identifier in written], dtype=np.int64)
        return np.asarray(number[codes])

    def names(self) -> Array:
        """(B,) ids, as whole numbers when all are written as such."""
        written = np.array(self.written)
        try:
            whole = written.astype(np.int64)
        except (ValueError, OverflowError):
            return written
        return whole if np.array_equal(whole.astype(str), written) else written


class BagLabels:
    """The labels of bags, one for each row or bag; they must be of two classes, and agree within each bag.

    Parameters
    ----------
    positive : the class of positive bags, as text; needed where the classes do not say it themselves.
    classes : those that are known already; others are refused.
    optional : leave out labels that cannot be used, with a warning unless all are missing, instead of refusing them.

    Examples
    --------
    >>> labels = BagLabels()
    >>> labels.look(np.array([1, 0, 1]), np.array([0, 1, 0]), ["b", "a"])
    >>> labels.coded(2)
    (Classes(negative=0, positive=1), array([1, 0]))
    >>> labels.look(np.array([0]), np.array([0]), ["b", "a"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bag b has rows labelled 0 and rows labelled 1. Give all rows of ...
    """

    def __init__(self, positive: str | None = None, classes: Classes | None = None, *, optional: bool = False) -> None:
        self._positive, self._classes, self._optional = positive, classes, optional
        self._kinds: list[Any] = []
        self._first: list[Any] = []  # bag in which each kind first appears
        self._of_bag = np.empty(0, dtype=np.int64)  # the kind of each bag, -1 before its first row
        self._some, self._unfit = False, ""

    @classmethod
    def of(cls, options: TableOptions) -> Self:
        """As the options of a table say."""
        return cls(options.positive, options.classes, optional=options.labels_optional)

    def look(self, values: Array, bag: Array, names: Any) -> None:
        """Go on with further rows: their labels (n,), numbers of their bags (n,), and the names of all bags so far."""
        distinct = first_of_each(values)
        self._some = self._some or any(is_label(value) for value, _ in distinct)
        if self._unfit:
            return
        try:
            self._take(values, bag, names, distinct)
        except InputError as error:
            self._refuse(error)

    def coded(self, count: int) -> tuple[Classes, NDArray[np.int64] | None]:
        """The classes, and (B,) 1 for positive and 0 for negative bags; None when they are not used."""
        if not self._unfit:
            try:
                kinds = np.array(self._kinds)
                classes = self._classes or self._known_classes(kinds)
                return classes, classes.codes(kinds, self._first)[self._of_bag[:count]]
            except InputError as error:
                self._refuse(error)
        if self._some:
            warnings.warn(f"labels are not used: {self._unfit}", DataWarning, stacklevel=5)
        return self._classes or ZERO_ONE, None

    def _take(self, values: Array, bag: Array, names: Any, distinct: list[tuple[Any, int]]) -> None:
        for value, place in distinct:
            name = names[bag[place]]
            if not is_label(value):
                label_values(values[place : place + 1], [name])  # says so
            elif isinstance(value, str) and not value.isprintable():
                raise InputError(f"bag {name}: label {value!r} holds a line break or another control character.")
            elif value not in self._kinds:
                self._kinds.append(value)
                self._first.append(name)
                label_values(np.array(self._kinds, dtype=object), self._first)
        if len(self._of_bag) < len(names):
            fresh = np.full(len(names) - len(self._of_bag), -1)
            self._of_bag = np.concatenate([self._of_bag, fresh])
        kind = (values != self._kinds[0]).astype(np.int64)
        new = self._of_bag[bag] < 0
        self._of_bag[bag[new]] = kind[new]
        torn = np.flatnonzero(self._of_bag[bag] != kind)
        if len(torn):
            one, other = sorted(map(text, self._kinds))
            raise InputError(
                f"bag {names[bag[torn[0]]]} has rows labelled {one} and rows labelled {other}. "
                "Give all rows of a bag one label."
            )

    def _known_classes(self, kinds: Array) -> Classes:
        classes = Classes.among(kinds, self._positive)
        if self._positive is None and not classes.usual:
            raise InputError(
                f"the labels are {classes.negative!r} and {classes.positive!r}. "
                f"Say which is positive: --positive {text(classes.positive)}"
            )
        return classes

    def _refuse(self, error: InputError) -> None:
        if not self._optional:
            raise error
        self._unfit = str(error)


def instance_labels(values: Array, names: Array) -> NDArray[np.int64]:
    """(n,) labels of instances 0, 1 or -1, from numbers of which nan is unknown, too.

    Parameters
    ----------
    values : (n,) as they are in the file.
    names : (n,) bag of each, for messages.

    Examples
    --------
    >>> instance_labels(np.array([1, 0, np.nan]), np.array(["b", "a", "b"]))
    array([ 1,  0, -1])
    """
    if values.dtype.kind not in NUMERIC:
        raise InputError(f"instance labels must be numbers, got {values.dtype}.")
    if values.shape != names.shape:
        raise InputError(f"{len(names)} instances but instance labels of shape {values.shape}.")
    return known_labels(np.where(np.isnan(values), UNKNOWN, values), names, "an instance label", (0, 1, UNKNOWN))


def as_labels(column: pd.Series[Any], name: str) -> Array:
    """(n,) labels of bags as they are, numbers, bools or text.

    Examples
    --------
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


def _first(column: pd.Series[Any]) -> str:
    try:
        return repr(column.dropna().iloc[0])
    except Exception:  # pyarrow has its own family of errors
        return "text that is not UTF-8"
