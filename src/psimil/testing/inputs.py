"""Bags and labels: forms that change nothing, bags that are legal but awkward, and what is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from psimil.foundations.arrays import Array
from psimil.model.bags import Bags
from psimil.testing.expectations import close, demand, probable, refuses, same
from psimil.testing.subject import Check, Subject, needs, positive


def _object_array(bags: list[Array]) -> Array:
    """An array of arrays, as scikit-learn's splitters make."""
    packed = np.empty(len(bags), dtype=object)
    packed[:] = bags
    return packed


FORMS_OF_BAGS: dict[str, Callable[[list[Array]], Any]] = {
    "check_bags_as_tuple": tuple,
    "check_bags_as_nested_lists": lambda bags: [bag.tolist() for bag in bags],
    "check_bags_as_object_array": _object_array,
    "check_bags_object": Bags.from_list,
    "check_bag_names": lambda bags: Bags.from_list(bags, [f"b{9 - k}" for k in range(len(bags))]),
    "check_bags_as_frames": lambda bags: [pd.DataFrame(bag, index=range(5, 5 + len(bag))) for bag in bags],
    "check_fortran_order": lambda bags: [np.asfortranarray(bag) for bag in bags],
    "check_strided_input": lambda bags: [np.repeat(bag, 2, axis=0)[::-1][::2][::-1] for bag in bags],
    "check_byte_order": lambda bags: [bag.astype(">f8") for bag in bags],
}
FORMS_OF_LABELS: dict[str, tuple[Callable[[Array], Any], ...]] = {
    "check_integer_labels": (np.int8, np.uint8, np.int64),  # types make arrays of their kind
    "check_bool_labels": (lambda y: y.astype(bool),),
    "check_float_labels": (lambda y: y.astype(np.float32),),
    "check_list_labels": (lambda y: y.tolist(),),
    "check_pandas_labels": (lambda y: pd.Series(y, index=np.arange(len(y))[::-1] + 40),),  # its index does not matter
    "check_supervised_y_2d": (lambda y: y[:, None],),
}
Case = Callable[[Subject], tuple[list[Array], Any]]
HARD_CASES: dict[str, tuple[Case, ...]] = {
    "check_two_bags": (lambda subject: (subject.bags[:2], np.array([0, 1])),),
    "check_one_class": (lambda subject: (subject.bags, np.full(16, 0)), lambda subject: (subject.bags, np.full(16, 1))),
    "check_one_bag_of_a_class": (
        lambda subject: (subject.bags, np.where(np.arange(16) == 4, 0, 1)),
        lambda subject: (subject.bags, np.where(np.arange(16) == 4, 1, 0)),
    ),
    "check_duplicate_instances": (lambda subject: ([bag[:1].repeat(6, axis=0) for bag in subject.bags], subject.y),),
    "check_duplicate_bags": (lambda subject: ([subject.bags[0]] * 16, subject.y),),  # with contradicting labels
    "check_constant_features": (  # one of them, and all of them
        lambda subject: ([np.where([False, True, False], 7.0, bag) for bag in subject.bags], subject.y),
        lambda subject: ([np.full_like(bag, 7.0) for bag in subject.bags], subject.y),
    ),
}
CHANGES: dict[str, tuple[Callable[[Array], Array], ...]] = {
    "check_single_feature": (lambda rows: rows[:, -1:],),
    "check_more_features_than_instances": (lambda rows: np.tile(rows, 20),),
    "check_units_of_features": (
        lambda rows: rows * 1e-8,
        lambda rows: rows * 1e8,
        lambda rows: rows * np.array([1e-6, 1.0, 1e6]),
    ),
}
WRONG_BAGS: dict[str, tuple[Any, ...]] = {
    "check_estimators_nan_inf": tuple(np.array([[0.0, value, 0.0]]) for value in (np.nan, np.inf, -np.inf)),
    "check_empty_bag": (np.empty((0, 3)),),
    "check_different_n_features": (np.ones((2, 2)), np.ones((2, 4))),
    "check_bags_of_wrong_dimension": (np.ones(3), np.ones((2, 2, 3))),
    "check_ragged_bag": ([[1.0, 2.0, 3.0], [1.0, 2.0]],),
    "check_complex_data": (np.ones((2, 3)) * 1j,),
    "check_text_data": (np.array([["a", "b", "c"]]),),
    "check_sparse_data": (csr_array(np.eye(3)),),
}
WRONG_LABELS: dict[str, tuple[Any, ...]] = {
    "check_wrong_labels": (2, -1, 0.5),
    "check_missing_labels": (np.nan, None),
    "check_text_labels": ("yes",),
}


def check_bags_as_3d_array(subject: Subject) -> None:
    """An array (B, n, D), when all bags have the same size."""
    bags, asked = (np.stack([np.resize(bag, (2, 3)) for bag in given]) for given in (subject.bags, subject.unseen))
    expected = positive(subject.train(list(bags)), list(asked))
    same(positive(subject.train(bags), asked), expected, "from a 3-D array")


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


def check_one_bag(subject: Subject) -> None:
    """A training set of one bag, and a prediction for one bag."""
    for label in (0, 1):
        _survives(subject, subject.bags[:1], np.array([label]), "of one bag")
    probable(positive(subject.fitted, subject.unseen[:1]), "probabilities for one bag")


def check_one_instance_bags(subject: Subject) -> None:
    """Every bag has one instance."""
    _survives(subject, [bag[:1] for bag in subject.bags], subject.y, "of bags with one instance")
    probable(positive(subject.fitted, [bag[:1] for bag in subject.unseen]), "probabilities for one instance")


