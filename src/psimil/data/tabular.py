"""Bags in a table of any size and row order: one pass finds bags and columns, another gives the rows their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from psimil.data.bagtable import ALL_OF_IT, FARTHEST, Rows, TableOptions
from psimil.data.columns import NUMERIC, BagIds, BagLabels, as_labels, as_numbers, instance_labels
from psimil.data.feature_choice import one_line
from psimil.data.feature_columns import FeatureColumns
from psimil.foundations.errors import InputError, NoBagColumn
from psimil.model.bag_checks import INSTANCE_LABEL, LABEL
from psimil.model.labels import Classes


class Table:
    """The bags of a table, as a :class:`psimil.data.bagtable.Source`.

    Parameters
    ----------
    chunks : gives the table from its beginning, each time it is called.
    name : of the file, for messages.
    options : which columns are what.

    Examples
    --------
    >>> frame = pd.DataFrame({"bag": ["b", "a", "b"], "label": [1, 0, 1], "f": [1.0, 2.0, 3.0]})
    >>> table = Table(lambda: iter([frame[:2], frame[2:]]), "the table")
    >>> [(rows.places.tolist(), rows.X.tolist()) for rows in table.rows()], table.ids.tolist(), table.y.tolist()
    ([([0, 2], [[1.0], [2.0]]), ([1], [[3.0]])], ['b', 'a'], [1, 0])
    """

    dtype, grouped = np.dtype(np.float64), False

    def __init__(
        self,
        chunks: Callable[[], Iterator[pd.DataFrame]],
        name: str,
        options: TableOptions = ALL_OF_IT,
    ) -> None:
        self._chunks, self._name, self._options = chunks, name, options
        self._label, self._instance_label = options.label, options.instance_label
        self._ids, labels = BagIds(options.bag), BagLabels.of(options)
        columns: FeatureColumns | None = None
        n_rows = self.n_chunks = 0
        for chunk in chunks():
            if n_rows == 0:
                self._find_columns(chunk)
            if not len(chunk):
                continue
            number = self._ids.numbers(chunk[options.bag], n_rows)
            if columns is None:
                others = {options.bag, self._label, self._instance_label, options.position}
                columns = FeatureColumns(list(chunk.columns), name, others, options.features, options.drop)
                self._refuse_labels_among(columns.chosen)
            columns.look(chunk, number)
            if self._label is not None:
                labels.look(as_labels(chunk[self._label], self._label), number, self._ids.written)
            n_rows, self.n_chunks = n_rows + len(chunk), self.n_chunks + 1
        if columns is None:
            raise InputError(f"{name} has no rows: 0 bags. Give at least 1 bag.")
        self._features = columns.names()
        self.feature_names: tuple[str, ...] | None = tuple(map(str, self._features))
        self.n_features = len(self._features)
        self.ids, self.sizes = self._ids.names(), columns.sizes
        self.classes: Classes | None = None
        self.y: NDArray[np.int64] | None = None
        if self._label is not None:
            self.classes, self.y = labels.coded(len(self.ids))

    def rows(self) -> Iterator[Rows]:
        """All rows, in the order of the file."""
        ends = np.cumsum(self.sizes)
        next_place = ends - self.sizes
        n_rows = 0
        for chunk in self._chunks():
            if not len(chunk):
                continue
            bag = self._ids.numbers(chunk[self._options.bag], n_rows)
            counts = np.bincount(bag, minlength=len(ends))
            if len(counts) > len(ends) or (next_place + counts > ends).any():
                raise InputError(f"{self._name} was changed while it was read. Import it when it is complete.")
            order = np.argsort(bag, kind="stable")
            within = np.arange(len(chunk)) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.empty(len(chunk), dtype=np.int64)
            places[order] = np.repeat(next_place, counts) + within
            next_place += counts
            X = self._numbers(chunk)
            yield Rows(X, places, self._known(chunk, bag), self._positions(chunk, n_rows))
            n_rows += len(chunk)

    def _numbers(self, chunk: pd.DataFrame) -> NDArray[np.float64]:
        """(n, D) features; plain numbers are taken at once, which matters where there are many columns."""
        features = chunk[self._features]
        if all(isinstance(dtype, np.dtype) and dtype.kind in NUMERIC for dtype in features.dtypes):
            return np.asarray(features.to_numpy(dtype=np.float64))
        return np.column_stack([as_numbers(features[column], column) for column in self._features])

    def _known(self, chunk: pd.DataFrame, bag: NDArray[Any]) -> NDArray[np.int64] | None:
        """(n,) instance labels."""
        column = self._instance_label
        if column is None:
            return None
        return instance_labels(as_numbers(chunk[column], column), self.ids[bag])

    def _positions(self, chunk: pd.DataFrame, rows_before: int) -> NDArray[np.float64] | None:
        """(n,) positions, all of them finite."""
        column = self._options.position
        if column is None:
            return None
        positions = as_numbers(chunk[column], column)
        missing = np.flatnonzero(~np.isfinite(positions))
        if len(missing):
            row = rows_before + missing[0] + 1
            raise InputError(f'column "{column}" must hold a position in every row, row {row} has none.')
        if len(far := np.flatnonzero(np.abs(positions) > FARTHEST)):
            value = f"{positions[far[0]]:g} in row {rows_before + far[0] + 1}"
            raise InputError(f'column "{column}" holds {value}, which is no position. Mend it or name another column.')
        return positions

    def _refuse_labels_among(self, features: list[Any]) -> None:
        """Labels that are needed may not be features, too; of a prediction, a column called like them may be one."""
        bag, roles = self._options.bag, (self._label, self._instance_label, self._options.position)
        if bag in features or bag in roles:
            raise InputError(f'{self._name}: column "{bag}" holds the ids of bags and cannot be anything else, too.')
        for column in (self._label, self._instance_label):
            if column is not None and column in features and not self._options.labels_optional:
                raise InputError(f'{self._name}: column "{column}" holds labels and cannot be a feature, too.')

    def _find_columns(self, chunk: pd.DataFrame) -> None:
        for column in (self._options.bag, self._label, self._instance_label, self._options.position):
            if column is not None and column not in chunk.columns:
                columns = one_line(", ".join(map(str, chunk.columns)))
                kind = NoBagColumn if column == self._options.bag else InputError
                raise kind(f'{self._name} has no column "{column}". Columns: {columns}.')
        if not chunk.columns.is_unique:
            raise InputError(f'{self._name} has more than one column "{chunk.columns[chunk.columns.duplicated()][0]}".')
        there = set(chunk.columns) - {self._options.bag}
        self._label = self._label or (LABEL if LABEL in there else None)
        self._instance_label = self._instance_label or (INSTANCE_LABEL if INSTANCE_LABEL in there else None)
