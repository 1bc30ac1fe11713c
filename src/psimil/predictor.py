"""What a fitted model does: predict for bags and instances, and write itself to a file."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from psimil.foundations.errors import InputError, NotFitted
from psimil.inference.prediction import Prediction
from psimil.inference.trained import TrainedModel
from psimil.labels import read_bags
from psimil.model.bags import Bags
from psimil.model.densities import Density, HyperbolicSecant
from psimil.storage import ModelFile, save_model

Array = NDArray[Any]

_NOT_STORED = ("device", "inducing_points", "random_state", "verbose", "warm_start", "feature_fingerprint")


class BagPredictor(ClassifierMixin, BaseEstimator):
    """The methods of an estimator that need nothing but ``model_``, a TrainedModel."""

    _default_density: ClassVar[Density] = HyperbolicSecant()
    density: Density | None
    feature_fingerprint: str | None
    model_: TrainedModel
    training_counts_: dict[str, int]

    def _expose(self) -> Self:
        model = self.model_
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = len(model.scaling.location)
        self.kernel_, self.inducing_points_ = model.gp.kernel, model.scaling.invert(model.gp.Z)
        self.q_mean_, self.q_cov_ = model.posterior.m, model.posterior.S
        self.mean_ = float(model.gp.bias * model.posterior.m[-1]) if model.gp.bias else 0.0
        self.threshold_, self.instance_threshold_ = model.threshold, model.instance_threshold
        return self

    def predict_dist(
        self,
        bags: Any,
        bag_ids: Any = None,
        *,
        raw: bool = False,
        method: str | None = None,
        n_samples: int = 1000,
        level: float = 0.95,
        joint: bool = False,
    ) -> Prediction:
        """Bag and instance probabilities, standard deviations, intervals, log-odds and latent moments.

        Parameters
        ----------
        raw : leave out the calibration.
        method : "quadrature" or, as in the paper, "sample".
        level : mass of the credible intervals.
        joint : add the bag's standard deviation with the correlation between its instances kept.
        """
        if method not in (None, "quadrature", "sample"):
            raise InputError(f'method must be "quadrature" or "sample", got {method!r}.')
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}.")
        if not isinstance(n_samples, (int, np.integer)) or n_samples < 2:
            raise InputError(f"n_samples must be >= 2, got {n_samples}.")
        return self._model().predict(
            self._bags(bags, bag_ids), raw=raw, method=method, n_samples=n_samples, level=level, joint=joint
        )

    def predict_proba(self, bags: Any, bag_ids: Any = None) -> Array:
        """(B, 2) probabilities of the labels 0 and 1."""
        prob = self.predict_dist(bags, bag_ids).prob
        return np.column_stack([1.0 - prob, prob])

    def decision_function(self, bags: Any, bag_ids: Any = None) -> Array:
        """(B,) log-odds, above the threshold's own exactly where ``predict`` says 1."""
        model = self._model()
        shift = np.log(model.threshold) - np.log1p(-model.threshold)
        return np.asarray(self.predict_dist(bags, bag_ids).log_odds - shift)

    def predict(self, bags: Any, bag_ids: Any = None) -> Array:
        """(B,) labels at the model's bag threshold."""
        return self.predict_dist(bags, bag_ids).label

    def predict_instances(
        self,
        bags: Any,
        bag_ids: Any = None,
        *,
        return_std: bool = False,
        as_frame: bool = False,
        recalibrated: bool = False,
        raw: bool = False,
    ) -> Any:
        """Per bag the instance probabilities (n_i,), with standard deviations or as one table on request.

        Parameters
        ----------
        recalibrated : map scores to the share of positives among instances of that score, from out-of-bag scores.
        raw : leave out the calibration of the latent log-odds.
        """
        prediction = self.predict_dist(bags, bag_ids, raw=raw)
        prob = prediction.instance_prob
        if recalibrated:
            recalibration = self._model().recalibration
            if recalibration is None:
                raise InputError("recalibrated instance probabilities need positive and negative training bags.")
            prob = recalibration.apply(prediction.instance_log_odds)
        if as_frame:
            frame = prediction.to_frame("instance")
            if recalibrated:
                frame["prob"] = prob if prediction.rows is None else prob[np.argsort(prediction.rows)]
            return frame
        split = prediction.split(prob)
        return (split, prediction.split(prediction.instance_std)) if return_std else split

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a safetensors file, atomically; it holds no training rows."""
        self._model()
        if not isinstance(self.feature_fingerprint, (str, type(None))):
            raise InputError(f"feature_fingerprint must be text, got {self.feature_fingerprint!r}.")
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_STORED}
        if self.density is None:
            parameters["density"] = self._default_density  # a loaded model is always a PsiVGPMIL
        save_model(path, ModelFile(self.model_, parameters, self.feature_fingerprint, self.training_counts_))

    def __sklearn_tags__(self) -> Tags:
        """One sample is a bag, not a row; labels are binary."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = False
        tags.classifier_tags.multi_class = False
        tags.no_validation = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether fit or load has been called."""
        return hasattr(self, "model_")

    def _model(self) -> TrainedModel:
        if not hasattr(self, "model_"):
            raise NotFitted("this model is not fitted. Call fit() or load a model.")
        return self.model_

    def _bags(self, bags: Any, bag_ids: Any = None) -> Bags:
        self._model()
        found = read_bags(bags, bag_ids, what="prediction set")
        if found.n_features != self.n_features_in_:
            raise InputError(f"model expects {self.n_features_in_} features, got {found.n_features}.")
        return found
