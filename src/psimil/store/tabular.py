"""Bags in a table of any size and row order: one pass finds bags and columns, another gives the rows their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.bagtable import bag_labels, instance_labels
from psimil.columns import INSTANCE_LABEL, LABEL, as_numbers, ids_as_text, whole_numbers
from psimil.feature_choice import Names
from psimil.feature_columns import FeatureColumns
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.store.layout import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


class Rows(NamedTuple):
    """Rows for their places: places (n,), X (n, D), known (n,) instance labels or None."""

    places: Array
    X: Array
    known: Array | None


class Table:
    """The bags of a table that is read chunk by chunk; the arguments are those of :func:`psimil.tables.read_bags`.

    Parameters
    ----------
    chunks : gives the table from its beginning, each time it is called.
    name : of the file, for messages.

    Attributes
    ----------
    ids, sizes : (B,) of the bags, sorted by id.
    y : (B,) labels, complete when :meth:`rows` has ended; None without a column of labels.
    feature_names : D columns.
    n_features, n_chunks : how many features and chunks there are.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"bag": ["b", "a", "b"], "label": [1, 0, 1], "f": [1.0, 2.0, 3.0]})
    >>> table = Table(lambda: iter([frame[:2], frame[2:]]), "the table")
    >>> [(rows.places.tolist(), rows.X.tolist()) for rows in table.rows()], table.ids.tolist(), table.y.tolist()
    ([([0, 1], [[2.0], [1.0]]), ([2], [[3.0]])], ['a', 'b'], [0, 1])
    """

    def __init__(
        self,
        chunks: Callable[[], Iterator[pd.DataFrame]],
        name: str,
        bag: str = "bag",
        label: str | None = None,
        instance_label: str | None = None,
        features: Names = None,
        drop: Names = None,
    ) -> None:
        self._chunks, self._name, self._bag = chunks, name, bag
        self._label, self._instance_label = label, instance_label
        found: FeatureColumns | None = None
        n_rows = self.n_chunks = 0
        for chunk in chunks():
            if n_rows == 0:
                self._check_columns(chunk, (bag, label, instance_label))
                self._label = label or (LABEL if LABEL in chunk.columns else None)
                self._instance_label = instance_label or (INSTANCE_LABEL if INSTANCE_LABEL in chunk.columns else None)
            if len(chunk):
                if found is None:
                    others = {bag, self._label, self._instance_label}
                    found = FeatureColumns(list(chunk.columns), name, others, features, drop)
                found.look(chunk, ids_as_text(chunk[bag], bag, n_rows))
                n_rows, self.n_chunks = n_rows + len(chunk), self.n_chunks + 1
        if found is None:
            raise InputError(f"{name} has no rows: 0 bags. Give at least 1 bag.")
        self._features = found.names()
        self.feature_names: tuple[str, ...] | None = tuple(map(str, self._features))
        self.n_features = len(self._features)
        text = np.array(list(found.sizes))
        ids = whole_numbers(text)
        order = np.argsort(ids)
        self.ids, self.sizes = ids[order], np.array(list(found.sizes.values()))[order]
        self._position = {str(text[k]): b for b, k in enumerate(order)}
        self.y: NDArray[np.int64] | None = None

    def rows(self) -> Iterator[Rows]:
        """All rows, chunk by chunk, each chunk sorted by place."""
        ends = np.cumsum(self.sizes)
        next_place = ends - self.sizes
        y = np.full(len(self.ids), UNKNOWN)
        n_rows = 0
        for chunk in self._chunks():
            if not len(chunk):
                continue
            ids = ids_as_text(chunk[self._bag], self._bag, n_rows)
            bag = np.array([self._position.get(identifier, -1) for identifier in ids.tolist()])
            found, first = np.unique(bag, return_inverse=True)
            skeleton = Bags.from_arrays(np.zeros((len(chunk), 1)), first)
            skeleton = Bags(skeleton.X, skeleton.offsets, self.ids[found], skeleton.rows)
            assert skeleton.rows is not None
            within = np.arange(len(chunk)) - np.repeat(skeleton.offsets[:-1], skeleton.sizes)
            places = np.repeat(next_place[found], skeleton.sizes) + within
            next_place[found] += skeleton.sizes
            if found[0] < 0 or (next_place > ends).any():
                raise InputError(f"{self._name} was changed while it was read. Import it when it is complete.")
            X = np.column_stack([as_numbers(chunk[column], column) for column in self._features])
            known = None
            if self._label is not None:
                self._merge(y, found, bag_labels(skeleton, as_numbers(chunk[self._label], self._label)))
            if self._instance_label is not None:
                known = instance_labels(skeleton, as_numbers(chunk[self._instance_label], self._instance_label))
            n_rows += len(chunk)
            yield Rows(places, X[skeleton.rows], known)
        self.y = None if self._label is None else y

    def _merge(self, y: Array, found: Array, labels: Array) -> None:
        """Put the labels of the chunk's bags into y; bags that came before must have the same."""
        torn = found[(y[found] != UNKNOWN) & (y[found] != labels)]
        if len(torn):
            name = self.ids[torn[0]]
            raise InputError(f"bag {name} has rows labelled 0 and rows labelled 1. Give all rows of a bag one label.")
        y[found] = labels

    def _check_columns(self, chunk: pd.DataFrame, wanted: Sequence[str | None]) -> None:
        for column in wanted:
            if column is not None and column not in chunk.columns:
                columns = " ".join(", ".join(map(str, chunk.columns)).split())
                raise InputError(f'{self._name} has no column "{column}". Columns: {columns}.')
        if not chunk.columns.is_unique:
            raise InputError(f'{self._name} has more than one column "{chunk.columns[chunk.columns.duplicated()][0]}".')
