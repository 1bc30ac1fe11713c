"""Estimators with one fault each, and the checks of the contract that the fault must fail."""

import numpy as np
from sklearn.base import BaseEstimator

from prototype import PrototypeMIL

BROKEN: dict[type, tuple[str, ...]] = {}


def fails(*checks):
    """Register a broken estimator with the checks that catch it."""

    def register(kind):
        BROKEN[kind] = checks
        return kind

    return register


def moved(prediction, **values):
    """The same prediction with some of its values replaced."""
    vars(prediction).update(values)
    return prediction


# ---------------------------------------------------------------- parameters


@fails("check_no_attributes_set_in_init", "check_clone_of_fitted", "check_dont_overwrite_attributes")
class SetsAttributes(PrototypeMIL):
    def __init__(self, sharpness=2.0, random_state=0):
        super().__init__(sharpness, random_state)
        self.rng = np.random.default_rng(0)

    def fit(self, bags, y=None, bag_ids=None):
        self.bags = bags
        return super().fit(bags, y, bag_ids)


@fails("check_parameters_stored_verbatim", "check_set_params")
class ConvertsParameters(PrototypeMIL):
    def __init__(self, sharpness=2.0, random_state=0):
        super().__init__(str(sharpness), random_state)

    def get_params(self, deep=True):
        return {name: np.array(value) for name, value in super().get_params(deep).items()}


@fails("check_parameters_default_constructible")
class NeedsAnArgument(PrototypeMIL):
    def __init__(self, sharpness, random_state=0):
        super().__init__(sharpness, random_state)


@fails("check_get_params_invariance")
class HidesParameters(PrototypeMIL):
    def get_params(self, deep=True):
        return {"random_state": self.random_state}


@fails("check_set_params_unknown")
class TakesAnyParameter(PrototypeMIL):
    def set_params(self, **parameters):
        vars(self).update(parameters)
        return self


@fails("check_clone")
class ClonesItsDefaults(PrototypeMIL):
    def __sklearn_clone__(self):
        return type(self)(sharpness=1.0)


@fails("check_fit_leaves_parameters", "check_estimators_fit_returns_self")
class ChangesParameters(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        self.sharpness = 3.0
        super().fit(bags, y, bag_ids)


@fails("check_classifier", "check_estimator_repr", "check_fit_score_takes_y")
class NoClassifier(PrototypeMIL):
    def __repr__(self, N_CHAR_MAX=700):
        return "a model"

    def score(self, bags, y):
        return 0.5

    def __sklearn_tags__(self):
        return BaseEstimator.__sklearn_tags__(self)


# ---------------------------------------------------------------- life cycle


@fails("check_unfitted", "check_is_fitted_knows", "check_save_unfitted", "check_n_features_in")
class AlwaysFitted(PrototypeMIL):
    n_features_in_ = 3

    def __sklearn_is_fitted__(self):
        return True

    def _read(self, bags, bag_ids=None):
        if not hasattr(self, "line_"):
            self.fit([[[0.0] * 3], [[1.0] * 3]], [0, 1])
        return super()._read(bags, bag_ids)

    def save(self, path):
        path.write_text("nothing")


@fails("check_classifiers_classes", "check_predict_labels")
class OtherClasses(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        self.classes_ = np.array([1, 2])
        return self


@fails("check_refit_forgets", "check_refit_with_other_features", "check_fit_idempotent")
class Remembers(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        before = getattr(self, "line_", 0.0)
        super().fit(bags, y, bag_ids)
        self.line_ = self.line_ + 0.5 * before
        return self


@fails("check_failed_fit_keeps_the_model")
class ForgetsTooEarly(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        if hasattr(self, "line_"):
            self.line_ = 0 * self.line_
        return super().fit(bags, y, bag_ids)


# ---------------------------------------------------------------- probabilities and decisions


@fails("check_proba_shape", "check_classifiers_generalise")
class OneColumn(PrototypeMIL):
    def predict_proba(self, bags, bag_ids=None):
        return self.predict_dist(bags, bag_ids).prob


@fails("check_predict_agrees_with_proba", "check_decision_sign")
class PredictsTheOpposite(PrototypeMIL):
    def predict(self, bags, bag_ids=None):
        return 1 - super().predict(bags, bag_ids)


@fails("check_proba_range", "check_proba_sums_to_one")
class OddsForProbabilities(PrototypeMIL):
    def predict_proba(self, bags, bag_ids=None):
        odds = np.exp(-self.decision_function(bags, bag_ids))
        return np.column_stack([1 / odds, odds])


@fails("check_proba_differs_between_bags", "check_classifiers_train", "check_labels_matter")
class LearnsNothing(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, prob=0 * found.prob + 0.5)


@fails("check_decision_shape", "check_decision_proba_consistency", "check_decision_sign")
class ScoresBackwards(PrototypeMIL):
    def decision_function(self, bags, bag_ids=None):
        return np.append(-self.predict_dist(bags, bag_ids).score, np.inf)[: len(self._read(bags, bag_ids))][:, None]


@fails("check_decision_proba_consistency", "check_decision_sign")
class ScoresForNegatives(PrototypeMIL):
    def decision_function(self, bags, bag_ids=None):
        return -self.predict_dist(bags, bag_ids).score
