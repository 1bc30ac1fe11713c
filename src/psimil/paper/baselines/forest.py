"""A random forest on bag statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.model.bags import Bags
from psimil.paper.baselines.classifier import BagClassifier
from psimil.paper.baselines.sigmoid import Sigmoid
from psimil.paper.baselines.statistics import bag_statistics

Array = NDArray[Any]


@dataclass(frozen=True)
class StatisticsForest:
    """A forest that votes on bag statistics, and the line from votes to log-odds."""

    forest: RandomForestClassifier
    sigmoid: Sigmoid

    def log_odds(self, bags: Bags) -> Array:
        """(B,) log-odds of label 1."""
        return self.sigmoid.log_odds(self.forest.predict_proba(bag_statistics(bags))[:, 1])


class BagForest(BagClassifier):
    """Random forest on the statistics of a bag.

    Probabilities come from a sigmoid on out-of-bag votes: those of the trees that were grown without the bag. With
    one bag of a label there are none to learn from, and the sigmoid is the line from votes 0 and 1 to log-odds -2, 2.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    max_features : {"sqrt", "log2"}, float or None
        Statistics tried at each split, as in ``sklearn.ensemble.RandomForestClassifier``.
    min_samples_leaf : int
        Bags in a leaf, at least.
    n_jobs : int or None
        Threads that grow trees; -1 for all.
    random_state : int, Generator or None

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40, separation=5.0, seed=1)
    >>> BagForest(n_estimators=50, random_state=0).fit(bags, y).predict_proba(bags).shape
    (40, 2)
    """

    def __init__(
        self,
        n_estimators: int = 500,
        max_features: str | float | None = "sqrt",
        min_samples_leaf: int = 1,
        n_jobs: int | None = 1,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        at_least(1, whole=True, n_estimators=self.n_estimators, min_samples_leaf=self.min_samples_leaf)
        share = isinstance(self.max_features, float) and 0 < self.max_features <= 1
        if not share and self.max_features not in ("sqrt", "log2", None):
            raise InputError(
                f'max_features must be "sqrt", "log2", None or a share in (0, 1], got {self.max_features!r}.'
            )

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> StatisticsForest:
        forest = RandomForestClassifier(
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            n_jobs=self.n_jobs,
            oob_score=True,
            random_state=int(rng.integers(2**31)),
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            forest.fit(bag_statistics(bags), T)
        votes = forest.oob_decision_function_[:, 1]
        judged = np.isfinite(votes)  # with few trees a bag may have been used by all of them
        enough = np.bincount(T[judged], minlength=2).min() > 1
        return StatisticsForest(forest, Sigmoid.fit(votes[judged], T[judged]) if enough else Sigmoid(4.0, -2.0))
