"""Bags with their labels and names, as the datasets give them and as folders with one file per bag hold them."""

import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.data.bagtable import BagTable, Slide
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.bags import Bags
from psimil.model.features import as_real
from psimil.model.labels import UNKNOWN, ZERO_ONE, Classes, known_labels

INSTANCE_LABELS = "inst_labels"  # folder of their files
SAFE = re.compile(r"\w[\w .,+=@()-]{0,199}")


class LabelledBags(NamedTuple):
    """Bags with all their labels: B bags, y (B,), y_instances (N,), -1 where unknown."""

    bags: Bags
    y: NDArray[np.int64]
    y_instances: NDArray[np.int64]


class OneBag(NamedTuple):
    """A bag: name, X (n, D), label or -1; known labels, positions (n,) and names of features or None; its slides."""

    name: str
    X: NDArray[Any]
    label: Any
    known: NDArray[Any] | None = None
    positions: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    slides: tuple[Slide, ...] = ()


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
    T, known = np.asarray(y), np.asarray(np.full(len(bags.X), UNKNOWN) if y_instances is None else y_instances)
    for what, values, count in (("labels", T, len(bags)), ("instance labels", known, len(bags.X))):
        if values.shape != (count,):
            raise InputError(f"{what} have shape {values.shape}, expected ({count},).")
    return LabelledBags(
        bags,
        known_labels(T, bags.names, "label"),
        known_labels(known, bags.names[bags.bag_index], "an instance label", (0, 1, UNKNOWN)),
    )


def together(bags_read: Iterable[OneBag]) -> LabelledBags:
    """Bags that were read one after another, each with a label, in the order of their positions if all have some.

    Examples
    --------
    >>> together([OneBag("a", np.ones((2, 1)), 1), OneBag("b", np.ones((1, 1)), 0)]).y.tolist()
    [1, 0]
    """
    each = list(bags_read)
    bags = Bags.from_list([one.X for one in each], ids=[one.name for one in each])
    known = [np.full(len(one.X), UNKNOWN) if one.known is None else one.known for one in each]
    for one, labels in zip(each, known, strict=True):
        if len(labels) != len(one.X):
            raise InputError(f"bag {one.name} has {len(labels)} instance labels for {len(one.X)} instances.")
    bags, every = replace(bags, feature_names=each[0].feature_names), np.concatenate(known)
    positions = [one.positions for one in each if one.positions is not None]
    if 0 < len(positions) < len(each):
        raise InputError("some bags have coordinates along one axis, others along several or none: they have no order.")
    if positions:
        bags = bags.in_order(np.concatenate(positions))
        every = every[bags.rows]
    return labelled(bags, [one.label for one in each], every)


def table_of(
    bags_read: Iterable[OneBag], name: str, classes: Classes | None = None, *, labels_optional: bool = False
) -> BagTable:
    """Bags that were read one after another as a table; without labels that cannot be used, if these are optional.

    Parameters
    ----------
    name : of the folder, for messages.
    classes : what it calls negative and positive bags, whose labels are 0 and 1; None for these numbers.

    Examples
    --------
    >>> table_of([OneBag("a", np.ones((2, 1)), UNKNOWN)], "folder", labels_optional=True).y is None
    True
    """
    each = list(bags_read)
    usable = not labels_optional or all(one.label in (0, 1) for one in each)
    if not usable:
        if any(one.label != UNKNOWN for one in each):
            warnings.warn(f"labels are not used: those of {name} are not all 0 or 1.", DataWarning, stacklevel=3)
        each = [one._replace(label=0) for one in each]
    bags, y, known = together(each)
    positions = [one.positions for one in each if one.positions is not None]
    slides = [
        slide._replace(start=slide.start + start)
        for one, start in zip(each, bags.offsets.tolist(), strict=False)
        for slide in one.slides
    ]
    return BagTable(
        bags,
        y if usable else None,
        known if any(one.known is not None for one in each) else None,
        classes or ZERO_ONE,
        None if bags.links is None else np.concatenate(positions).astype(np.float64)[bags.rows],
        tuple(slides),
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


def coordinates(coords: ArrayLike, bags: Bags, axes: str) -> list[NDArray[Any]]:
    """The coordinates (N, k) of all instances, bag by bag.

    Examples
    --------
    >>> coordinates([[0, 256]], Bags.from_list([[[1.0]]]), "2")
    [array([[  0, 256]])]
    """
    places = as_real(coords, "coords")
    if places.ndim != 2 or len(places) != len(bags.X):
        raise InputError(f"coords have shape {places.shape}, expected ({len(bags.X)}, {axes}).")
    return bags.split(np.asarray(coords))


def checked_names(names: Collection[Any] | NDArray[Any]) -> list[str]:
    """Names of bags as text, each safe to use as a file name in one folder, on any system.

    Raises
    ------
    InputError
        When a name is empty, too long, has a separator or begins with a dot, or when two are equal but for case.

    Examples
    --------
    >>> checked_names([7, "scan-8"])
    ['7', 'scan-8']
    >>> checked_names(["../secret"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bag name '../secret' cannot be a file name. Use letters, digits, - and _.
    """
    checked = [str(name) for name in names]
    seen: dict[str, str] = {}
    for name in checked:
        if not SAFE.fullmatch(name):
            raise InputError(f"bag name {name!r} cannot be a file name. Use letters, digits, - and _.")
        if name.casefold() in seen:
            other = seen[name.casefold()]
            raise InputError(f"bag names {other!r} and {name!r} would share a file. Make them different.")
        seen[name.casefold()] = name
    return checked
