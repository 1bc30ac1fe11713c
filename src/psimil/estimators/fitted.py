"""What a fitted estimator shows of its model, as scikit-learn names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import NotFitted
from psimil.model.kernels import Kernel
from psimil.model.labels import Classes
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

OF_TRAINING = frozenset(("converged_", "elbo_", "history_", "label_posterior_", "n_iter_", "out_of_bag_"))


class FittedAttributes:
    """Views of ``model_`` and of what its training data were called; before a fit there are none.

    Attributes
    ----------
    bag_column_ : column by which ``psimil fit`` made the bags of a table or of slides, where one was named.
    """

    model_: TrainedModel
    training_counts_: dict[str, int]
    _classes: Classes
    _feature_names: tuple[str, ...] | None
    bag_column_: str | None = None

    if not TYPE_CHECKING:  # for which every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Say why a loaded model lacks what a fit leaves beside the model."""
            if name in OF_TRAINING and "model_" in vars(self):
                words = "is of training, and a model file holds nothing of that"
                raise AttributeError(f"{name} {words}. Fit the model again, or see the run folder of psimil fit.")
            return object.__getattribute__(self, name)  # raises in its own words

    @property
    def classes_(self) -> Array:
        """(2,) the two labels in ascending order."""
        return np.sort(np.array(self._classes))

    @property
    def positive_(self) -> Any:
        """The label of positive bags."""
        return self._classes.positive

    @property
    def feature_names_in_(self) -> Array:
        """(D,) names of the features; there where the training bags had any."""
        if self._feature_names is None:
            raise AttributeError("the training bags had no feature names.")
        return np.array(self._feature_names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """D."""
        return self.model_.n_features

    @property
    def kernel_(self) -> Kernel:
        """The learned one, on standardised features."""
        return self.model_.gp.kernel

    @property
    def inducing_points_(self) -> Array:
        """(M, D) in the units of the input features; (M, 4 D) in context."""
        return self.model_.scaling.invert(self.model_.gp.Z)

    @property
    def q_mean_(self) -> Array:
        """(V,) mean of q(v), whitened."""
        return self.model_.posterior.m

    @property
    def q_cov_(self) -> Array:
        """(V, V) covariance of q(v)."""
        return self.model_.posterior.S

    @property
    def mean_(self) -> float:
        """The learned prior mean of the latent function."""
        return self.model_.prior_mean

    @property
    def threshold_(self) -> float:
        """Bag probability from which ``predict`` says the positive label."""
        return self.model_.threshold

    @property
    def instance_threshold_(self) -> float:
        """The same for instances."""
        return self.model_.instance_threshold

    @property
    def classes(self) -> Classes:
        """The labels of negative and of positive bags."""
        return self._classes

    def __sklearn_is_fitted__(self) -> bool:
        """Whether fit or load has been called."""
        return hasattr(self, "model_")

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFitted("this model is not fitted. Call fit() or load a model.")

    @property
    def _positive_is_last(self) -> bool:
        return bool(self.classes_[1] == self.positive_)
