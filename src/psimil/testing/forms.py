"""The forms in which bags may come; the model does not depend on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from psimil.model.bags import Bags
from psimil.testing.expectations import close, same
from psimil.testing.subject import Subject, needs, positive

Array = NDArray[Any]


def check_bags_as_tuple(subject: Subject) -> None:
    """A tuple of arrays."""
    _equal(subject, tuple, "from a tuple")


def check_bags_as_nested_lists(subject: Subject) -> None:
    """Lists of lists of numbers."""
    _equal(subject, lambda bags: [bag.tolist() for bag in bags], "from nested lists")


def check_bags_as_object_array(subject: Subject) -> None:
    """A numpy array of arrays, as scikit-learn's splitters make."""

    def pack(bags: list[Array]) -> Array:
        packed = np.empty(len(bags), dtype=object)
        packed[:] = bags
        return packed

    _equal(subject, pack, "from an object array")


def check_bags_as_3d_array(subject: Subject) -> None:
    """An array (B, n, D), when all bags have the same size."""
    bags, asked = (np.stack([np.resize(bag, (2, 3)) for bag in given]) for given in (subject.bags, subject.unseen))
    expected = positive(subject.train(list(bags)), list(asked))
    same(positive(subject.train(bags), asked), expected, "from a 3-D array")


def check_bags_object(subject: Subject) -> None:
    """psimil's own Bags."""
    _equal(subject, Bags.from_list, "from Bags")


def check_bag_names(subject: Subject) -> None:
    """Names of bags are names, and nothing is learned from them."""
    _equal(subject, lambda bags: Bags.from_list(bags, [f"b{9 - k}" for k in range(len(bags))]), "from named Bags")


def check_bags_as_frames(subject: Subject) -> None:
    """pandas tables."""
    _equal(subject, lambda bags: [pd.DataFrame(bag, index=range(5, 5 + len(bag))) for bag in bags], "from tables")


def check_fortran_order(subject: Subject) -> None:
    """Arrays that are stored column by column."""
    _equal(subject, lambda bags: [np.asfortranarray(bag) for bag in bags], "from columns")


def check_strided_input(subject: Subject) -> None:
    """Views that skip rows and run backwards."""

    def stride(bags: list[Array]) -> list[Array]:
        return [np.repeat(bag, 2, axis=0)[::-1][::2][::-1] for bag in bags]

    _equal(subject, stride, "from strided views")


def check_byte_order(subject: Subject) -> None:
    """Numbers stored the other way round."""
    _equal(subject, lambda bags: [bag.astype(">f8") for bag in bags], "from big-endian numbers")


def check_float32_input(subject: Subject) -> None:
    """Single precision features give nearly the same."""
    made = subject.train([bag.astype(np.float32) for bag in subject.bags])
    close(positive(made, subject.unseen), subject.expected, "from single precision", 1e-2)


def check_integer_input(subject: Subject) -> None:
    """Whole numbers stored as integers equal the same numbers stored as floats."""
    whole = [np.round(3 * bag) for bag in subject.bags]
    asked = [np.round(3 * bag) for bag in subject.unseen]
    expected = positive(subject.train(whole), asked)
    made = subject.train([bag.astype(np.int32) for bag in whole])
    same(positive(made, [bag.astype(np.int8) for bag in asked]), expected, "from integers")


@needs(fit_argument="bag_ids")
def check_rows_with_bag_ids(subject: Subject) -> None:
    """Rows and the id of each row's bag, with bags as their ids first appear."""

    def rows(bags: list[Array]) -> tuple[Array, Array]:
        return np.concatenate(bags), np.repeat(np.arange(len(bags)) * 3 - 5, [len(bag) for bag in bags])

    features, ids = rows(subject.bags)
    made = subject.fresh().fit(features, subject.y, bag_ids=ids)
    features, ids = rows(subject.unseen)
    same(np.asarray(made.predict_proba(features, bag_ids=ids))[:, 1], subject.expected, "from rows with bag ids")


def _equal(subject: Subject, form: Callable[[list[Array]], Any], what: str) -> None:
    made = subject.train(form(subject.bags))
    same(positive(made, form(subject.unseen)), subject.expected, what)
