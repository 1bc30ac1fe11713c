"""Bags in a table of any size and row order: one pass finds bags and columns, another gives the rows their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.data.bagtable import bag_labels, instance_labels, known_classes
from psimil.data.columns import INSTANCE_LABEL, LABEL, as_labels, as_numbers, ids_as_text, whole_numbers
from psimil.data.feature_choice import Names
from psimil.data.feature_columns import FeatureColumns
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.labels import ZERO_ONE, Classes, first_of_each, is_label, text
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
    """The bags of a table that is read chunk by chunk; the arguments are those of :func:`psimil.read_bags`.

    Parameters
    ----------
    chunks : gives the table from its beginning, each time it is called.
    name : of the file, for messages.

    Attributes
    ----------
    ids, sizes : (B,) of the bags, as they first appear.
    y : (B,) labels, complete when :meth:`rows` has ended; None without a column of labels.
    feature_names : D columns.
    classes : of the labels; None without any.
    n_features, n_chunks : how many features and chunks there are.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"bag": ["b", "a", "b"], "label": [1, 0, 1], "f": [1.0, 2.0, 3.0]})
    >>> table = Table(lambda: iter([frame[:2], frame[2:]]), "the table")
    >>> [(rows.places.tolist(), rows.X.tolist()) for rows in table.rows()], table.ids.tolist(), table.y.tolist()
    ([([0, 2], [[1.0], [2.0]]), ([1], [[3.0]])], ['b', 'a'], [1, 0])
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
        positive: str | None = None,
    ) -> None:
        self._chunks, self._name, self._bag = chunks, name, bag
        self._label, self._instance_label = label, instance_label
        labels: dict[str, Any] = {}
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
                if self._label is not None and len(labels) <= 2:
                    values = as_labels(chunk[self._label], self._label)
                    labels |= {text(value): value for value, _ in first_of_each(values)}
                n_rows, self.n_chunks = n_rows + len(chunk), self.n_chunks + 1
        if found is None:
            raise InputError(f"{name} has no rows: 0 bags. Give at least 1 bag.")
        seen = [value for value in labels.values() if is_label(value)]
        self._classes = Classes(*(seen or (0, 1))[:2]) if len(seen) != 1 else ZERO_ONE
        if 0 < len(seen) <= 2:  # a third label is named with its bag where it stands
            self._classes = known_classes(np.array(seen), positive)
        self.classes = self._classes if seen else None
        self._features = found.names()
        self.feature_names: tuple[str, ...] | None = tuple(map(str, self._features))
        self.n_features = len(self._features)
        self.ids, self.sizes = whole_numbers(np.array(list(found.sizes))), np.array(list(found.sizes.values()))
        self._position = {identifier: b for b, identifier in enumerate(found.sizes)}
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
            found, sizes = np.unique(bag, return_counts=True)
            order, offsets = np.argsort(bag, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])
            skeleton = Bags(np.zeros((len(chunk), 1)), offsets, self.ids[found], order)
            within = np.arange(len(chunk)) - np.repeat(skeleton.offsets[:-1], skeleton.sizes)
            places = np.repeat(next_place[found], skeleton.sizes) + within
            next_place[found] += skeleton.sizes
            if found[0] < 0 or (next_place > ends).any():
                raise InputError(f"{self._name} was changed while it was read. Import it when it is complete.")
            X = np.column_stack([as_numbers(chunk[column], column) for column in self._features])
            known = None
            if self._label is not None:
                values = as_labels(chunk[self._label], self._label)
                self._merge(y, found, bag_labels(skeleton, values, classes=self._classes)[1])
            if self._instance_label is not None:
                known = instance_labels(skeleton, as_numbers(chunk[self._instance_label], self._instance_label))
            n_rows += len(chunk)
            yield Rows(places, X[order], known)
        self.y = None if self._label is None else y

    def _merge(self, y: Array, found: Array, labels: Array) -> None:
        """Put the labels of the chunk's bags into y; bags that came before must have the same."""
        torn = found[(y[found] != UNKNOWN) & (y[found] != labels)]
        if len(torn):
            name = self.ids[torn[0]]
            one, other = sorted(map(text, self._classes))
            raise InputError(
                f"bag {name} has rows labelled {one} and rows labelled {other}. Give all rows of a bag one label."
            )
        y[found] = labels

    def _check_columns(self, chunk: pd.DataFrame, wanted: Sequence[str | None]) -> None:
        for column in wanted:
            if column is not None and column not in chunk.columns:
                columns = " ".join(", ".join(map(str, chunk.columns)).split())
                raise InputError(f'{self._name} has no column "{column}". Columns: {columns}.')
        if not chunk.columns.is_unique:
            raise InputError(f'{self._name} has more than one column "{chunk.columns[chunk.columns.duplicated()][0]}".')
