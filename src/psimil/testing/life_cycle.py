"""Before, after and between fits."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from psimil.testing.expectations import demand, refuses, same
from psimil.testing.subject import Subject, positive


def check_unfitted(subject: Subject) -> None:
    """Every prediction before a fit is scikit-learn's NotFittedError."""
    for method in subject.methods():
        try:
            getattr(subject.fresh(), method)(subject.bags)
        except NotFittedError:
            continue
        raise AssertionError(f"{method} works before fit")


def check_is_fitted_knows(subject: Subject) -> None:
    """scikit-learn's check_is_fitted tells a fitted estimator from one that is not."""
    check_is_fitted(subject.fitted)
    try:
        check_is_fitted(subject.fresh())
    except NotFittedError:
        return
    raise AssertionError("an estimator that was not fitted passes for fitted")


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
