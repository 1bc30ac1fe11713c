"""The feature columns of a table that is read at once or chunk by chunk: chosen by name, and all of them numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from psimil.data.columns import NUMERIC
from psimil.data.feature_choice import Names, as_names, chosen_columns, drop_option, one_line
from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning, InputError

NUMBER = re.compile(r"\s*[+-]?(\d+|\d{1,3}([., ']\d{3})+|(?=[.,]\d))([.,]\d*)?([eE][+-]?\d+)?\s*")
NUMBERS, TRUTHS, TEXT = range(3)  # what a column holds
GROUPED, FOREIGN, WRITTEN = range(3, 6)  # numbers as text: 1.234,5 and 1,5 and 1.5
MIXED = {
    TEXT: "numbers, but {} in row {}. Correct it",
    TRUTHS: "numbers, but {} in row {}. Correct it",
    GROUPED: "{} in row {}, which is no number here. Write it without marks between thousands",
    FOREIGN: "{} in row {}, which is no number here. Write all decimals with a point",
    WRITTEN: "numbers as text, {} in row {}. Store them as numbers",
}
Seen = dict[int, tuple[int, str]]  # first row and value of each
FEW = 8  # rows, or bags, whose order a measurement can follow by chance
RARE = 1e-3  # chance at which that is no chance
ROWS, BAGS = "the order of the rows", "the order or the number of the bag"


class FeatureColumns:
    """The columns that are features: those that are chosen, but for columns of nothing but text.

    Parameters
    ----------
    columns, name, others, features, drop : as for :func:`psimil.data.feature_choice.chosen_columns`.

    Attributes
    ----------
    chosen : the columns that the names choose, with text or not.
    sizes : (B,) number of rows of each bag.

    Examples
    --------
    >>> found = FeatureColumns(["bag", "f"], "bags.csv", {"bag"})
    >>> found.look(pd.DataFrame({"bag": ["a", "b"], "f": [0.5, 1.5]}), np.array([0, 1]))
    >>> found.names()
    ['f']
    >>> found.look(pd.DataFrame({"bag": ["a"], "f": ["0.5 mm"]}), np.array([0]))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bags.csv: column "f" holds numbers, but '0.5 mm' in row 3. Correct it, or \
