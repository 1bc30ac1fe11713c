"""The life of an estimator: parameters, fits before and after each other, copies and files."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from psimil.testing.expectations import demand, needs_fit, refuses, same, same_bags
from psimil.testing.subject import Subject, answers, needs, positive


def check_estimator_repr(subject: Subject) -> None:
    """The text of an estimator names its class."""
    demand(type(subject.estimator).__name__ in repr(subject.estimator), "repr does not name the class")


def check_classifier(subject: Subject) -> None:
    """scikit-learn sees a classifier, so that its splitters stratify by label."""
    demand(is_classifier(subject.estimator), "scikit-learn does not see a classifier")


def check_parameters_default_constructible(subject: Subject) -> None:
    """The class can be made without arguments."""
    made = type(subject.estimator)()
    demand(set(made.get_params(deep=False)) == subject.parameters(), "parameters differ from the arguments of __init__")


def check_no_attributes_set_in_init(subject: Subject) -> None:
    """__init__ stores its arguments and nothing else."""
    extra = set(vars(subject.fresh())) - subject.parameters()
    demand(not extra, f"__init__ sets {sorted(extra)}")


def check_parameters_stored_verbatim(subject: Subject) -> None:
    """__init__ neither copies nor changes what it is given."""
    given = {name: object() for name in subject.parameters()}
    made = type(subject.estimator)(**given)
    changed = [name for name, value in given.items() if getattr(made, name) is not value]
    demand(not changed, f"__init__ changes {changed}")


def check_get_params_invariance(subject: Subject) -> None:
    """Shallow parameters are part of the deep ones."""
    shallow, deep = (subject.estimator.get_params(deep=deep) for deep in (False, True))
    demand(set(shallow) <= set(deep), "get_params(deep=False) has names that deep=True lacks")
    demand(set(shallow) == subject.parameters(), "get_params does not name the arguments of __init__")


def check_set_params(subject: Subject) -> None:
    """set_params returns the estimator and takes back what get_params gave."""
    made = subject.fresh()
    before = made.get_params(deep=False)
    demand(made.set_params(**before) is made, "set_params does not return the estimator")
    demand(all(made.get_params(deep=False)[name] is value for name, value in before.items()), "a value changed")


def check_set_params_unknown(subject: Subject) -> None:
    """A parameter that does not exist is refused."""
    made = type(subject.estimator)(**subject.estimator.get_params(deep=False))
    refuses(lambda: made.set_params(no_such_parameter=1), what="a parameter that does not exist")


def check_clone(subject: Subject) -> None:
    """A clone has the class and the parameters, and is another object."""
    original, made = subject.estimator, clone(subject.estimator)
    demand(type(made) is type(original), "the clone has another class")
    demand(made is not original, "the clone is the original")
    demand(repr(made.get_params()) == repr(original.get_params()), "the clone has other parameters")


def check_clone_of_fitted(subject: Subject) -> None:
    """A clone of a fitted estimator knows nothing of the fit."""
    extra = set(vars(clone(subject.fitted))) - subject.parameters()
    demand(not extra, f"the clone keeps {sorted(extra)}")


def check_dont_overwrite_attributes(subject: Subject) -> None:
    """Fit adds only attributes that end or begin with an underscore."""
    added = set(vars(subject.fitted)) - set(vars(subject.fresh()))
    public = sorted(name for name in added if not (name.endswith("_") or name.startswith("_")))
    demand(not public, f"fit adds {public}")


def check_fit_leaves_parameters(subject: Subject) -> None:
    """Fit changes no parameter."""
    made = subject.fresh()
    before = made.get_params(deep=False)
    written = repr(before)
    made.fit(subject.bags, subject.y)
    after = made.get_params(deep=False)
    changed = [name for name, value in before.items() if after[name] is not value]
    demand(not changed, f"fit replaces {changed}")
    demand(repr(after) == written, "fit changes the inside of a parameter")


def check_unfitted(subject: Subject) -> None:
    """Every prediction before a fit is scikit-learn's NotFittedError."""
    for method in subject.methods():
        needs_fit(getattr(subject.fresh(), method), subject.bags, what=method)


