"""A fit as an MLflow run: its passes while it goes on, and what came of it; no names of bags and no rows of features.

What goes to a tracker may leave the house. Numbers of the whole training set do, names of classes, and the model card;
ids of bags, predictions of single bags, features and their names do not.
"""

from __future__ import annotations

import time
import warnings
from math import isfinite
from typing import Any

import numpy as np

from psimil.estimators.inputs import read_labels
from psimil.estimators.parameters import resolved
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.export.mlflow_model import active_run, mlflow_package
from psimil.export.pretrained import card_text
from psimil.foundations.errors import DataWarning, InputError
from psimil.inference.history import Callback, Row
from psimil.predictive.prediction import Prediction
from psimil.results.metrics import bag_metrics
from psimil.version import VERSION

CARD = "model-card.md"
LONGEST = 500  # characters of a parameter, which every version of MLflow takes


def log_passes() -> Callback:
    """A callback for ``fit`` that logs each row of the history to the MLflow run that is active now.

    Metrics are called as the stage and the entry, ``fit/elbo`` or ``kernel/log_evidence``; their step is the number of
    the pass. Where the tracker fails, a warning says so and the fit goes on without it.

    Raises
    ------
    InputError
        Where MLflow is not installed, or no run is active.

    Examples
    --------
    >>> from pathlib import Path
    >>> import mlflow
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> mlflow.set_tracking_uri(Path("runs"))
    >>> with mlflow.start_run() as run:
    ...     clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y, callbacks=[log_passes()])
    >>> bound = mlflow.MlflowClient().get_metric_history(run.info.run_id, "fit/elbo")
    >>> [entry.step for entry in bound], bound[-1].value == clf.elbo_
    ([1, 2], True)
    """
    return _Passes(mlflow_package(), active_run().info.run_id)


def log_fit(estimator: PsiVGPMIL, *, evaluation: tuple[Any, Any] | None = None) -> None:
    """Log what came of a fit to the MLflow run that is active: parameters, bound, out-of-bag scores and model card.

    A run takes one fit: MLflow refuses other values of parameters that it has.

    Parameters
    ----------
    estimator : fitted; one that was loaded knows its parameters and thresholds, but no scores.
    evaluation : (bags, y) that were not trained on, to be scored as well; labels find their bags as in ``fit``.

    Raises
    ------
    InputError
        Where MLflow is not installed, or no run is active.

    Examples
    --------
    >>> from pathlib import Path
    >>> import mlflow
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=12, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags[:8], y[:8])
    >>> mlflow.set_tracking_uri(Path("runs"))
    >>> with mlflow.start_run() as run:
    ...     log_fit(clf, evaluation=(bags[8:], y[8:]))
    >>> found = mlflow.get_run(run.info.run_id).data
    >>> found.params["n_inducing"], found.metrics["training/bags"], "evaluation/brier" in found.metrics
    ('4', 8.0, True)
    """
    run, mlflow = active_run(), mlflow_package()
    if not isinstance(estimator, PsiVGPMIL):
        kind = type(estimator).__name__
        raise InputError(f"only fits of one label can be logged, got {kind}. Log each part of it.")
    estimator._check_fitted()
    numbers = _of_fit(estimator) | _of_evaluation(estimator, evaluation)
    client, now = mlflow.MlflowClient(), _milliseconds()
    parameters = {name: text_of(value) for name, value in resolved(estimator).items()}
    client.log_batch(
        run.info.run_id,
        metrics=_entries(mlflow, numbers, now, 0),
        params=[mlflow.entities.Param(name, text) for name, text in parameters.items()],
        tags=[mlflow.entities.RunTag("psimil_version", VERSION)],
    )
    client.log_text(run.info.run_id, card_text(estimator), CARD)


def text_of(value: Any) -> str:
    """A parameter as a tracker shows it: of arrays the shape, of random generators the kind.

    Examples
    --------
    >>> text_of(None), text_of("bag"), text_of(np.zeros((3, 2))), text_of(np.random.default_rng())
    ('None', 'bag', 'array of shape (3, 2)', 'Generator')
    """
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return type(value).__name__
    if np.ndim(value) > 0 or hasattr(value, "__array__"):
        return f"array of shape {np.shape(value)}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


class _Passes:
    """Logs rows of a history to one run, until the tracker fails."""

    def __init__(self, mlflow: Any, run_id: str) -> None:
        self._mlflow, self._run_id, self._heard = mlflow, run_id, True

    def __call__(self, row: Row) -> None:
        if not self._heard:
            return
        numbers = {f"{row['stage']}/{name}": value for name, value in row.items() if name not in ("stage", "iteration")}
        entries = _entries(self._mlflow, numbers, _milliseconds(), row["iteration"])
        try:
            self._mlflow.MlflowClient().log_batch(self._run_id, metrics=entries)
        except Exception as error:  # stores have errors of many families, and no fit is to die of them
            self._heard = False
            kind = type(error).__name__  # its words may hold an address with a password
            lost = f"MLflow did not take pass {row['iteration']} ({kind}). The fit goes on and logs no more."
            warnings.warn(lost, DataWarning, stacklevel=2)


def _of_fit(estimator: PsiVGPMIL) -> dict[str, Any]:
    """Numbers that a fit leaves; of a loaded model, those that are in its file."""
    found: dict[str, Any] = {f"training/{name}": count for name, count in estimator.training_counts_.items()}
    found |= {"sharing": estimator.model_.sharing, "coupling": estimator.model_.coupling}
    found |= {"threshold": estimator.threshold_, "instance_threshold": estimator.instance_threshold_}
    if estimator.model_.referral is not None:
        found["referral_margin"] = estimator.model_.referral.margin
    for name in ("elbo_", "n_iter_", "converged_"):
        if hasattr(estimator, name):
            found[name.removesuffix("_")] = float(getattr(estimator, name))
    unseen = getattr(estimator, "out_of_bag_", None)
    if unseen is not None:
        scores = _scores(unseen.latent.T, unseen.prediction, unseen.thresholds, unseen.fold)
        scores["log_predictive"] = unseen.mean_log_predictive
        found |= {f"out_of_bag/{name}": value for name, value in scores.items()}
    return found


def _of_evaluation(estimator: PsiVGPMIL, evaluation: tuple[Any, Any] | None) -> dict[str, Any]:
    """Scores on bags of the caller's."""
    if evaluation is None:
        return {}
    if not isinstance(evaluation, (tuple, list)) or len(evaluation) != 2:
        raise InputError("evaluation must be a pair (bags, y).")
    bags = estimator._bags(evaluation[0], what="evaluation set")
    _, T = read_labels(evaluation[1], bags, classes=estimator.classes)
    scores = _scores(T, estimator.predict_dist(bags), estimator.threshold_)
    return {f"evaluation/{name}": value for name, value in scores.items()}


def _scores(T: Any, prediction: Prediction, threshold: Any, fold: Any = None) -> dict[str, float]:
    return bag_metrics(T, prediction.prob, threshold, prediction.log_odds, fold)


def _entries(mlflow: Any, numbers: dict[str, Any], now: int, step: int) -> list[Any]:
    """Metrics of all that are finite numbers."""
    kinds = (int, float, np.integer, np.floating)
    known = {name: float(value) for name, value in numbers.items() if isinstance(value, kinds) and isfinite(value)}
    return [mlflow.entities.Metric(name, value, now, step) for name, value in known.items()]


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
