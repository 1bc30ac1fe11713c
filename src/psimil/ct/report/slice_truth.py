"""What is known about the slices of scans, and how well a prediction agrees with it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from psimil.ct.scans.scan import Slices
from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning, InputError
from psimil.predictive.prediction import Prediction
from psimil.results.localisation import auc_within_bags
from psimil.results.metrics import bag_metrics, instance_metrics


def slice_truth(slices: Sequence[Slices], truth: Mapping[str, int]) -> Array:
    """(N,) labels of all slices, -1 where ``truth`` has none.

    Examples
    --------
    >>> from psimil.ct.scans.scan import Scan, Source
    >>> from psimil.ct.scans.windows import WINDOWS
    >>> scan = Scan("a", np.zeros((1, 4, 4), np.int16), np.zeros(1), (1.0, 1.0), (Source("1.2", "1.2.3", None),))
    >>> slice_truth([Slices.of(scan, WINDOWS, 4)], {"1.2.3": 1})
    array([1])
    """
    uids = [source.sop_instance_uid for scan in slices for source in scan.sources]
    labels = [truth.get(uid, -1) for uid in uids]
    if len(labels) != sum(map(len, slices)) or max(labels, default=-1) < 0:
        raise InputError("the slice labels fit none of the slices. Give them by SOP instance UID.")
    if unused := len(truth.keys() - set(uids)):
        words = f"{unused} of {len(truth)} slice labels are of no slice that was read."
        warnings.warn(words, DataWarning, stacklevel=3)
    return np.array(labels, dtype=np.int64)


def truth_scores(prediction: Prediction, truth: Array) -> dict[str, Any]:
    """Scores of scans and slices, and how well the standard deviation of a slice tells that its call is wrong.

    Parameters
    ----------
    truth : (N,) slice labels, -1 for unknown. A scan is positive when one of its slices is, negative when all are known
        to be, and not scored otherwise.

    Returns
    -------
    scores : {"scans": ..., "slices": ..., "auc_within_scans": ..., "uncertainty_auc": ...}; values are nan where a
        class is missing.
    """
    starts, known = prediction.offsets[:-1], truth >= 0
    y = np.maximum.reduceat(truth, starts)
    scored = (y == 1) | np.logical_and.reduceat(known, starts)
    wrong = prediction.instance_label[known] != truth[known]
    return {
        "scans": bag_metrics(y[scored], prediction.prob[scored], prediction.threshold, prediction.log_odds[scored]),
        "slices": instance_metrics(
            truth, prediction.instance_prob, prediction.instance_threshold, prediction.instance_log_odds
        ),
        "auc_within_scans": auc_within_bags(truth, prediction.instance_log_odds, prediction.offsets),
        "uncertainty_auc": area(wrong, prediction.instance_std[known]),
        "wrong_slices": int(wrong.sum()),
    }


def area(y: Array, score: Array) -> float:
    """Area under the ROC curve, nan when there is one class only.

    Examples
    --------
    >>> area(np.array([0, 1]), np.array([0.1, 0.2])), area(np.array([1]), np.array([0.1]))
    (1.0, nan)
    """
    return float(roc_auc_score(y, score)) if 0 < np.sum(y) < len(y) else float("nan")
