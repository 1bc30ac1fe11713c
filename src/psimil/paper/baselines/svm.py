"""A support vector machine on bag statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero
from psimil.model.bags import Bags
from psimil.paper.baselines.classifier import BagClassifier
from psimil.paper.baselines.sigmoid import Sigmoid
from psimil.paper.baselines.statistics import bag_statistics

Array = NDArray[Any]


@dataclass(frozen=True)
class StatisticsSVM:
    """A machine that scores standardised bag statistics, and the line from scores to log-odds."""

    machine: Pipeline
    sigmoid: Sigmoid

    def log_odds(self, bags: Bags) -> Array:
        """(B,) log-odds of label 1."""
        return self.sigmoid.log_odds(self.machine.decision_function(bag_statistics(bags)))


class BagSVM(BagClassifier):
    """Support vector machine (RBF kernel) on the standardised statistics of a bag.

    Probabilities come from a sigmoid on out-of-fold scores, five folds or as many as the rarer label has bags. With
    one bag of a label there is nothing to hold out, and the score is taken as log-odds as it stands.

    Parameters
    ----------
    C : float
        Price of a bag on the wrong side of its margin.
    gamma : {"scale", "auto"} or float
        1 / (2 lengthscale^2) of the kernel, as in ``sklearn.svm.SVC``.
    random_state : int, Generator or None
        Decides the folds.

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40, separation=5.0, seed=1)
    >>> BagSVM(random_state=0).fit(bags, y).predict_proba(bags).shape
    (40, 2)
    """

    def __init__(self, C: float = 1.0, gamma: str | float = "scale", random_state: Any = None) -> None:
        self.C = C
        self.gamma = gamma
        self.random_state = random_state

    def _check_parameters(self) -> None:
        above_zero(C=self.C)
        if isinstance(self.gamma, str):
            if self.gamma not in ("scale", "auto"):
                raise InputError(f'gamma must be "scale", "auto" or a number > 0, got {self.gamma!r}.')
        else:
            above_zero(gamma=self.gamma)

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> StatisticsSVM:
        S = bag_statistics(bags)  # (B, 4 D)
        machine = make_pipeline(StandardScaler(), SVC(C=self.C, gamma=self.gamma, random_state=0))
        n_folds = min(5, int(np.bincount(T).min()))
        sigmoid = Sigmoid()
        if n_folds > 1:
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
            sigmoid = Sigmoid.fit(cross_val_predict(machine, S, T, cv=folds, method="decision_function"), T)
        return StatisticsSVM(machine.fit(S, T), sigmoid)
