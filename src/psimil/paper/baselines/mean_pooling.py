"""Logistic regression on the mean of a bag, the simplest bag classifier there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from psimil.foundations.numbers import above_zero
from psimil.model.bags import Bags
from psimil.paper.baselines.classifier import BagClassifier
from psimil.paper.baselines.statistics import bag_statistics

Array = NDArray[Any]


@dataclass(frozen=True)
class MeanModel:
    """A regression of bag labels on standardised bag means."""

    regression: Pipeline

    def log_odds(self, bags: Bags) -> Array:
        """(B,) log-odds of label 1."""
        return np.asarray(self.regression.decision_function(bag_means(bags)))


class MeanPooling(BagClassifier):
    """Logistic regression on the standardised mean of the instances of a bag. It draws nothing at random.

    Parameters
    ----------
    C : float
        Inverse of the penalty on squared weights.

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40, separation=5.0, seed=1)
    >>> MeanPooling().fit(bags, y).predict_proba(bags).shape
    (40, 2)
    """

    random_state = None

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def _check_parameters(self) -> None:
        above_zero(C=self.C)

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> MeanModel:
        regression = make_pipeline(StandardScaler(), LogisticRegression(C=self.C, max_iter=1000))
        return MeanModel(regression.fit(bag_means(bags), T))


def bag_means(bags: Bags) -> Array:
    """(B, D) mean of each feature within each bag.

    Examples
    --------
    >>> bag_means(Bags.from_list([[[1.0], [3.0]], [[5.0]]])).tolist()
    [[2.0], [5.0]]
    """
    return bag_statistics(bags)[:, : bags.n_features]
