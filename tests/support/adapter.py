"""A thin adapter that turns rows into bags of one instance, so that scikit-learn's own estimator checks apply."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from psimil import Bags, PsiVGPMIL

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "standardisation, k-means and calibration look at every bag alike; "
        "test_weights_equal_repetition_in_the_model_itself runs the same check without them"
    ),
}


class RowClassifier(ClassifierMixin, BaseEstimator):
    """PsiVGPMIL on single rows; labels of any two kinds are encoded as 0 and 1.

    ``bare`` leaves out whatever looks at the data before the model does.
    """

    def __init__(self, n_inducing=10, max_iter=20, tol=1e-3, bare=False, random_state=0):
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.tol = tol
        self.bare = bare
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        labels = LabelEncoder().fit(y)
        self.classes_ = labels.classes_
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. The target has {len(self.classes_)} classes.")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        inner = PsiVGPMIL(
            n_inducing=self.n_inducing,
            max_iter=self.max_iter,
            tol=self.tol,
            hyperparameters=None,
            random_state=self.random_state,
        )
        if self.bare:
            Z = np.random.default_rng(0).normal(size=(self.n_inducing, X.shape[1]))
            inner.set_params(inducing_points=Z, standardize=False, calibrate=False, threshold=0.5, tol=0.0)
        self.inner_ = inner.fit(_singletons(X), labels.transform(y), sample_weight=sample_weight)
        self.n_iter_ = self.inner_.n_iter_
        return self

    def _checked(self, X):
        check_is_fitted(self)
        return _singletons(validate_data(self, X, reset=False))

    def predict_proba(self, X):
        bags = self._checked(X)
        return self.inner_.predict_proba(bags)[:, : len(self.classes_)]

    def predict_log_proba(self, X):
        bags = self._checked(X)
        return self.inner_.predict_log_proba(bags)[:, : len(self.classes_)]

    def decision_function(self, X):
        bags = self._checked(X)
        return self.inner_.decision_function(bags)

    def predict(self, X):
        bags = self._checked(X)
        return self.classes_[np.minimum(self.inner_.predict(bags), len(self.classes_) - 1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _singletons(X):
    return Bags(X, np.arange(len(X) + 1))
