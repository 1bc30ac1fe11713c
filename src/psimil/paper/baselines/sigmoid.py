"""Scores to log-odds by a straight line, fitted on scores of bags that were held out (Platt 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

Array = NDArray[Any]
_FLATTEST = 1e-3  # a slope below 0 would turn the ranking round, at 0 it would be lost


@dataclass(frozen=True)
class Sigmoid:
    """log-odds = slope * score + shift.

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
            return float(np.sum(np.logaddexp(0.0, log_odds) - target * log_odds)), np.array(
                [residual @ s, residual.sum()]
            )

        start = np.array([1.0, np.log((positive + 1) / (negative + 1))])
        line = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(_FLATTEST, None), (None, None)]).x
        slope = float(line[0]) / unit
        return cls(slope, float(line[1] - slope * scores.mean()))

    def log_odds(self, scores: Array) -> Array:
        """(B,) log-odds of label 1."""
        return self.slope * scores + self.shift
