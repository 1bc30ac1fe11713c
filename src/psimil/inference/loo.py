"""Out-of-bag predictions of the training bags, and the kernel search that they steer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import softplus
from psimil.inference.calibration import LatentBags, bag_log_likelihoods, fit_calibration
from psimil.inference.fitting import Record
from psimil.inference.leave_one_out import leave_one_out
from psimil.inference.prediction import Prediction
from psimil.inference.problem import Problem

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What the other bags say about each training bag.

    Parameters
    ----------
    prediction : out-of-bag probabilities of bags and instances, with uncertainty.
    log_predictive : (B,) log P(T_b | all other bags).
    """

    prediction: Prediction
    log_predictive: Array

    @property
    def influence(self) -> Array:
        """(B,) how surprising each bag's label is to the other bags; the largest are candidates for mislabelling."""
        return -self.log_predictive

    @property
    def mean_log_predictive(self) -> float:
        """The score by which models can be compared without held-out bags."""
        return float(self.log_predictive.mean())


def log_predictive(log_odds: Array, T: Array) -> Array:
    """(B,) log P(T_b) from log-odds.

    Examples
    --------
    >>> log_predictive(np.array([0.0, 0.0]), np.array([0, 1])).round(4)
    array([-0.6931, -0.6931])
    """
    return -softplus(np.where(T == 1, -log_odds, log_odds))


def out_of_bag(record: Record, problem: Problem, aggregate: str) -> LatentBags:
    """Latent moments of every training instance with its own bag left out."""
    mean, variance = leave_one_out(record.projection, record.next_posterior, record.local, problem)
    return LatentBags(mean, variance, problem.labels.offsets, problem.labels.T, problem.weights, aggregate)


def loo_scores(record: Record, problem: Problem, aggregate: str) -> Array:
    """(B,) out-of-bag log predictive of each bag after calibration: higher is better."""
    bags = out_of_bag(record, problem, aggregate)
    return bag_log_likelihoods(bags, fit_calibration(bags).parameters)[0]


def loo_score(record: Record, problem: Problem, aggregate: str) -> float:
    """Mean out-of-bag log predictive after calibration."""
    return float(np.average(loo_scores(record, problem, aggregate), weights=problem.weights))
