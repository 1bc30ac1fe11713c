"""Classifiers of bags as one vector each: the mean, standard deviation, minimum and maximum of every feature."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from psimil.estimators.inputs import read_bags
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero, at_least
from psimil.model.bags import Bags
from psimil.paper.baselines.classifier import BagClassifier

_FLATTEST = 1e-3  # a slope below 0 would turn the ranking round, at 0 it would be lost


def bag_statistics(bags: Any) -> Array:
    """Mean, standard deviation, minimum and maximum of each feature within each bag.

    Parameters
    ----------
    bags : Bags or a sequence of (n_i, D) arrays.

    Returns
    -------
    statistics : (B, 4 D); D means, then D standard deviations (over n_i), D minima and D maxima.

    Examples
    --------
    >>> bag_statistics([[[1.0], [3.0]], [[5.0]]])
    array([[2., 1., 1., 3.],
           [5., 0., 5., 5.]])
    """
    bags = read_bags(bags)
    X, starts, sizes = np.asarray(bags.X, dtype=np.float64), bags.offsets[:-1], bags.sizes
    mean = np.add.reduceat(X, starts, axis=0) / sizes[:, None]
    deviation = X - np.repeat(mean, sizes, axis=0)
    std = np.sqrt(np.add.reduceat(deviation**2, starts, axis=0) / sizes[:, None])
    low, high = (extreme.reduceat(X, starts, axis=0) for extreme in (np.minimum, np.maximum))
    return np.hstack([mean, std, low, high])


@dataclass(frozen=True)
class Sigmoid:
    """Scores to log-odds by a straight line, log-odds = slope * score + shift (Platt 1999).

    Examples
    --------
    >>> Sigmoid(slope=2.0, shift=-1.0).log_odds(np.array([0.5, 1.0]))
    array([0., 1.])
    """

    slope: float = 1.0
    shift: float = 0.0

    @classmethod
    def fit(cls, scores: Array, T: Array) -> Sigmoid:
        """The line of least log-loss against Platt's targets, (n1 + 1) / (n1 + 2) and 1 / (n0 + 2).

        Parameters
        ----------
        scores : (B,) scores of bags that the scorer has not seen.
        T : (B,) labels, 0 or 1, both present.
        """
        positive = T.sum()
        negative = len(T) - positive
        target = np.where(T == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
        unit = float(np.std(scores)) or 1.0
        s = (scores - scores.mean()) / unit

        def loss(line: Array) -> tuple[float, Array]:
            log_odds = line[0] * s + line[1]
            residual = expit(log_odds) - target
            total = float(np.sum(np.logaddexp(0.0, log_odds) - target * log_odds))
            return total, np.array([residual @ s, residual.sum()])

        start = np.array([1.0, np.log((positive + 1) / (negative + 1))])
        line = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(_FLATTEST, None), (None, None)]).x
        slope = float(line[0]) / unit
        return cls(slope, float(line[1] - slope * scores.mean()))

    def log_odds(self, scores: Array) -> Array:
        """(B,) log-odds of label 1."""
        return self.slope * scores + self.shift


@dataclass(frozen=True)
class StatisticsModel:
    """What scores bag statistics, and the line from scores to log-odds.

    Parameters
    ----------
    score : statistics (B, C) to scores (B,), or to probabilities (B, 2), of which those of label 1 are the scores.
    columns : C, the first of the 4 D that it looks at; None for all.
    """

    score: Callable[[Array], Array]
    sigmoid: Sigmoid = Sigmoid()
    columns: int | None = None

    def log_odds(self, bags: Bags) -> Array:
        """(B,) log-odds of label 1."""
        scores = np.asarray(self.score(bag_statistics(bags)[:, : self.columns]))
        return self.sigmoid.log_odds(scores.reshape(len(bags), -1)[:, -1])


@dataclass(eq=False, repr=False)
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

    C: float = 1.0

    def _check_parameters(self) -> None:
        above_zero(C=self.C)

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> StatisticsModel:
        regression = make_pipeline(StandardScaler(), LogisticRegression(C=self.C, max_iter=1000))
        regression.fit(bag_statistics(bags)[:, : bags.n_features], T)
        return StatisticsModel(regression.decision_function, columns=bags.n_features)


@dataclass(eq=False, repr=False)
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

    C: float = 1.0
    gamma: str | float = "scale"
    random_state: Any = None

    def _check_parameters(self) -> None:
        above_zero(C=self.C)
        if not isinstance(self.gamma, str):
            above_zero(gamma=self.gamma)
        elif self.gamma not in ("scale", "auto"):
            raise InputError(f'gamma must be "scale", "auto" or a number > 0, got {self.gamma!r}.')

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> StatisticsModel:
        S = bag_statistics(bags)  # (B, 4 D)
        machine = make_pipeline(StandardScaler(), SVC(C=self.C, gamma=self.gamma, random_state=0))
        n_folds = min(5, int(np.bincount(T).min()))
        sigmoid = Sigmoid()
        if n_folds > 1:
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
            sigmoid = Sigmoid.fit(cross_val_predict(machine, S, T, cv=folds, method="decision_function"), T)
        return StatisticsModel(machine.fit(S, T).decision_function, sigmoid)


@dataclass(eq=False, repr=False)
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

    n_estimators: int = 500
    max_features: str | float | None = "sqrt"
    min_samples_leaf: int = 1
    n_jobs: int | None = 1
    random_state: Any = None

    def _check_parameters(self) -> None:
        at_least(1, whole=True, n_estimators=self.n_estimators, min_samples_leaf=self.min_samples_leaf)
        share = isinstance(self.max_features, float) and 0 < self.max_features <= 1
        if not share and self.max_features not in ("sqrt", "log2", None):
            known = '"sqrt", "log2", None or a share in (0, 1]'
            raise InputError(f"max_features must be {known}, got {self.max_features!r}.")

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> StatisticsModel:
        own = {name: value for name, value in self.get_params().items() if name != "random_state"}
        forest = RandomForestClassifier(oob_score=True, random_state=int(rng.integers(2**31)), **own)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            forest.fit(bag_statistics(bags), T)
        votes = forest.oob_decision_function_[:, 1]
        judged = np.isfinite(votes)  # with few trees a bag may have been used by all of them
        enough = np.bincount(T[judged], minlength=2).min() > 1
        sigmoid = Sigmoid.fit(votes[judged], T[judged]) if enough else Sigmoid(4.0, -2.0)
        return StatisticsModel(forest.predict_proba, sigmoid)