leave the column out with --drop "f" (of psimil fit and data import).
    """

    def __init__(
        self,
        columns: Sequence[Any],
        name: str,
        others: Collection[Any] = (),
        features: Names = None,
        drop: Names = None,
    ) -> None:
        self._name, self._asked = name, features is not None
        chosen = self.chosen = chosen_columns(columns, name, others, features, drop)
        named = set(as_names(features))  # whoever gives the very name wants the column
        self._seen: dict[Any, Seen] = {column: {} for column in chosen}
        self._orders = {column: Order() for column in chosen if str(column) not in named}
        self.sizes = np.empty(0, dtype=np.int64)
        self._rows = 0

    def look(self, frame: pd.DataFrame, bag: NDArray[Any]) -> None:
        """Go on with further rows; numbers and text in one column are refused.

        Parameters
        ----------
        frame : n rows with all columns.
        bag : (n,) number of each row's bag, counted as bags appear.
        """
        kinds = dict(zip(frame.columns, frame.dtypes, strict=True))
        begins = self._begins(bag)
        for column, seen in self._seen.items():
            kind, order = kinds[column].kind, self._orders.get(column)
            known = kind in "iuf" and list(seen) == [NUMBERS]
            if known and order is None:
                continue
            cells = frame[column]
            numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan) if kind in NUMERIC else None
            if not known:
                missing = np.asarray(cells.isna(), dtype=bool) if numbers is None else np.isnan(numbers)
                self._look_at(column, cells, missing, seen)
            if order is not None and numbers is not None:
                order.look(numbers, bag, begins)
            if order is not None and (numbers is None or not order.alive):
                del self._orders[column]
        self._rows += len(frame)

    @property
    def watching(self) -> bool:
        """Whether a feature can still turn out to be the order of rows or bags."""
        return bool(self._orders)

    def names(self) -> list[Any]:
        """The features, when all rows have been seen; warns of columns of text and of those that follow the order."""
        text = [] if self._asked else [column for column, seen in self._seen.items() if TEXT in seen]
        features = [column for column in self._seen if column not in text]
        if not features:
            raise InputError(f"{self._name} has no numeric feature column beside the bag and label columns.")
        if text:
            skipped = one_line(", ".join(map(str, text)))
            message = f"{self._name}: columns that are not numeric are not used: {skipped}."
            warnings.warn(message, DataWarning, stacklevel=5)
        verdicts = {column: order.verdict(self.sizes) for column, order in self._orders.items()}
        for words in dict.fromkeys(filter(None, verdicts.values())):
            columns = [column for column, verdict in verdicts.items() if verdict == words]
            listed = one_line(", ".join(f'"{column}"' for column in columns))
            message = (
                f"{self._name}: feature {listed} is {words}, which says nothing about new bags. "
                f"Unless it was measured, leave it out with {drop_option(columns)}."
            )
            warnings.warn(message, DataWarning, stacklevel=5)
        return features

    def _begins(self, bag: NDArray[Any]) -> NDArray[Any]:
        """Count the rows of each bag, and return those at which a bag appears for the first time."""
        numbers, first = np.unique(bag, return_index=True)
        begins: NDArray[Any] = first[numbers >= len(self.sizes)]
        counts = np.bincount(bag, minlength=len(self.sizes))
        counts[: len(self.sizes)] += self.sizes
        self.sizes = counts
        return begins

    def _look_at(self, column: Any, cells: pd.Series[Any], missing: NDArray[np.bool_], seen: Seen) -> None:
        """Note where the column first holds what; refuse it when it holds numbers and something else."""
        if not missing.all():
            for what, row, value in _contents(cells, missing):
                seen.setdefault(what, (self._rows + row + 1, value))
        others = [what for what in MIXED if what in seen]
        if others and not seen.keys().isdisjoint((NUMBERS, GROUPED, FOREIGN, WRITTEN)):
            row, value = seen[others[0]]
            cure = "" if self._asked else f", or leave the column out with {drop_option([column])}"
            raise InputError(
                f'{self._name}: column "{one_line(column)}" holds {MIXED[others[0]].format(value, row)}{cure}.'
            )


def _contents(cells: pd.Series[Any], missing: NDArray[np.bool_]) -> list[tuple[int, int, str]]:
    """What a column holds beside missing values: the first row of each kind, and its value."""
    kind = cells.dtype.kind
    first = int(np.argmin(missing))
    if kind in "iuf":
        return [(NUMBERS, first, "")]
    if kind == "b":
        return [(TRUTHS, first, repr(str(bool(cells.iloc[first]))))]
    if kind != "O":
        return [(TEXT, first, _shown(cells.iloc[first]))]
    first_rows: Seen = {}
    try:
        values = cells.astype(object).to_numpy()
    except Exception:  # pyarrow has its own family of errors
        return [(TEXT, first, "text that is not UTF-8")]
    for row in np.flatnonzero(~missing):
        what = _content(values[row])
        if what not in first_rows:
            first_rows[what] = (int(row), _shown(values[row]))
    return [(what, row, value) for what, (row, value) in first_rows.items()]


def _content(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        return TRUTHS
    if isinstance(value, (Real, Decimal)):
        return NUMBERS
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        return TEXT
    marks = [mark for mark in value.strip() if mark in "., '"]
    return GROUPED if len(marks) > 1 or "'" in marks or " " in marks else FOREIGN if "," in marks else WRITTEN


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else repr(str(value))
    return text if len(text) <= 40 else f"{text[:37]}...'"


class Order:
    """Whether a column follows the rows or the bags of its table, which is looked at chunk by chunk.

    A feature that says which row or which bag it is would be learned by heart, and says nothing about new bags.

    Attributes
    ----------
    alive : False as soon as it follows neither, after which there is no need to look on.

    Examples
    --------
    >>> order = Order()
    >>> order.look(np.arange(20.0), np.repeat(np.arange(10), 2), np.arange(0, 20, 2))
    >>> order.verdict(np.full(10, 2))
    'the order of the rows'
    """

    def __init__(self) -> None:
        self._last = np.empty(0)
        self._least, self._most = np.inf, -np.inf  # of the steps from row to row
        self._values, self._by_row, self._by_bag = np.empty(0), True, True

    @property
    def alive(self) -> bool:
        """Whether the column can still follow rows or bags."""
        return self._by_row or self._by_bag

    def look(self, values: Array, bag: Array, begins: Array) -> None:
        """Go on with further rows.

        Parameters
        ----------
        values : (n,) of the column.
        bag : (n,) number of each row's bag, counted as bags appear.
        begins : rows, of these n, at which a bag appears for the first time.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._by_row:
                steps = np.diff(np.concatenate([self._last, values]))
                self._least = np.minimum(self._least, steps.min(initial=np.inf))  # nan stays
                self._most = np.maximum(self._most, steps.max(initial=-np.inf))
                self._last, self._by_row = values[-1:], _one_way(self._least, self._most)
            if self._by_bag:
                fresh = values[begins]
                self._values = np.concatenate([self._values, fresh])
                same = bool((self._values[bag] == values).all())
                self._by_bag = same and (_rises_or_falls(fresh) or _different_whole_numbers(fresh))

    def verdict(self, sizes: Array) -> str | None:
        """What the column follows, in words, in a table whose bags have these sizes (B,); None for a measurement.

        Every step from row to row in one direction, equal steps when the bags are few; or one value in each bag that
        rises or falls from bag to bag, or that is another whole number in every bag, so close together that numbers
        drawn at random would have met.
        """
        equal_steps = self._least == self._most
        if self._by_row and sizes.sum() >= FEW and len(sizes) >= (2 if equal_steps else FEW):
            return ROWS
        if not self._by_bag or len(sizes) < FEW:
            return None
        several = (sizes > 1).sum() >= FEW  # otherwise one value in each bag means nothing
        with np.errstate(over="ignore", invalid="ignore"):
            named = several and _different_whole_numbers(self._values) and _would_have_met(self._values)
            return BAGS if named or _rises_or_falls(self._values) else None


def _one_way(least: float, most: float) -> bool:
    return bool(least > 0 or most < 0)


def _rises_or_falls(values: Array) -> bool:
    steps = np.diff(values)
    return _one_way(steps.min(initial=np.inf), steps.max(initial=-np.inf))


def _different_whole_numbers(values: Array) -> bool:
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)


def _would_have_met(values: Array) -> bool:
    """Whether as many whole numbers, drawn from the range of these, are hardly ever all different."""
    spread = np.ptp(values) + 1.0
    return bool(np.log1p(-np.arange(len(values)) / spread).sum() < np.log(RARE))
