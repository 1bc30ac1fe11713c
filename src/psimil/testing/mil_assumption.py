"""Whether a model keeps the multiple instance assumption, or learns whatever tells the training bags apart."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from psimil.foundations.errors import InputError
from psimil.testing.expectations import demand
from psimil.testing.subject import demand_estimator, positive
from psimil.testing.traps import TRAPS, Trap

Array = NDArray[Any]


@dataclass(frozen=True)
class TrapScores:
    """AUC of bags like those of training, and of bags in which the trap is turned round."""

    alike: float
    turned: float

    @property
    def passed(self) -> bool:
        """Whether the model was not led into the trap: it ranks the turned bags better than by chance."""
        return self.turned > 0.5


def trap_scores(estimator: Any, trap: Trap) -> TrapScores:
    """Fit a copy of an estimator to the training bags of a trap, and rank the others.

    Parameters
    ----------
    estimator : classifier of bags with ``fit(bags, y)`` and ``predict_proba(bags)``; bags are ranked by
        ``decision_function`` where there is one, since probabilities near 1 tie.
    trap : as of :func:`single_concept`, :func:`two_concepts` or :func:`false_frequency`.

    Examples
    --------
    >>> from psimil.paper.baselines import MeanPooling
    >>> from psimil.testing import single_concept
    >>> scores = trap_scores(MeanPooling(), single_concept())
    >>> scores.alike > 0.9, scores.passed
    (True, False)
    """
    demand_estimator(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as all checks do
        model = clone(estimator).fit(*trap.train)
        return TrapScores(*(float(roc_auc_score(y, _ranks(model, bags))) for bags, y in (trap.alike, trap.turned)))


def check_mil_assumption(
    estimator: Any, traps: Sequence[str] = ("single_concept",), *, seed: int = 0, **sizes: int
) -> dict[str, TrapScores]:
    """Demand that an estimator is not led into these traps.

    Parameters
    ----------
    estimator : as of :func:`trap_scores`.
    traps : of "single_concept", which tests the standard assumption, that a bag is positive if at least one instance
        is, and "two_concepts" and "false_frequency", where a bag needs two kinds of instances to be positive.
    seed : of the bags.
    sizes : ``n_bags`` and ``n_features`` of the traps.

    Returns
    -------
    scores : by trap.

    Raises
    ------
    AssertionError
        At the first trap that the estimator is led into: its AUC is 1/2 or less where the trap is turned.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> scores = check_mil_assumption(VGPMIL(n_inducing=20, random_state=0), n_bags=40)
    >>> scores["single_concept"].turned > 0.7
    True
    """
    unknown = [name for name in traps if name not in TRAPS]
    if unknown or isinstance(traps, str):
        raise InputError(f"traps must be a list of {', '.join(TRAPS)}, got {traps!r}.")
    scores = {}
    for name in traps:
        scores[name] = trap_scores(estimator, TRAPS[name](seed, **sizes))
        alike, turned = scores[name].alike, scores[name].turned
        demand(
            scores[name].passed,
            f"check_mil_assumption: {name}: AUC is {alike:.3f} on bags like those of training, but {turned:.3f} where "
            "the trap is turned round and positive instances are as they were",
        )
    return scores


def _ranks(model: Any, bags: list[Array]) -> Array:
    """(B,) numbers that grow with the probability of label 1."""
    return np.asarray(model.decision_function(bags)) if hasattr(model, "decision_function") else positive(model, bags)
