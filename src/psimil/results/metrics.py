"""Scores of predicted probabilities, for bags and for instances whose label is known."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least, is_number, unmasked

NAMES = ("accuracy", "f1", "auc", "log_loss", "brier", "ece")
UNKNOWN = -1

Vector = NDArray[np.float64]


def bag_metrics(
    y: ArrayLike,
    prob: ArrayLike,
    threshold: float | Vector = 0.5,
    log_odds: ArrayLike | None = None,
    fold: ArrayLike | None = None,
) -> dict[str, float]:
    """Accuracy, F1, AUC, log-loss, Brier score and expected calibration error.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1.
    threshold : a bag is called positive when its probability is at least this; one number, or one for each bag (B,).
    log_odds : (B,) log(p / (1 - p)). When given, AUC ranks by them and log-loss is computed from them, so that
        probabilities which round to 0 or 1 lose nothing. Without them log-loss clips probabilities at 2.2e-16.
    fold : (B,) the fold with which each bag was left out; AUC then compares bags of one fold (:func:`auc_within`).

    Returns
    -------
    scores : ``accuracy``, ``f1``, ``auc`` (nan when y has one class only), ``log_loss``, ``brier``, ``ece``, and the
        ends of a 95 % interval of the AUC, ``auc_lower`` and ``auc_upper``, where there are folds.

    Examples
    --------
    >>> scores = bag_metrics([0, 1, 1, 0], [0.1, 0.8, 0.4, 0.2])
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'accuracy': 0.75, 'f1': 0.667, 'auc': 1.0, 'log_loss': 0.367, 'brier': 0.112, 'ece': 0.275}
    """
    t, p = _labels_and_probabilities(y, prob)
    limits = np.ravel(threshold).tolist()
    if not all(is_number(limit) and 0 <= limit <= 1 for limit in limits) or len(limits) not in {1, len(t)}:
        raise InputError(f"threshold must be a number from 0 to 1, got {threshold!r}.")
    score = p if log_odds is None else as_vector(log_odds, "log-odds", len(t))
    called = p >= threshold
    both = 0 < t.sum() < len(t)
    auc = {"auc": float(roc_auc_score(t, score)) if both else float("nan")}
    if fold is not None:
        auc = dict(zip(("auc", "auc_lower", "auc_upper"), auc_within(t, score, np.asarray(fold)), strict=True))
    return {
        "accuracy": float(accuracy_score(t, called)),
        "f1": float(f1_score(t, called, zero_division=0.0)),
        **auc,
        "log_loss": float(log_loss(t, p, labels=[0, 1])) if log_odds is None else _log_loss(t, score),
        "brier": float(np.mean((p - t) ** 2)),
        "ece": expected_calibration_error(t, p),
    }


def auc_within(y: ArrayLike, score: ArrayLike, fold: NDArray[Any]) -> tuple[float, float, float]:
    """AUC over pairs of bags of one fold, and the ends of its 95 % interval; nan where no fold has both labels.

    The interval is that of Hanley and McNeil (1982), fold by fold, widened as Nadeau and Bengio (2003) say for
    predictions from overlapping training bags, at an area that two more bags draw to the middle.

    Parameters
    ----------
    y, score : (B,) labels and scores.
    fold : (B,) number of each bag's fold.

    Examples
    --------
    >>> found = auc_within([0, 1, 0, 1], [0.1, 0.2, 0.8, 0.9], np.array([0, 0, 1, 1]))
    >>> tuple(round(value, 3) for value in found)
    (1.0, 0.0, 1.0)
    >>> auc_within([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.2], np.array([0, 0, 1, 1]))[0]
    0.5
    """
    t, values = _labels(y), as_vector(score, "scores", len(np.atleast_1d(y)))
    areas, counts = list[float](), list[tuple[int, int]]()
    for number in np.unique(fold):
        own = fold == number
        positive = int(t[own].sum())
        if 0 < positive < own.sum():
            areas.append(float(roc_auc_score(t[own], values[own])))
            counts.append((positive, int(own.sum()) - positive))
    if not areas:
        return (float("nan"),) * 3
    n1, n0 = np.array(counts).T
    area = float(np.average(areas, weights=n1 * n0))
    few = min(n1.sum(), n0.sum())  # an area of 0 or 1 is no certainty: two bags more would have changed it
    a = (few * area + 1.0) / (few + 2.0)
    q1, q0 = a / (2.0 - a) - a**2, 2.0 * a**2 / (1.0 + a) - a**2
    variance = (a * (1.0 - a) + (n1 - 1) * q1 + (n0 - 1) * q0) / (n1 * n0)
    folds = len(np.unique(fold))
    overlap = 1.0 + folds / max(folds - 1, 1)
    half = 1.96 * float(np.sqrt(overlap * (np.square(n1 * n0) * variance).sum()) / (n1 * n0).sum())
    return area, max(area - half, 0.0), min(area + half, 1.0)


def instance_metrics(y_instances: Any, prob: Any, threshold: float = 0.5, log_odds: Any = None) -> dict[str, float]:
    """The scores of :func:`bag_metrics` over the instances whose label is known.

    Parameters
    ----------
    y_instances : (N,) labels, 0, 1 or -1 (unknown, left out), or one sequence per bag.
    prob : (N,) probabilities of label 1, or one sequence per bag as of ``predict_instances``.
    threshold : an instance is called positive when its probability is at least this.
    log_odds : (N,) or one sequence per bag, see :func:`bag_metrics`.

    Returns
    -------
    scores : as :func:`bag_metrics`; all nan when no label is known.

    Examples
    --------
    >>> instance_metrics([0, -1, 1], [0.1, 0.9, 0.8])["accuracy"]
    1.0
    >>> instance_metrics([[0, -1], [1]], [[0.1, 0.9], [0.8]])["accuracy"]
    1.0
    """
    t = as_instance_labels(y_instances)
    p = as_vector(_flat(prob), "probabilities", len(t))
    known = t != UNKNOWN
    if not known.any():
        return dict.fromkeys(NAMES, float("nan"))
    score = None if log_odds is None else as_vector(_flat(log_odds), "log-odds", len(t))[known]
    return bag_metrics(t[known], p[known], threshold, score)


def expected_calibration_error(y: ArrayLike, prob: ArrayLike, bins: int = 10) -> float:
    """Mean gap between predicted and observed frequency, sum_k (n_k / n) |mean(y) - mean(p)|, over equal-width bins.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1.
    bins : number of bins; bin k holds the probabilities in [k, k + 1) / bins, the last one also 1.

    Returns
    -------
    error : between 0 (calibrated) and 1.

    Examples
    --------
    >>> round(expected_calibration_error([0, 0, 1, 1], [0.25, 0.25, 0.75, 1.0]), 4)
    0.1875
    """
    at_least(1, whole=True, bins=bins)
    t, p = _labels_and_probabilities(y, prob)
    k = np.minimum((p * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(k, weights=t - p, minlength=bins)  # n_k (mean(y) - mean(p))
    return float(np.abs(gaps).sum() / len(t))


def _log_loss(t: Vector, log_odds: Vector) -> float:
    """Mean of log(1 + exp(-l)) for y = 1 and log(1 + exp(l)) for y = 0."""
    return float(np.mean(np.logaddexp(0.0, (1 - 2 * t) * log_odds)))


def _labels_and_probabilities(y: ArrayLike, prob: ArrayLike) -> tuple[Vector, Vector]:
    labels = _among(_labels(y), (0, 1))
    p = as_vector(prob, "probabilities", len(labels))
    outside = np.flatnonzero((p < 0) | (p > 1))
    if len(outside):
        raise InputError(f"probability {outside[0]} is {p[outside[0]]:g}; probabilities must be between 0 and 1.")
    return labels.astype(np.float64), p


def as_instance_labels(y_instances: Any) -> NDArray[Any]:
    """(N,) labels 0, 1 or -1 (unknown), also from one sequence per bag.

    Examples
    --------
    >>> as_instance_labels([[0, 1], [-1]])
    array([ 0,  1, -1])
    """
    return _among(_labels(_flat(y_instances)), (0, 1, UNKNOWN), " Give -1 where unknown.")


def _among(labels: NDArray[Any], allowed: tuple[int, ...], cure: str = "") -> NDArray[Any]:
    wrong = np.flatnonzero(~np.isin(labels, allowed))
    if len(wrong):
        raise InputError(f"label {wrong[0]} is {labels[wrong[0]]}; labels must be 0 or 1.{cure}")
    return labels


def _flat(values: Any) -> Any:
    """Values per instance, also when they come as one sequence per bag."""
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes)) or len(values) == 0:
        return values
    first = next(iter(values))
    per_bag = hasattr(first, "__len__") and not isinstance(first, (str, bytes))
    if not per_bag:
        return values
    unmasked(list(values), "values")
    try:
        return np.concatenate([np.asarray(part) for part in values])
    except ValueError as error:
        raise InputError("values per instance must be one flat sequence, or one sequence per bag.") from error


def _labels(y: Any) -> NDArray[Any]:
    unmasked(y, "y")
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise InputError("labels are ragged, expected (n,) with n >= 1.") from error
    if labels.ndim != 1 or len(labels) == 0:
        raise InputError(f"labels have shape {labels.shape}, expected (n,) with n >= 1.")
    if labels.dtype.kind not in "biuf":
        raise InputError(f"label 0 is {labels.tolist()[0]!r}; labels must be the numbers 0 or 1.")
    return labels


def as_vector(values: ArrayLike, what: str, length: int) -> Vector:
    """Finite numbers (length,), one per label; anything else is refused under the name ``what``.

    Examples
    --------
    >>> as_vector([1, 2], "scores", 2)
    array([1., 2.])
    """
    unmasked(values, what)
    try:
        given = np.asarray(values)
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be numbers, one per label.") from error
    if given.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, one per label.")
    if vector.shape != (length,):
        raise InputError(f"{length} labels but {what} of shape {vector.shape}.")
    if np.isnan(vector).any():
        raise InputError(f"{what} have {int(np.isnan(vector).sum())} missing values.")
    if np.isinf(vector).any():
        raise InputError(f"{what} have {int(np.isinf(vector).sum())} infinite values. Give finite ones.")
    return vector
