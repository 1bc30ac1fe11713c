"""The shell of every baseline: reads bags, standardises features, turns log-odds into probabilities and labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from psimil.estimators.inputs import features_of, read_bags, read_labels, read_random_state
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError, NotFitted
from psimil.model.bags import Bags
from psimil.model.scaling import FARTHEST, Scaling


class BagModel(Protocol):
    """What a baseline has learned."""

    def log_odds(self, bags: Bags) -> Array:
        """(B,) log-odds of label 1 for bags with standardised features."""


@dataclass(frozen=True)
class Prevalence:
    """The same log-odds for every bag, log((positive + 1/2) / (negative + 1/2)): all that one label can teach.

    Examples
    --------
    >>> bags = read_bags([[[1.0]], [[2.0]]])
    >>> Prevalence(positive=2, negative=0).log_odds(bags).round(3)
    array([1.609, 1.609])
    """

    positive: int
    negative: int

    def log_odds(self, bags: Bags) -> Array:
        """(B,) times the same number."""
        return np.full(len(bags), np.log(self.positive + 0.5) - np.log(self.negative + 0.5))


class BagClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of bags; a baseline adds its parameters and ``_train``.

    Attributes
    ----------
    classes_ : (2,) the two labels in ascending order; the second is that of positive bags.
    n_features_in_ : D.
    scaling_ : Scaling, mean and standard deviation of the features over the training instances.
    model_ : BagModel.
    """

    random_state = None
    scaling_: Scaling
    model_: BagModel

    @abstractmethod
    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> BagModel:
        """Learn from standardised bags of both labels."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse every parameter that breaks a rule."""

    def fit(self, bags: Any, y: Any = None, *, bag_ids: Any = None) -> Self:
        """Learn from bags and one label each, of two classes.

        Parameters
        ----------
        bags : sequence of (n_i, D) arrays, Bags, or (N, D) rows together with ``bag_ids``.
        y : labels of two classes, as for :meth:`psimil.PsiVGPMIL.fit`.
        """
        if y is None:
            raise InputError("fit needs bag labels: fit(bags, y). requires y to be passed, but the target y is None")
        self._check_parameters()
        bags = read_bags(bags, bag_ids)
        classes, T = read_labels(y, bags, from_rows=bag_ids is not None)
        rng = read_random_state(self.random_state)
        positive, negative = int(T.sum()), int((1 - T).sum())
        self.scaling_ = Scaling.fit(bags.X)
        self.classes_ = np.array(classes)
        self.n_features_in_, self._feature_names = bags.n_features, bags.feature_names
        one_label = not (positive and negative)
        self.model_ = Prevalence(positive, negative) if one_label else self._train(_scaled(bags, self.scaling_), T, rng)
        return self

    def decision_function(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B,) log-odds of label 1."""
        found = self._bags(bags, bag_ids)
        return self.model_.log_odds(found)

    def predict_proba(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B, 2) probabilities of the two labels of ``classes_``."""
        log_odds = self.decision_function(bags, bag_ids=bag_ids)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    def predict(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B,) labels: the second class where its probability is at least 1/2."""
        positive = self.decision_function(bags, bag_ids=bag_ids) >= 0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def __sklearn_tags__(self) -> Tags:
        """One sample is a bag, not a row; labels are binary."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = False
        tags.classifier_tags.multi_class = False
        tags.no_validation = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether fit has been called."""
        return hasattr(self, "model_")

    def _bags(self, bags: Any, bag_ids: Any = None) -> Bags:
        """The caller's bags in the standardised features of the training set."""
        if not hasattr(self, "model_"):
            raise NotFitted("this model is not fitted. Call fit() first.")
        bags = read_bags(bags, bag_ids, what="prediction set")
        return _scaled(features_of(bags, self.n_features_in_, self._feature_names), self.scaling_)


def _scaled(bags: Bags, scaling: Scaling) -> Bags:
    """Features within the range of single precision, in which forests and networks compute."""
    farthest = FARTHEST["float32"]
    return replace(bags, X=np.clip(scaling.apply(bags.X), -farthest, farthest))