def check_distant_bags(subject: Subject) -> None:
    """Predictions far from all training instances."""
    for shift in (1e3, -1e6, 1e12):
        probable(positive(subject.fitted, [bag + shift for bag in subject.unseen]), f"probabilities {shift} away")


def check_large_bag(subject: Subject) -> None:
    """A prediction for a bag of a thousand instances, and one of its training."""
    large = np.resize(np.concatenate(subject.bags), (1000, 3)) + np.linspace(0, 0.1, 1000)[:, None]
    probable(positive(subject.fitted, [large, *subject.unseen]), "probabilities next to a large bag")
    _survives(subject, [large, *subject.bags[1:]], subject.y, "with a bag of a thousand")


def check_estimators_empty_data_messages(subject: Subject) -> None:
    """No bags at all."""
    refuses(subject.fresh().fit, [], [], what="a training set without bags")
    for method in subject.methods():
        refuses(getattr(subject.fitted, method), [], what=f"{method} without bags")


def check_no_features(subject: Subject) -> None:
    """Instances without features."""
    refuses(subject.fresh().fit, [bag[:, :0] for bag in subject.bags], subject.y, what="instances without features")


def check_n_features_in_after_fitting(subject: Subject) -> None:
    """Predictions for bags with another number of features than the training bags."""
    for method in subject.methods():
        for width in (2, 4):
            refuses(getattr(subject.fitted, method), [np.ones((2, width))], what=f"{method} with {width} features")


def check_not_a_sequence(subject: Subject) -> None:
    """Something that holds no bags."""
    for wrong in (3, None, "bags"):
        refuses(subject.fresh().fit, wrong, [0, 1], what=f"{wrong!r} in place of bags")
        refuses(subject.fitted.predict_proba, wrong, what=f"{wrong!r} in place of bags")


def check_requires_y_none(subject: Subject) -> None:
    """No labels."""
    refuses(subject.fresh().fit, subject.bags, None, what="a fit without labels")


def check_label_count_mismatch(subject: Subject) -> None:
    """More or fewer labels than bags."""
    refuses(subject.fresh().fit, subject.bags, subject.y[:-1], what="one label too few")
    refuses(subject.fresh().fit, subject.bags, np.append(subject.y, 1), what="one label too many")


def check_labels_of_wrong_dimension(subject: Subject) -> None:
    """A table of labels, or a single one."""
    refuses(subject.fresh().fit, subject.bags, np.column_stack([subject.y, subject.y]), what="two labels per bag")
    refuses(subject.fresh().fit, subject.bags, 1, what="one label for all bags")


def _survives(subject: Subject, bags: Any, y: Array, what: str, change: Any = lambda rows: rows) -> None:
    """Probabilities in range for bags whose features were changed, or a ValueError in words from fit."""
    made = subject.adapted(change)
    try:
        made.fit([change(bag) for bag in bags], y)
    except ValueError as error:
        demand(str(error).strip(), f"a training set {what} is refused without a word")
        return
    asked = [change(bag) for bag in subject.unseen]
    probable(made.predict_proba(asked), f"probabilities after a training set {what}")
    demand(np.isin(made.predict(asked), (0, 1)).all(), f"labels after a training set {what} are not 0 and 1")


def _same_from_bags(subject: Subject, form: Callable[[list[Array]], Any]) -> None:
    same(positive(subject.train(form(subject.bags)), form(subject.unseen)), subject.expected, "from this form of bags")


def _same_from_labels(subject: Subject, forms: tuple[Callable[[Array], Any], ...]) -> None:
    for form in forms:
        same(subject.proba(y=form(subject.y)), subject.expected, "from this form of labels")


def _survives_cases(subject: Subject, cases: tuple[Case, ...]) -> None:
    for case in cases:
        _survives(subject, *case(subject), "of this kind")


def _survives_changes(subject: Subject, changes: tuple[Callable[[Array], Array], ...]) -> None:
    for change in changes:
        _survives(subject, subject.bags, subject.y, "of this kind", change)


def _refuses_bags(subject: Subject, wrong: tuple[Any, ...]) -> None:
    """By fit and by predict, wherever in the sequence the bag stands."""
    bags: list[Any] = list(subject.bags)
    for bag in wrong:
        refuses(subject.fresh().fit, [*bags[:-1], bag], subject.y, what=f"fit with the bag {bag!r} at the end")
        refuses(subject.fresh().fit, [bag, *bags[1:]], subject.y, what=f"fit with the bag {bag!r} first")
        for method in subject.methods():
            refuses(getattr(subject.fitted, method), [bags[0], bag], what=f"{method} with the bag {bag!r}")


def _refuses_labels(subject: Subject, wrong: tuple[Any, ...]) -> None:
    for value in wrong:
        labels = subject.y.astype(object)
        labels[5] = value
        refuses(subject.fresh().fit, subject.bags, labels, what=f"the label {value}")


MADE: dict[str, Check] = {
    **{name: partial(_same_from_bags, form=form) for name, form in FORMS_OF_BAGS.items()},
    **{name: partial(_same_from_labels, forms=forms) for name, forms in FORMS_OF_LABELS.items()},
    **{name: partial(_survives_cases, cases=cases) for name, cases in HARD_CASES.items()},
    **{name: partial(_survives_changes, changes=changes) for name, changes in CHANGES.items()},
    **{name: partial(_refuses_bags, wrong=wrong) for name, wrong in WRONG_BAGS.items()},
    **{name: partial(_refuses_labels, wrong=wrong) for name, wrong in WRONG_LABELS.items()},
}
