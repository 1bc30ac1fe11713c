"""A table of instances as the model wants it: bags, their labels, and the names of the features."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import DataWarning, InputError
from psimil.model.bags import Bags
from psimil.model.labels import ZERO_ONE, Classes, first_of_each, is_label, label_values, text

UNKNOWN = -1

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class BagTable:
    """A table of instances as the model wants it.

    Parameters
    ----------
    bags : B bags as they first appear, N instances; ``bags.rows`` maps back to the rows of the file.
    y : (B,) 1 for positive and 0 for negative bags, in the order of ``bags.ids``, or None.
    y_instances : (N,) instance labels in the order of ``bags.X``, -1 for unknown, or None.
    classes : what the file calls negative and positive bags.
    positions : (N,) along each bag, in the order of ``bags.X``, which is theirs; None when no column was named.
    """

    bags: Bags
    y: NDArray[np.int64] | None
    y_instances: NDArray[np.int64] | None
    classes: Classes = ZERO_ONE
    positions: NDArray[np.float64] | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """D names of the features; "0", "1", ... where the file has none."""
        return self.bags.feature_names or tuple(map(str, range(self.bags.n_features)))

    @property
    def labels(self) -> Array | None:
        """(B,) labels of the bags as the file has them, or None."""
        return None if self.y is None else np.array(self.classes)[self.y]


def table_labels(
    bags: Bags, values: Any, *, positive: str | None = None, classes: Classes | None = None, optional: bool = False
) -> tuple[Classes, NDArray[np.int64] | None]:
    """As :func:`bag_labels`; ``optional`` ones that cannot be used are left out, with a warning unless all are missing.

    Examples
    --------
    >>> table_labels(Bags.from_list([[[1.0]]]), [np.nan], classes=Classes(0, 1), optional=True)
    (Classes(negative=0, positive=1), None)
    """
    try:
        return bag_labels(bags, values, positive=positive, classes=classes)
    except InputError as error:
        if not optional:
            raise
        if any(is_label(value) for value, _ in first_of_each(np.asarray(values))):
            warnings.warn(f"labels are not used: {error}", DataWarning, stacklevel=4)
        return classes or ZERO_ONE, None


def bag_labels(
    bags: Bags, values: Any, *, positive: str | None = None, classes: Classes | None = None
) -> tuple[Classes, NDArray[np.int64]]:
    """The classes of the bags and one label per bag, from one value per row, which must agree within each bag.

    Parameters
    ----------
    bags : B bags, N instances.
    values : (N,) labels of two classes, in the row order of the file.
    positive : the class of positive bags, as text; needed where the classes do not say it themselves.
    classes : those that are known already; others are refused.

    Returns
    -------
    classes, y : the two classes; (B,) 1 for positive and 0 for negative bags.

    Examples
    --------
    >>> bag_labels(Bags.from_arrays([[1.0], [2.0], [3.0]], ["b", "a", "b"]), np.array([1, 0, 1]))
    (Classes(negative=0, positive=1), array([1, 0]))
    """
    if len(values) != len(bags.X):
        raise InputError(f"{len(bags.X)} instances but bag labels of shape ({len(values)},).")
    by_row = np.asarray(values) if bags.rows is None else np.asarray(values)[bags.rows]
    names = bags.names[bags.bag_index]
    stored = label_values(by_row, names)
    first = stored[bags.offsets[:-1]]
    torn = np.flatnonzero(stored != np.repeat(first, bags.sizes))
    if len(torn):
        one, other = sorted({text(first[bags.bag_index[torn[0]]].item()), text(stored[torn[0]].item())})
        raise InputError(
            f"bag {names[torn[0]]} has rows labelled {one} and rows labelled {other}. Give all rows of a bag one label."
        )
    found = classes or known_classes(first, positive)
    return found, found.codes(first, bags.names)


def known_classes(values: Array, positive: str | None = None) -> Classes:
    """The classes among labels of a file, where it is clear which is positive.

    Examples
    --------
    >>> known_classes(np.array(["normal", "tumor"]))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the labels are 'normal' and 'tumor'. Say which is positive: --positive tumor
    """
    found = Classes.among(values, positive)
    if positive is None and not found.usual:
        raise InputError(
            f"the labels are {found.negative!r} and {found.positive!r}. "
            f"Say which is positive: --positive {text(found.positive)}"
        )
    return found


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
    array([ 1, -1,  0])
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
