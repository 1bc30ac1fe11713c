"""Referral: how wrong a model is about the cases it keeps, when the least certain ones go to a human reader."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from psimil.foundations.errors import InputError
from psimil.predictive.referral import Cost
from psimil.results.metrics import bag_metrics

Vector = NDArray[np.float64]


def referral_curve(
    y: ArrayLike,
    prob: ArrayLike,
    uncertainty: ArrayLike,
    threshold: float = 0.5,
    fractions: ArrayLike | None = None,
) -> pd.DataFrame:
    """Error among the most certain cases, by how many of them are kept.

    Where the cut falls among cases of equal uncertainty, the error is the mean over all ways to choose among them;
    the order of the cases never matters.

    Parameters
    ----------
    y : (B,) labels, 0 or 1.
    prob : (B,) probabilities of label 1.
    uncertainty : (B,) the larger, the sooner a case is referred: ``Prediction.referral_score``, say.
    threshold : a case is called positive when its probability is at least this.
    fractions : shares of cases to keep, above 0 and at most 1, rounded up to whole cases; None takes every number
        of cases.

    Returns
    -------
    curve : columns ``fraction_kept`` (n_kept / B), ``n_kept``, ``error``, ``accuracy``, one row per fraction.

    Examples
    --------
    >>> curve = referral_curve([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.3], [0.0, 0.1, 0.4, 0.3])
    >>> curve["error"].tolist()
    [0.0, 0.0, 0.0, 0.25]
    """
    errors = _errors(y, prob, uncertainty, threshold)
    kept = _kept(len(errors), fractions)
    error = errors[kept - 1]
    columns = {"fraction_kept": kept / len(errors), "n_kept": kept, "error": error, "accuracy": 1.0 - error}
    return pd.DataFrame(columns)


def area_under_referral(y: ArrayLike, prob: ArrayLike, uncertainty: ArrayLike, threshold: float = 0.5) -> float:
    """Mean error over all numbers of cases kept; smaller is better, the base error when uncertainty says nothing.

    Parameters
    ----------
    y, prob, uncertainty, threshold : see :func:`referral_curve`.

    Examples
    --------
    >>> area_under_referral([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.3], [0.0, 0.1, 0.4, 0.3])
    0.0625
    """
    return float(_errors(y, prob, uncertainty, threshold).mean())


def referral_cost(y: ArrayLike, prob: ArrayLike, refer: ArrayLike, threshold: float = 0.5) -> Cost:
    """What it costs to refer these cases, and what it gains.

    Parameters
    ----------
    y, prob, threshold : see :func:`referral_curve`.
    refer : (B,) whether a case is referred.

    Examples
    --------
    >>> cost = referral_cost([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.3], [False, False, True, False])
    >>> cost.share, cost.error, cost.kept_error, cost.caught
    (0.25, 0.25, 0.0, 1.0)
    """
    wrong, kept = _wrong(y, prob, threshold), ~np.asarray(refer, dtype=bool)
    if kept.shape != wrong.shape:
        raise InputError(f"{len(wrong)} labels but referrals of shape {kept.shape}.")
    return Cost(1.0 - float(kept.mean()), float(wrong[kept].mean()) if kept.any() else 0.0, float(wrong.mean()))


def _wrong(y: ArrayLike, prob: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    """(B,) whether the call is wrong."""
    bag_metrics(y, prob, threshold)  # checks the arguments
    return np.asarray((np.asarray(prob, dtype=np.float64) >= threshold) != (np.asarray(y) == 1))


def _errors(y: ArrayLike, prob: ArrayLike, uncertainty: ArrayLike, threshold: float) -> Vector:
    """(B,) error among the k most certain cases, k = 1..B."""
    wrong = _wrong(y, prob, threshold)
    u = np.asarray(uncertainty, dtype=np.float64)
    if u.shape != wrong.shape:
        raise InputError(f"{len(wrong)} labels but uncertainties of shape {u.shape}.")
    if np.isnan(u).any():
        raise InputError(f"uncertainties have {int(np.isnan(u).sum())} missing values.")
    _, group, count = np.unique(u, return_inverse=True, return_counts=True)
    share = np.bincount(group, weights=wrong) / count  # of errors among cases of equal uncertainty
    totals = np.cumsum(np.repeat(share, count))
    return np.asarray(np.clip(totals / np.arange(1, len(u) + 1), 0.0, 1.0))


def _kept(n: int, fractions: ArrayLike | None) -> NDArray[np.int64]:
    if fractions is None:
        return np.arange(1, n + 1)
    f = np.asarray(fractions, dtype=np.float64)
    if f.ndim != 1 or not np.all((f > 0) & (f <= 1)):
        raise InputError("fractions must be a list of numbers above 0 and at most 1.")
    return np.maximum(np.ceil(f * n - 1e-9), 1).astype(np.int64)  # 0.07 * 100 is 7, not 8
