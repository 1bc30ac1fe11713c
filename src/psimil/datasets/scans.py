"""CT scans as bags of slices: CNN features, labels, and what the CNN itself predicted, read from a CSV file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from psimil.data.chunks import read_csv
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.labels import UNKNOWN

SCAN, SLICE, LABEL, SLICE_LABEL = "bag_name", "instance_name", "bag_label", "instance_label"
POSITION = "order"
CNN_PROB, CNN_PRED, CNN_SLICE = "bag_cnn_probability", "bag_cnn_prediction", "cnn_prediction"

NUMBER, BINARY, PROBABILITY = "a number", "0 or 1", "between 0 and 1"
RULES: Mapping[str, Callable[[Array], Array]] = {
    NUMBER: np.isfinite,
    BINARY: lambda values: np.isin(values, (0, 1)),
    PROBABILITY: lambda values: (values >= 0) & (values <= 1),
}


@dataclass(frozen=True, eq=False)
class Scans:
    """B scans with N slices in all, and the predictions of the attention CNN that made the features.

    Parameters
    ----------
    bags : one bag per scan, ids are the scans' names in sorted order; ``bags.rows`` are the rows of the file. They are
        in order (:meth:`psimil.Bags.in_order`) where the position is known.
    y : (B,) 1 for a scan with a hemorrhage.
    y_instances : (N,) the same of a slice, -1 where unknown.
    cnn_prob : (B,) probability that the CNN gives a scan, or None when the file has none.
    cnn_pred : (B,) 0 or 1, its prediction, or None.
    cnn_instances : (N,) 0 or 1, its prediction of a slice, or None.
    position : (N,) axial position 0, 1, ... of a slice, in which the slices are sorted; None when it is not known
        and the slices come as in the file.
    """

    bags: Bags
    y: NDArray[np.int64]
    y_instances: NDArray[np.int64]
    cnn_prob: NDArray[np.float64] | None
    cnn_pred: NDArray[np.int64] | None
    cnn_instances: NDArray[np.int64] | None
    position: NDArray[np.int64] | None


def read_scans(
    path: Path,
    *,
    n_features: int,
    required: Sequence[str] = (),
    order: Path | None = None,
    rows_in_order: bool = False,
) -> Scans:
    r"""Scans from a CSV file with one row per slice.

    Parameters
    ----------
    path : CSV, plain or gzipped, with the columns feature_0, ..., bag_name and bag_label, and perhaps instance_label,
        cnn_prediction, bag_cnn_prediction and bag_cnn_probability.
    n_features : D.
    required : those of the optional columns that must be there.
    order : CSV file with the columns instance_name and order, the axial position of each slice; None when unknown.
    rows_in_order : the rows of a scan are in axial order already.

    Returns
    -------
    scans : Scans with X (N, D).

    Examples
    --------
    >>> path = Path("scans.csv")
    >>> _ = path.write_text("feature_0,bag_name,bag_label\n0.5,b,1\n0.1,a,0\n0.7,b,1\n")
    >>> scans = read_scans(path, n_features=1, rows_in_order=True)
    >>> scans.bags.ids.tolist(), scans.y.tolist(), scans.position.tolist()
    (['a', 'b'], [0, 1], [0, 0, 1])
    """
    frame = read_csv(path, text=SCAN)
    features = [f"feature_{d}" for d in range(n_features)]
    _require(frame, (*features, SCAN, LABEL, *required, *(() if order is None else (SLICE,))), path.name)
    names = frame[SCAN].to_numpy().astype(str)
    nameless = np.flatnonzero(names == "")
    if len(nameless):
        raise InputError(f'{path.name}: row {nameless[0] + 1} has no scan (column "{SCAN}").')
    X = np.column_stack([_column(frame, column, path.name) for column in features])
    place = None if order is None else _positions(frame, order, path.name)
    ids, scan = np.unique(names, return_inverse=True)
    rows = np.argsort(scan, kind="stable") if place is None else np.lexsort((place, scan))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(scan))])
    bags = Bags(X[rows], offsets, ids, rows=rows)
    position = None if place is None else place[rows]
    if rows_in_order and place is None:
        position = np.arange(len(X)) - np.repeat(offsets[:-1], bags.sizes)

    def per_slice(column: str) -> Array | None:
        return _column(frame, column, path.name, BINARY)[rows] if column in frame.columns else None

    def per_scan(column: str, rule: str = BINARY) -> Any:
        values = _column(frame, column, path.name, rule) if column in frame.columns else None
        return None if values is None else _per_scan(bags, values, column, path.name)

    slice_labels = per_slice(SLICE_LABEL)
    return Scans(
        bags if position is None else bags.in_order(),
        per_scan(LABEL),
        np.full(len(X), UNKNOWN) if slice_labels is None else slice_labels,
        per_scan(CNN_PROB, PROBABILITY),
        per_scan(CNN_PRED),
        per_slice(CNN_SLICE),
        position,
    )


def _require(frame: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    for column in columns:
        if column not in frame.columns:
            raise InputError(f'{name} has no column "{column}". It needs {", ".join(columns)}.')
    if len(frame) == 0:
        raise InputError(f"{name} has no rows: 0 slices.")


def _column(frame: pd.DataFrame, column: str, name: str, rule: str = NUMBER) -> Array:
    """(N,) numbers of a column that keep the rule."""
    values = np.asarray(pd.to_numeric(frame[column], errors="coerce"), dtype=np.float64)
    for words in (NUMBER, rule):
        wrong = np.flatnonzero(~RULES[words](values))
        if len(wrong):
            value = frame[column].iloc[wrong[0]]
            shown = "empty" if value != value else f"{value}"  # noqa: PLR0124  nan is not equal to itself
            raise InputError(f'{name}: row {wrong[0] + 1}, column "{column}" is {shown}; it must be {words}.')
    return values.astype(np.int64) if rule == BINARY else values


def _per_scan(bags: Bags, values: Array, column: str, name: str) -> Array:
    """(B,) values from (N,) values in the order of the file, which must agree within a scan."""
    stored = values[bags.rows]
    first = stored[bags.offsets[:-1]]
    torn = np.flatnonzero(stored != np.repeat(first, bags.sizes))
    if len(torn):
        row, scan = np.arange(len(values))[bags.rows][torn[0]], bags.names[bags.bag_index[torn[0]]]
        raise InputError(f'{name}: row {row + 1} gives scan {scan} a second value of "{column}".')
    return first


def _positions(frame: pd.DataFrame, order: Path, name: str) -> NDArray[np.int64]:
    """(N,) axial position of every row."""
    table = read_csv(order, text=SLICE)
    _require(table, (SLICE, POSITION), order.name)
    _column(table, POSITION, order.name)
    positions = table.set_index(SLICE)[POSITION]
    if not positions.index.is_unique:
        raise InputError(f"{order.name} names a slice twice.")
    axial = frame[SLICE].map(positions).to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.flatnonzero(np.isnan(axial))
    if len(missing):
        raise InputError(f"{name}: the slice of row {missing[0] + 1} has no axial position in {order.name}.")
    return np.asarray(axial, dtype=np.int64)
