"""A table of instances as the model wants it: bags, their labels, and the names of the features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.bags import Bags

UNKNOWN = -1

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class BagTable:
    """A table of instances as the model wants it.

    Parameters
    ----------
    bags : B bags sorted by id, N instances; ``bags.rows`` maps back to the rows of the file.
    y : (B,) bag labels in the order of ``bags.ids``, or None.
    y_instances : (N,) instance labels in the order of ``bags.X``, -1 for unknown, or None.
    feature_names : D column names.
    """

    bags: Bags
    y: NDArray[np.int64] | None
    y_instances: NDArray[np.int64] | None
    feature_names: tuple[str, ...]


def bag_labels(bags: Bags, values: Array) -> NDArray[np.int64]:
    """One label per bag from one value per row, which must agree within each bag.

    Parameters
    ----------
    bags : B bags, N instances.
    values : (N,) 0 or 1, in the row order of the file.

    Returns
    -------
    y : (B,) labels.

    Examples
    --------
    >>> bag_labels(Bags.from_arrays([[1.0], [2.0], [3.0]], ["b", "a", "b"]), np.array([1, 0, 1]))
    array([0, 1])
    """
    stored = _stored(bags, values, "bag labels")
    _check(bags, stored, (0, 1), "label of bag", "labels must be 0 or 1")
    y = stored[bags.offsets[:-1]]
    torn = np.flatnonzero(stored != np.repeat(y, bags.sizes))
    if len(torn):
        name = bags.names[bags.bag_index[torn[0]]]
        raise InputError(f"bag {name} has rows labelled 0 and rows labelled 1. Give all rows of a bag one label.")
    return y.astype(np.int64)


def instance_labels(bags: Bags, values: Array) -> NDArray[np.int64]:
    """Labels of the instances in the order of ``bags.X``.

    Parameters
    ----------
    bags : B bags, N instances.
    values : (N,) 0, 1, or -1 or nan for unknown, in the row order of the file.

    Returns
    -------
    y_instances : (N,) 0, 1 or -1.

    Examples
    --------
    >>> instance_labels(Bags.from_arrays([[1.0], [2.0], [3.0]], ["b", "a", "b"]), np.array([1, 0, np.nan]))
    array([ 0,  1, -1])
    """
    stored = _stored(bags, values, "instance labels")
    stored = np.where(np.isnan(stored), UNKNOWN, stored)
    rule = "instance labels must be 0, 1 or -1 (unknown)"
    _check(bags, stored, (0, 1, UNKNOWN), "an instance label of bag", rule)
    return stored.astype(np.int64)


def _check(bags: Bags, stored: Array, allowed: tuple[int, ...], what: str, rule: str) -> None:
    wrong = np.flatnonzero(~np.isin(stored, allowed))
    if len(wrong):
        value = stored[wrong[0]]
        shown = "missing" if np.isnan(value) else f"{value:g}"
        raise InputError(f"{what} {bags.names[bags.bag_index[wrong[0]]]} is {shown}; {rule}.")


def _stored(bags: Bags, values: Array, what: str) -> NDArray[np.float64]:
    """Values per row of the file as float, in the order of ``bags.X``."""
    if values.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, got {values.dtype}.")
    if values.shape != (len(bags.X),):
        raise InputError(f"{len(bags.X)} instances but {what} of shape {values.shape}.")
    return (values if bags.rows is None else values[bags.rows]).astype(np.float64)
