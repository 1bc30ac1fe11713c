"""Labels of any two classes, as scikit-learn's classifiers take them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, cross_val_score

from psimil import VGPMIL, PsiVGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.labels import Classes, label_values
from psimil.paper.baselines import BagSVM

BAGS, T, _ = make_bags(n_bags=40, separation=3.0, seed=1)
SETTINGS = {"n_inducing": 8, "max_iter": 10, "tol": 0.0, "random_state": 0}
PLAIN = VGPMIL(**SETTINGS).fit(BAGS, T)

FORMS = {
    "bool": T.astype(bool),
    "minus one and one": 2 * T - 1,
    "one and two": T + 1,
    "floats": T.astype(float),
    "halves": T / 2,
    "nullable": pd.array(T, dtype="Int64"),
    "nullable bool": pd.array(T.astype(bool), dtype="boolean"),
}


@pytest.mark.parametrize("form", FORMS)
def test_numbers_and_bools_give_the_same_model_and_predict_in_their_own_words(form):
    y = FORMS[form]
    model = VGPMIL(**SETTINGS).fit(BAGS, y)
    plain = np.array(y.tolist())
    assert model.classes_.tolist() == np.unique(plain).tolist()
    assert set(model.predict(BAGS).tolist()) <= set(plain.tolist())
    np.testing.assert_array_equal(model.predict_proba(BAGS), PLAIN.predict_proba(BAGS))
    np.testing.assert_array_equal(model.predict(BAGS) == model.classes_[1], PLAIN.predict(BAGS) == 1)


@pytest.mark.parametrize("positive", ["tumor", "anything"])
def test_text_says_which_class_is_positive(positive):
    other = "normal" if positive == "tumor" else "tumour"  # "anything" comes first in the alphabet
    y = np.where(T == 1, positive, other)
    model = VGPMIL(positive=positive, **SETTINGS).fit(BAGS, y)
    assert model.classes_.tolist() == sorted([positive, other])
    assert model.positive_ == positive
    column = model.classes_.tolist().index(positive)
    np.testing.assert_array_equal(model.predict_proba(BAGS)[:, column], PLAIN.predict_proba(BAGS)[:, 1])
    np.testing.assert_array_equal(model.predict(BAGS) == positive, PLAIN.predict(BAGS) == 1)
    np.testing.assert_array_equal(model.predict(BAGS) == model.classes_[1], model.decision_function(BAGS) > 0)
    assert model.score(BAGS, y) == PLAIN.score(BAGS, T)


def test_without_it_the_last_in_the_alphabet_is_taken_and_told():
    y = np.where(T == 1, "wild", "mutated")
    with pytest.warns(DataWarning, match="'wild' is taken for positive, as the last in the alphabet. Say positive=."):
        VGPMIL(**SETTINGS).fit(BAGS, y)


def test_scikit_learn_scores_text_labels_whichever_is_positive():
    y = np.where(T == 1, "a", "b")
    plain = cross_val_score(VGPMIL(**SETTINGS), BAGS, T, scoring="roc_auc", cv=3)
    text = cross_val_score(VGPMIL(positive="a", **SETTINGS), BAGS, y, scoring="roc_auc", cv=3)
    np.testing.assert_allclose(text, plain)
    assert set(cross_val_predict(VGPMIL(positive="a", **SETTINGS), BAGS, y, cv=3)) == {"a", "b"}


def test_classes_agree_with_a_classifier_of_scikit_learn():
    X = np.array([bag.mean(axis=0) for bag in BAGS])
    for y in (2 * T - 1, T.astype(bool), T + 1, np.where(T == 1, "z", "a")):
        theirs = LogisticRegression().fit(X, y).classes_
        assert PsiVGPMIL(positive=y[T == 1][0], **SETTINGS).fit(BAGS, y).classes_.tolist() == theirs.tolist()


def test_a_file_keeps_the_classes(tmp_path):
    y = np.where(T == 1, "blood", "none")
    model = VGPMIL(positive="blood", **SETTINGS).fit(BAGS, y)
    model.save(tmp_path / "model.safetensors")
    again = VGPMIL.load(tmp_path / "model.safetensors")
    assert again.predict(BAGS).tolist() == model.predict(BAGS).tolist()
    assert (again.positive_, again.positive) == ("blood", "blood")


def test_partial_fit_and_eval_set_know_the_classes_of_the_fit():
    y = 2 * T - 1
    model = VGPMIL(**SETTINGS).partial_fit(BAGS[:20], y[:20]).partial_fit(BAGS[20:], y[20:])
    assert model.classes_.tolist() == [-1, 1]
    with pytest.raises(InputError, match=r"label of bag .* is 0; the classes are -1 and 1"):
        model.partial_fit(BAGS, T)
    stopped = VGPMIL(early_stopping="log_loss", **SETTINGS).fit(BAGS, y, eval_set=(BAGS, y))
    assert stopped.history_
    with pytest.raises(InputError, match="the classes are -1 and 1"):
        VGPMIL(early_stopping="log_loss", **SETTINGS).fit(BAGS, y, eval_set=(BAGS, T))


def test_baselines_take_two_classes_too():
    model = BagSVM(random_state=0).fit(BAGS, 2 * T - 1)
    assert model.classes_.tolist() == [-1, 1]
    assert set(model.predict(BAGS)) <= {-1, 1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1, 2], "label of bag 2 is 2; labels must be 0 or 1."),
        ([1, 2, 3], "label of bag 2 is 3, after 1 and 2; labels must be of two classes."),
        (["a", "b", "c"], "label of bag 2 is 'c', after 'a' and 'b'; labels must be of two classes."),
        ([0, 1, np.nan], "label of bag 2 is nan; give every bag one of two labels."),
        (np.array([0, 1, None], dtype=object), "label of bag 2 is None; give every bag one of two labels."),
        (np.array([0, 1, pd.NA], dtype=object), "label of bag 2 is <NA>; give every bag one of two labels."),
        (["a", "", "b"], "label of bag 1 is ''; give every bag one of two labels."),
        (np.array([1, "1"], dtype=object), "label of bag 1 is '1'; labels must be the numbers 0 or 1."),
        (np.array([1 + 2j, 0]), "label of bag 0 is (1+2j); give every bag one of two labels."),
        (np.array(["2020-01-01"], "M8[D]"), "label of bag 0 is 2020-01-01; give every bag one of two"),
    ],
)
def test_labels_that_are_missing_mixed_or_of_three_kinds_are_refused(values, message):
    with pytest.raises(InputError) as refused:
        label_values(values, range(len(values)))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("values", "positive", "message"),
    [
        (["a", "b"], "c", "positive is 'c' but the labels are 'a' and 'b'. Give one of them."),
        (["a", "a"], None, "all labels are 'a'; a fit needs bags of two classes."),
        (["a", "a"], "a", "all labels are 'a'; a fit needs bags of two classes."),
        ([0, 0], 0, "all labels are 0; a fit needs bags of two classes."),
    ],
)
def test_classes_that_cannot_be_told_apart_are_refused(values, positive, message):
    with pytest.raises(InputError) as refused:
        Classes.among(np.array(values), positive)
    assert str(refused.value) == message


def test_positive_may_be_given_as_text():
    assert Classes.among(np.array([1.0, 2.0]), "1") == (2.0, 1.0)
    assert Classes.among(np.array([True, False]), "False") == (True, False)
