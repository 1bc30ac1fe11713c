"""On which bags was a published accuracy measured? Counts of bags allow only some means and standard deviations."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

REACH = 6.0  # standard deviations around the mean in which fold accuracies are sought


def possible_counts(mean: float, sd: float, sizes: ArrayLike, digits: int = 4) -> int:
    """How many outcomes of the folds give the printed mean and standard deviation (ddof 0) of accuracy.

    Parameters
    ----------
    mean, sd : as printed, rounded to ``digits``.
    sizes : (K,) measured bags of each fold; an outcome is a number of right ones in each, folds of equal size are
        not told apart.

    Returns
    -------
    count : 0 when the figures cannot have been measured on folds of these sizes.

    Examples
    --------
    >>> possible_counts(0.75, 0.25, [2, 4], digits=2)  # 1/2 and 4/4, or 2/2 and 2/4
    2
    >>> possible_counts(0.75, 0.01, [2, 4], digits=2)
    0
    """
    folds, copies = np.unique(np.asarray(sizes), return_counts=True)
    low, high = mean - REACH * sd - 1e-9, mean + REACH * sd + 1e-9
    first = np.zeros(1)  # sum of the accuracies so far, and of their squares
    second = np.zeros(1)
    for size, number in zip(folds, copies, strict=True):
        right = np.arange(np.ceil(max(low, 0.0) * size), np.floor(min(high, 1.0) * size) + 1)
        choices = np.array(list(combinations_with_replacement(right / size, int(number)))).reshape(-1, int(number))
        first = (first[:, None] + choices.sum(axis=1)).ravel()
        second = (second[:, None] + np.square(choices).sum(axis=1)).ravel()
    n = int(copies.sum())
    found_mean = first / n
    found_sd = np.sqrt(np.maximum(second / n - found_mean**2, 0.0))
    half = 0.5 * 10.0**-digits + 1e-12
    return int(((np.abs(found_mean - mean) <= half) & (np.abs(found_sd - sd) <= half)).sum())
