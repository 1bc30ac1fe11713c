"""What each feature is worth to a model of bags: by shuffling it, and by setting it to one value after another.

As :mod:`sklearn.inspection` has it for rows; a sample is a bag here, and a column is changed in all instances.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline

from psimil.estimators.inputs import read_bags, read_random_state
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.model.bags import Bags
from psimil.model.labels import values_of_bags


@dataclass(frozen=True)
class Importance:
    """What a score loses when each of D features is shuffled, R times over; the names are those of scikit-learn.

    Parameters
    ----------
    feature_names : D names; numbers where the bags have none.
    importances : (D, R) the score less that of the shuffled bags.
    score : of the bags as they are.
    """

    feature_names: tuple[str, ...]
    importances: Array
    score: float

    @property
    def importances_mean(self) -> Array:
        """(D,) over the shuffles."""
        return np.asarray(self.importances.mean(axis=1))

    @property
    def importances_std(self) -> Array:
        """(D,) over the shuffles."""
        return np.asarray(self.importances.std(axis=1))

    def to_frame(self) -> pd.DataFrame:
        """The columns feature, mean and std, the most important feature first."""
        columns = {"feature": self.feature_names, "mean": self.importances_mean, "std": self.importances_std}
        return pd.DataFrame(columns).sort_values("mean", ascending=False, ignore_index=True)


@dataclass(frozen=True)
class PartialDependence:
    """What bags would be given if one feature of all their instances had the same value.

    Parameters
    ----------
    feature : its name.
    grid_values : (G,) the values.
    individual : (B, G) probability of ``classes_[1]`` for each bag.
    """

    feature: str
    grid_values: Array
    individual: Array

    @property
    def average(self) -> Array:
        """(G,) mean over the bags."""
        return np.asarray(self.individual.mean(axis=0))

    @property
    def std(self) -> Array:
        """(G,) spread over the bags: where it is large, the feature works together with others."""
        return np.asarray(self.individual.std(axis=0))


def permutation_importance(
    estimator: Any,
    bags: Any,
    y: Any,
    *,
    bag_ids: Any = None,
    scoring: Any = "roc_auc",
    n_repeats: int = 5,
    random_state: Any = None,
) -> Importance:
    """What a score of a fitted model loses when a feature is shuffled over all instances.

    Features that tell the same share what they are worth: shuffling one leaves the other. Give bags that the model has
    not been fitted on.

    Parameters
    ----------
    estimator : fitted, of psimil, or a pipeline that ends in one.
    bags, y, bag_ids : as of ``fit``.
    scoring : name of a scorer of scikit-learn, or a function of (estimator, bags, y).
    n_repeats : R, how often each feature is shuffled.

    Raises
    ------
    InputError
        When the bags have no such score, as labels of one class have no AUC.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=40, n_features=3, separation=3.0, seed=0)
    >>> clf = VGPMIL(n_inducing=10, random_state=0).fit(bags[:20], y[:20])
    >>> permutation_importance(clf, bags[20:], y[20:], random_state=0).importances.shape
    (3, 5)
    """
    at_least(1, whole=True, n_repeats=n_repeats)
    bags, rng = read_bags(bags, bag_ids, what="set of bags"), read_random_state(random_state)
    labels, scorer = values_of_bags(y, bags), get_scorer(scoring)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # what it leads to is refused
        score = float(scorer(estimator, bags, labels))
    if not np.isfinite(score):
        found = np.unique(labels).tolist()
        why = f", for all have the label {found[0]!r}" if len(found) == 1 else ""
        raise InputError(f"the {len(bags)} bags have no {scoring}{why}. Give bags of both classes, or another scoring.")
    X = np.asarray(bags.X)
    losses = np.empty((bags.n_features, n_repeats))
    for d, r in np.ndindex(losses.shape):
        losses[d, r] = score - scorer(estimator, _with_column(bags, X, d, rng.permutation(X[:, d])), labels)
    return Importance(_names(bags), losses, score)


def partial_dependence(
    estimator: Any, bags: Any, feature: int | str, *, bag_ids: Any = None, grid: Any = 20
) -> PartialDependence:
    """How the probability of bags to be positive follows one feature, its values put into all their instances.

    Parameters
    ----------
    estimator : fitted, of psimil, or a pipeline that ends in one.
    bags, bag_ids : as of ``predict_proba``.
    feature : its number, or its name where the bags have names.
    grid : (G,) values, or how many between the 5th and the 95th percentile of the instances.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=20, n_features=3, seed=0)
    >>> clf = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> curve = partial_dependence(clf, bags, 0, grid=[-1.0, 0.0, 1.0])
    >>> curve.average.shape, curve.individual.shape
    ((3,), (20, 3))
    """
    bags = read_bags(bags, bag_ids, what="set of bags")
    names, X = _names(bags), np.asarray(bags.X)
    if isinstance(feature, str) and feature not in names:
        raise InputError(f'the bags have no feature "{feature}".')
    number = names.index(feature) if isinstance(feature, str) else feature
    if not isinstance(number, (int, np.integer)) or not 0 <= number < bags.n_features:
        raise InputError(f"feature must be a name or a number from 0 to {bags.n_features - 1}, got {feature!r}.")
    if np.ndim(grid) == 0:
        at_least(2, whole=True, grid=grid)
        low, high = np.percentile(X[:, number], (5, 95))
        grid = np.linspace(low, high, grid)
    values = np.asarray(grid, dtype=np.float64)
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    column = list(estimator.classes_).index(model.positive_)
    changed = (_with_column(bags, X, int(number), np.full(len(X), value)) for value in values)
    curves = [estimator.predict_proba(each)[:, column] for each in changed]
    return PartialDependence(names[number], values, np.column_stack(curves))


def _names(bags: Bags) -> tuple[str, ...]:
    return tuple(map(str, range(bags.n_features))) if bags.feature_names is None else bags.feature_names


def _with_column(bags: Bags, X: Array, number: int, values: Array) -> Bags:
    """The same bags with other values (N,) of one feature."""
    changed = X.copy()
    changed[:, number] = values
    return Bags(changed, bags.offsets, bags.ids, bags.rows, bags.feature_names, bags.links)
