"""Transformers of scikit-learn for bags: fitted on the instances of the training bags, applied to every instance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone

from psimil.estimators.inputs import features_of, read_bags
from psimil.foundations.errors import InputError, NotFitted
from psimil.foundations.numbers import unmasked
from psimil.model.bags import Bags
from psimil.model.labels import values_of_bags


class InstanceWise(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A scikit-learn transformer of rows as a transformer of bags; bags in, the same bags with other features out.

    Within a pipeline, ``fit`` sees the training bags of a fold only, so that nothing leaks from the others.

    Parameters
    ----------
    transformer : any transformer of (N, D) rows, such as ``StandardScaler()`` or ``PCA(20)``; a clone of it is fitted.

    Attributes
    ----------
    transformer_ : the fitted clone.
    n_features_in_ : D.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=20, seed=0)
    >>> pipe = make_pipeline(InstanceWise(StandardScaler()), VGPMIL(n_inducing=10, random_state=0)).fit(bags, y)
    >>> pipe.predict_proba(bags).shape
    (20, 2)
    >>> len(pipe[-1].predict_instances(pipe[:-1].transform(bags)))
    20
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, bags: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer to the instances of all bags.

        Parameters
        ----------
        bags : sequence of (n_i, D) arrays, or Bags.
        y : (B,) labels of the bags; a transformer that wants labels gets for each instance that of its bag.
        """
        if isinstance(self.transformer, type) or not hasattr(self.transformer, "transform"):
            kind = getattr(self.transformer, "__name__", type(self.transformer).__name__)
            raise InputError(f"transformer must be a scikit-learn transformer, got {kind}. Write StandardScaler().")
        found = _bags(bags, "training set")
        labels = None if y is None else _per_instance(y, found)
        self.transformer_ = clone(self.transformer).fit(found.X, labels)
        self.n_features_in_, self._names = found.n_features, found.feature_names
        return self

    def transform(self, bags: Any) -> Bags:
        """The same bags (ids, offsets, rows) with transformed features.

        Parameters
        ----------
        bags : sequence of (n_i, D) arrays, or Bags.
        """
        self._fitted()
        found = features_of(_bags(bags, "set to transform"), self.n_features_in_, self._names)
        rows = self.transformer_.transform(found.X)
        rows = rows.toarray() if issparse(rows) else np.asarray(unmasked(rows, "what the transformer gave"))
        if rows.ndim != 2 or len(rows) != len(found.X):
            name = type(self.transformer).__name__
            raise InputError(f"{name} made {rows.shape} of {len(found.X)} instances, expected one row for each.")
        return Bags(rows, found.offsets, found.ids, found.rows, self._names_out(), found.links)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """(D,) names of the features; there where the training bags had any."""
        if getattr(self, "_names", None) is None:
            raise AttributeError("the training bags had no feature names.")
        return np.array(self._names, dtype=object)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """(D',) names of the features that come out, if the transformer knows them."""
        self._fitted()
        if not hasattr(self.transformer_, "get_feature_names_out"):
            raise AttributeError(f"{type(self.transformer).__name__} does not name its features.")
        given = self._names if input_features is None else input_features
        names: NDArray[Any] = self.transformer_.get_feature_names_out(given)
        return names

    def _names_out(self) -> list[str] | None:
        """Names of what comes out of named features, where the transformer knows them."""
        known = self._names is not None and hasattr(self.transformer_, "get_feature_names_out")
        return list(self.get_feature_names_out()) if known else None

    def set_output(self, *, transform: Any = None) -> Self:
        """Accepted for the sake of pipelines; what comes out are bags, whatever is asked for."""
        return self

    def _fitted(self) -> None:
        if not hasattr(self, "transformer_"):
            raise NotFitted("this transformer is not fitted. Call fit() first.")


def instancewise(transformer: Any) -> InstanceWise:
    """Let a scikit-learn transformer of rows work on bags, as a step of a pipeline.

    A pipeline passes no ``bag_ids``: give it bags. ``predict_instances`` is the last step's:
    ``pipe[-1].predict_instances(pipe[:-1].transform(bags))``.

    Parameters
    ----------
    transformer : any transformer of (N, D) rows; see :class:`psimil.estimators.instance_wise.InstanceWise`.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from psimil import Bags, instancewise
    >>> bags = Bags.from_list([[[0.0, 0.0], [1.0, 1.0]], [[2.0, 2.0]]])
    >>> instancewise(PCA(1)).fit_transform(bags).X.round(3).ravel().tolist()
    [-1.414, 0.0, 1.414]
    """
    return InstanceWise(transformer)


def _bags(bags: Any, what: str) -> Bags:
    if not isinstance(bags, Bags) and getattr(bags, "ndim", None) == 2:
        raise InputError(
            f"the {what} is one table of rows, and a pipeline passes no bag_ids. Give Bags.from_arrays(X, bag_ids)."
        )
    return read_bags(bags, what=what)


def _per_instance(y: Any, bags: Bags) -> NDArray[Any]:
    return np.repeat(values_of_bags(y, bags), bags.sizes, axis=0)
