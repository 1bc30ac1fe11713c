"""What bags that the fit has not seen teach a model: aggregate, calibration, thresholds and recalibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.calibration import (
    IDENTITY,
    Calibration,
    LatentBags,
    best_aggregate,
    calibration_helps,
    fit_calibration,
)
from psimil.inference.options import Options
from psimil.inference.thresholds import bag_threshold, fit_recalibration, instance_threshold
from psimil.inference.trained import TrainedModel
from psimil.model.bags import Bags

Array = NDArray[Any]


def taught(model: TrainedModel, unseen: LatentBags, options: Options) -> TrainedModel:
    """The model with aggregate, calibration, thresholds and recalibration from latent moments of unseen bags."""
    if options.aggregate == "auto":
        unseen = replace(unseen, aggregate=best_aggregate(unseen, options.calibrate))
    model = replace(model, aggregate=unseen.aggregate, calibration=_calibration(unseen, options))
    bags = Bags(unseen.mean[:, None], unseen.offsets)  # only their sizes count here
    found = model.assemble(bags, model.calibration.apply(unseen.mean, unseen.variance))
    negative = np.repeat(unseen.T, np.diff(unseen.offsets)) == 0
    return replace(
        model,
        threshold=bag_threshold(found.log_odds, unseen.T) if options.threshold is None else float(options.threshold),
        instance_threshold=_instance_threshold(found.instance_log_odds, negative, options.false_positive_rate),
        recalibration=fit_recalibration(found.instance_log_odds, negative),
    )


def _instance_threshold(log_odds: Array, negative: Array, rate: float | None) -> float:
    return 0.5 if rate is None else instance_threshold(log_odds, negative, rate)


def _calibration(latent: LatentBags, options: Options) -> Calibration:
    two_classes = 0 < latent.T.sum() < len(latent.T)
    if options.calibrate is False or not two_classes:
        return IDENTITY
    if options.calibrate == "auto" and not calibration_helps(latent):
        return IDENTITY
    return fit_calibration(latent)
