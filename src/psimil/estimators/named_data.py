"""What an estimator remembers of its training data by name: the two classes, and the features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score

from psimil.estimators.inputs import read_bags
from psimil.model.labels import Classes, values_of_bags

Array = NDArray[Any]


class NamedData(ClassifierMixin, BaseEstimator):
    """An estimator that predicts in the caller's labels and knows its features by name."""

    classes_: Array
    positive_: Any
    feature_names_in_: Array

    def _remember(self, classes: Classes, feature_names: tuple[str, ...] | None) -> None:
        self.classes_, self.positive_ = np.sort(np.array(classes)), classes.positive
        if feature_names is not None:
            self.feature_names_in_ = np.array(feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of bags whose label is predicted; ``y`` finds its bags as in ``fit``.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> 0 <= clf.score(bags, dict(enumerate(y))) <= 1
        True
        """
        found = read_bags(bags, what="prediction set")
        weights = None if sample_weight is None else values_of_bags(sample_weight, found, "weights")
        return float(accuracy_score(values_of_bags(y, found), self.predict(found), sample_weight=weights))

    @property
    def _positive_is_last(self) -> bool:
        return bool(self.classes_[1] == self.positive_)

    @property
    def _feature_names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    @property
    def classes(self) -> Classes:
        """The labels of negative and of positive bags."""
        low, high = self.classes_.tolist()
        return Classes(low, high) if self._positive_is_last else Classes(high, low)
