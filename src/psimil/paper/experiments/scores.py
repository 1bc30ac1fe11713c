"""What a model says about the measured bags, in the one form that scores, tables and figures read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psimil.datasets import LabelledBags
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.foundations.arrays import Array
from psimil.foundations.logistic import sigmoid
from psimil.predictive.aggregates import AGGREGATES, BagMoments
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction
from psimil.results.localisation import NAMES as INSIDE
from psimil.results.localisation import Localisation, Places
from psimil.results.metrics import NAMES, bag_metrics, instance_metrics


@dataclass(frozen=True, eq=False)
class ModelOutput:
    """Probabilities of B bags and, where the model has them, of their N instances.

    Parameters
    ----------
    log_odds, std : (B,) log(p / (1 - p)) and the standard deviation of p; nan where the model has none.
    threshold : a bag at or above it is called positive.
    instance_log_odds : (N,), or None when the model says nothing about instances.
    instance_threshold : an instance at or above it is called positive.
    prediction : the prediction of a Gaussian process model, from which all of the above is taken.
    """

    log_odds: Array
    std: Array
    threshold: float = 0.5
    instance_log_odds: Array | None = None
    instance_threshold: float = 0.5
    prediction: Prediction | None = None

    @property
    def prob(self) -> Array:
        """(B,) probabilities."""
        return sigmoid(self.log_odds)

    @classmethod
    def of(cls, model: Any, bags: LabelledBags, threshold: float = 0.5) -> ModelOutput:
        """What a fitted estimator says; baselines take the given threshold, ours have their own."""
        if not isinstance(model, PsiVGPMIL):
            log_odds = np.asarray(model.decision_function(bags.bags), dtype=np.float64)
            return cls(log_odds, np.full(len(log_odds), np.nan), threshold)
        prediction = model.predict_dist(bags.bags)
        inside = prediction.instance_log_odds, prediction.instance_threshold
        return cls(prediction.log_odds, prediction.std, prediction.threshold, *inside, prediction=prediction)

    def scores(self, truth: LabelledBags) -> dict[str, float]:
        """Names begin with ``bag_``, ``instance_`` or ``middle_``; values are nan where nothing is known.

        Those inside bags are of :class:`psimil.results.localisation.Localisation`, with errors in rows.
        """
        bag = bag_metrics(truth.y, self.prob, self.threshold, self.log_odds)
        instance = middle = dict.fromkeys((*NAMES, *INSIDE), float("nan"))
        if self.instance_log_odds is not None:
            prob, offsets = sigmoid(self.instance_log_odds), truth.bags.offsets
            places = None if truth.bags.links is None else Places.of_rows(offsets)
            inside = Localisation.of(truth.y_instances, self.instance_log_odds, offsets, places)
            instance = instance_metrics(truth.y_instances, prob, self.instance_threshold, self.instance_log_odds)
            instance, middle = inside.model | instance, inside.middle
        return (
            {f"bag_{k}": v for k, v in bag.items()}
            | {f"instance_{k}": instance[k] for k in (*NAMES, *INSIDE)}
            | {f"middle_{k}": middle[k] for k in INSIDE}
        )

    def arrays(self, truth: LabelledBags) -> dict[str, Array]:
        """The output with the truth, for an npz file; :func:`restored` is the way back to the prediction."""
        stored = {
            "y": truth.y,
            "y_instances": truth.y_instances,
            "offsets": truth.bags.offsets,
            "log_odds": self.log_odds,
            "std": self.std,
            "threshold": np.array(self.threshold),
        }
        if self.prediction is not None:
            stored |= {
                "latent_mean": self.prediction.latent_mean,
                "latent_variance": self.prediction.latent_variance,
                "instance_threshold": np.array(self.instance_threshold),
                "aggregate": np.array(self.prediction.aggregate),
                "bag_prob": self.prediction.prob,
            }
            more = {"novelty": self.prediction.instance_novelty, "margin": self.prediction.margin}
            more |= dict(zip(("centre", "width"), self.prediction.log_odds_moments or (), strict=False))
            stored |= {name: np.asarray(value) for name, value in more.items() if value is not None}
        return stored


def restored(arrays: dict[str, Array]) -> Prediction:
    """The prediction behind stored arrays, by quadrature: equal to the last bit unless the model samples."""
    latent = arrays["latent_mean"], arrays["latent_variance"]
    offsets = arrays["offsets"]
    instances, rule = instance_moments(*latent), str(arrays["aggregate"])
    prediction = Prediction(
        np.arange(len(offsets) - 1),
        offsets,
        None,
        *latent,
        instances,
        AGGREGATES[rule].moments(instances, offsets),
        rule,
        float(arrays["threshold"]),
        float(arrays["instance_threshold"]),
        margin=float(arrays["margin"]) if "margin" in arrays else None,
    )
    if "bag_prob" not in arrays:  # of 1.0.0
        return prediction
    return replace(
        prediction,
        bags=BagMoments(arrays["log_odds"], arrays["bag_prob"], arrays["std"]),
        log_odds_moments=(arrays["centre"], arrays["width"]) if "centre" in arrays else None,
        instance_novelty=arrays.get("novelty"),
    )