def check_is_fitted_knows(subject: Subject) -> None:
    """scikit-learn's check_is_fitted tells a fitted estimator from one that is not."""
    check_is_fitted(subject.fitted)
    needs_fit(check_is_fitted, subject.fresh(), what="check_is_fitted")


def check_estimators_fit_returns_self(subject: Subject) -> None:
    """fit(...) is the estimator."""
    made = subject.fresh()
    demand(made.fit(subject.bags, subject.y) is made, "fit returns something else")


def check_n_features_in(subject: Subject) -> None:
    """n_features_in_ is the number of features, and only known after a fit."""
    demand(not hasattr(subject.fresh(), "n_features_in_"), "n_features_in_ is there before fit")
    demand(subject.fitted.n_features_in_ == 3, "n_features_in_ is not the number of features")


def check_classifiers_classes(subject: Subject) -> None:
    """classes_ are 0 and 1, in the order of the columns of predict_proba."""
    same(subject.fitted.classes_, [0, 1], "classes_")


def check_fit_score_takes_y(subject: Subject) -> None:
    """score(bags, y) is the share of labels that predict gets right."""
    y = subject.y
    y[:3] = 1 - y[:3]
    found = subject.fitted.score(subject.bags, y)
    demand(abs(found - np.mean(subject.fitted.predict(subject.bags) == y)) < 1e-12, "score is not the accuracy")


def check_refit_forgets(subject: Subject) -> None:
    """A second fit leaves nothing of the first."""
    made = subject.train(subject.bags[:9], 1 - subject.y[:9]).fit(subject.bags, subject.y)
    same(positive(made, subject.unseen), subject.expected, "after a fit to other bags")


def check_refit_with_other_features(subject: Subject) -> None:
    """An estimator may be fitted again to bags with another number of features."""
    narrow = subject.adapted(lambda rows: rows[:, 1:])
    made = subject.train().set_params(**narrow.get_params(deep=False))
    made.fit([bag[:, 1:] for bag in subject.bags], subject.y)
    demand(made.n_features_in_ == 2, "n_features_in_ is that of the first fit")
    demand(positive(made, [bag[:, 1:] for bag in subject.unseen]).shape == (12,), "predictions have another shape")


def check_failed_fit_keeps_the_model(subject: Subject) -> None:
    """A fit that is refused leaves the earlier model as it was, or none."""
    made = subject.train()
    refuses(made.fit, [*subject.bags[:-1], np.full((2, 3), np.nan)], subject.y, what="a bag of NaN")
    try:
        found = positive(made, subject.unseen)
    except NotFittedError:
        return
    same(found, subject.expected, "after a fit that was refused")


def check_deep_copy(subject: Subject) -> None:
    """A deep copy, made by the protocol that pickle uses, predicts the same and shares nothing with its original."""
    copied = copy.deepcopy(subject.fitted)
    same(positive(copied, subject.unseen), subject.expected, "from a deep copy")
    copied.fit(subject.bags, 1 - subject.y)
    same(positive(subject.fitted, subject.unseen), subject.expected, "after the copy was fitted to other labels")


def check_deep_copy_of_unfitted(subject: Subject) -> None:
    """An estimator that is copied before it is fitted learns the same."""
    made = copy.deepcopy(subject.fresh()).fit(subject.bags, subject.y)
    same(positive(made, subject.unseen), subject.expected, "from a copy made before the fit")


@needs("save", "load")
def check_save_load(subject: Subject) -> None:
    """A model that was saved and loaded predicts the same, bit by bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        subject.fitted.save(path)
        loaded = type(subject.estimator).load(path)
    for method in subject.methods():
        found, expected = (answers(model, method, subject.unseen) for model in (loaded, subject.fitted))
        same_bags(found, expected, f"{method} of the loaded model")


@needs("save", "load")
def check_save_unfitted(subject: Subject) -> None:
    """Saving before a fit is a NotFittedError and leaves no file."""
    with tempfile.TemporaryDirectory() as folder:
        needs_fit(subject.fresh().save, Path(folder) / "model", what="save")
        demand(not list(Path(folder).iterdir()), "a file was written before fit")
