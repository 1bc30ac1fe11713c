"""Bags with all their labels, as the datasets give them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.foundations.errors import InputError
from psimil.model.bags import Bags

UNKNOWN = -1


class LabelledBags(NamedTuple):
    """Bags with all their labels: B bags, y (B,), y_instances (N,), -1 where unknown."""

    bags: Bags
    y: NDArray[np.int64]
    y_instances: NDArray[np.int64]


def labelled(bags: Bags, y: ArrayLike, y_instances: ArrayLike | None = None) -> LabelledBags:
    """Bags and labels that were checked to fit together.

    Parameters
    ----------
    bags : B bags, N instances.
    y : (B,) 0 or 1.
    y_instances : (N,) 0, 1, or -1 for unknown; None when all are unknown.

    Returns
    -------
    data : bags, y (B,), y_instances (N,).

    Examples
    --------
    >>> labelled(Bags.from_list([[[1.0], [2.0]]]), [1]).y_instances
    array([-1, -1])
    """
    if y_instances is None:
        y_instances = np.full(len(bags.X), UNKNOWN)
    return LabelledBags(
        bags,
        _checked(np.asarray(y), (len(bags),), (0, 1), bags.names, "label"),
        _checked(
            np.asarray(y_instances), (len(bags.X),), (0, 1, UNKNOWN), bags.names[bags.bag_index], "instance label"
        ),
    )


def check_bags(bags: Any) -> None:
    """Refuse what is not :class:`psimil.Bags`.

    Examples
    --------
    >>> check_bags([[[1.0]]])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bags must be psimil.Bags, got list. Make them with Bags.from_list.
    """
    if not isinstance(bags, Bags):
        raise InputError(f"bags must be psimil.Bags, got {type(bags).__name__}. Make them with Bags.from_list.")


def _checked(
    values: NDArray[Any], shape: tuple[int], allowed: tuple[int, ...], names: NDArray[Any], what: str
) -> NDArray[np.int64]:
    if values.shape != shape:
        raise InputError(f"{what}s have shape {values.shape}, expected {shape}.")
    wrong = np.flatnonzero(~np.isin(values, allowed))
    if len(wrong):
        rule = ", ".join(map(str, allowed[:-1])) + f" or {allowed[-1]}"
        raise InputError(f"{what} of bag {names[wrong[0]]} is {values[wrong[0]]}; {what}s must be {rule}.")
    return values.astype(np.int64)
