"""Feature effects: which features of an instance move its latent log-odds most, by leaving out one at a time.

Of a model that sees instances in context, the features of the bag are among them; what an instance owes to itself and
what to its bag is told apart by leaving out either, or both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.context import context_names
from psimil.predictive.trained import TrainedModel

MOST = 5  # features named per instance
LIMIT = 5_000_000  # instances times features above which nothing is worked out
WORK = 5e11  # multiplications above which nothing is worked out, about a quarter of a minute
BLOCK = 1_000_000  # numbers in memory at a time


class FeatureEffect(NamedTuple):
    """A feature of one instance: its name, its value, and what it adds to the latent log-odds."""

    name: str
    value: float
    effect: float


class FeatureEffects(NamedTuple):
    """Per instance (N, k): numbers of the telling features, their values, and what they add to the log-odds."""

    features: Array
    values: Array
    effects: Array


class Owed(NamedTuple):
    """What the latent log-odds of each instance (N,) owe to its own features, and what to those of its bag."""

    own: Array
    bag: Array


def explain(estimator: PsiVGPMIL, bags: Any, *, bag_ids: Any = None, most: int = MOST) -> pd.DataFrame:
    """Why each instance got its log-odds: the features that matter most, as the viewer shows them.

    The effect is that of :func:`feature_effects`: the latent log-odds of the instance minus those of the same instance
    with that feature at its training mean.

    Parameters
    ----------
    estimator : fitted.
    bags, bag_ids : as of ``predict_dist``.
    most : features to name per instance, the most telling first.

    Returns
    -------
    table : one row per instance and feature, bag after bag: bag, instance (from 0 in its bag), feature, value, effect.

    Raises
    ------
    InputError
        When there are so many instances and features that it would take long; explain some of the bags.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), n_features=3, seed=0)
    >>> clf = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> explain(clf, bags[:2], most=1).columns.tolist()
    ['bag', 'instance', 'feature', 'value', 'effect']
    """
    if not hasattr(estimator, "model_"):
        kind = type(estimator).__name__
        cure = "Of a pipeline give the last step, and the bags as the steps before make them"
        raise InputError(f"explain needs a fitted model of psimil, got {kind}. {cure}.")
    bags = estimator._bags(bags, bag_ids)
    strongest = feature_effects(estimator.model_, bags, most)
    if strongest is None:
        raise InputError(f"{bags.n_instances} instances are too many to explain at a time. Give some of the bags.")
    names = bags.feature_names or tuple(map(str, range(bags.n_features)))
    names = context_names(names) if estimator.model_.context else names
    k = strongest.features.shape[1]
    within = np.arange(bags.n_instances) - np.repeat(bags.offsets[:-1], bags.sizes)
    columns = {
        "bag": np.repeat(bags.names[bags.bag_index], k),
        "instance": np.repeat(within, k),
        "feature": np.array(names, dtype=object)[strongest.features.ravel()],
        "value": strongest.values.ravel(),
        "effect": strongest.effects.ravel(),
    }
    return pd.DataFrame(columns)


def feature_effects(model: TrainedModel, bags: Bags, most: int = MOST) -> FeatureEffects | None:
    """The features of each instance that matter most, the most telling first.

    The effect of a feature is the latent log-odds of the instance minus those of the same instance with that feature
    at its training mean (at 0 where the model does not standardise). Effects do not add up to the log-odds: features
    work together, and each is left out alone.

    Parameters
    ----------
    model : trained on D features, which in context are 4 D, see :func:`psimil.model.context.context_names`.
    bags : of N instances with features in the units of the file.
    most : features to name per instance, at most D.

    Returns
    -------
    found : features (N, k) int64, values (N, k) and effects (N, k) float64; None when N x D is above 5e6, or when
        it would take more than about 5e11 multiplications.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), n_features=3, seed=0)
    >>> clf = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> feature_effects(clf.model_, bags, most=2).features.shape
    (40, 2)
    """
    N, D = bags.n_instances, len(model.scaling.location)
    if N * D > LIMIT or float(N) * D * D * len(model.gp.Z) > WORK:
        return None
    rows, step = model.seen(bags).stream, max(1, BLOCK // D)
    with single_threaded_blas():
        parts = [_strongest(model, np.asarray(rows[a : a + step], dtype=np.float64), most) for a in range(0, N, step)]
    return FeatureEffects(*map(np.concatenate, zip(*parts, strict=True)))


def owed_to_bag(model: TrainedModel, bags: Bags) -> Owed | None:
    """How much of each instance's latent log-odds is owed to itself, and how much to its bag.

    Both add up to the latent log-odds of the instance minus those of one whose features, own and the bag's, are all at
    their training means. The share of the bag is what its features add, once beside the own features of the instance
    and once beside mean ones, on average (Shapley's value for two); so is that of the instance itself.

    Parameters
    ----------
    model : trained on D features.
    bags : of N instances with features in the units of the file.

    Returns
    -------
    owed : own and bag, each (N,); None for a model without context, and when N x 4 D is above 5e6.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), n_features=3, seed=0)
    >>> clf = VGPMIL(n_inducing=5, context="bag", random_state=0).fit(bags, y)
    >>> owed_to_bag(clf.model_, bags).bag.shape
    (40,)
    """
    N, D, location = bags.n_instances, model.n_features, model.scaling.location
    if not model.context or N * len(location) > LIMIT:
        return None
    X = np.asarray(model.seen(bags).X, dtype=np.float64)
    alone, beside = X.copy(), X.copy()
    alone[:, D:], beside[:, :D] = location[D:], location[:D]
    with single_threaded_blas():
        both, own, bag, neither = (model.latent(rows)[0] for rows in (X, alone, beside, location[None]))
    return Owed(0.5 * (both - bag + own - neither), 0.5 * (both - own + bag - neither))


def _strongest(model: TrainedModel, X: Array, most: int) -> FeatureEffects:
    """Of some instances X (n, D)."""
    effects = _effects(model, X)
    order = np.argsort(-np.abs(effects), axis=1, kind="stable")[:, :most].astype(np.int64)
    return FeatureEffects(order, *(np.take_along_axis(values, order, axis=1) for values in (X, effects)))


def _effects(model: TrainedModel, X: Array) -> Array:
    """(n, D) change of the latent mean when each feature alone is taken away."""
    D, location = X.shape[1], model.scaling.location
    effects, whole = np.empty(X.shape), model.latent(X)[0]
    columns = max(1, BLOCK // X.size)
    for first in range(0, D, columns):
        left_out = np.arange(first, min(first + columns, D))
        copies = np.repeat(X[None], len(left_out), axis=0)
        copies[np.arange(len(left_out)), :, left_out] = location[left_out, None]
        without = model.latent(copies.reshape(-1, D))[0].reshape(len(left_out), -1)
        effects[:, left_out] = (whole - without).T
    return effects
