"""Whether one model beats another over resampled splits, whose training sets overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from psimil.foundations.errors import InputError

LEVEL = 0.95
SAME = 1e-12  # scores that differ by less than this share differ by rounding only


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a paired test over splits.

    ``mean`` and ``sd`` are those of the differences over ``n_splits`` splits, ``t`` and ``p`` (two-sided) belong to
    the hypothesis of no difference, ``interval`` holds the mean difference with confidence 95 %. What one split
    cannot tell is nan.
    """

    mean: float
    sd: float
    t: float
    p: float
    n_splits: int
    interval: tuple[float, float]


def corrected_t_test(differences: ArrayLike, train_fraction: float) -> PairedTest:
    """Nadeau and Bengio's corrected resampled t-test, t = mean / sqrt((1/J + n_test/n_train) var), J - 1 degrees.

    The plain t-test takes the J splits for independent and finds differences that are not there; the term
    n_test/n_train makes up for the overlap of the training sets. It is an approximation: in simulations of equally good
    models, 5 % of differences passed for significant at 5 % with five splits, and up to 9 % with 10 to 15 splits of
    weak models.

    Parameters
    ----------
    differences : (J,) score of one model minus score of the other, per split; missing values are left out.
    train_fraction : n_train / (n_train + n_test), above 0 and at most 1; at 1 the test is the plain one.

    Returns
    -------
    test : PairedTest. Without any difference p is 1; with the same difference in every split p is 0.

    Examples
    --------
    >>> test = corrected_t_test([0.02, 0.04, 0.03, 0.01, 0.05], train_fraction=0.8)
    >>> round(test.mean, 3), round(test.t, 3), round(test.p, 3), test.n_splits
    (0.03, 2.828, 0.047, 5)
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1:
        raise InputError(f"differences have shape {d.shape}, expected (n_splits,).")
    if not 0 < train_fraction <= 1:
        raise InputError(f"train_fraction must be above 0 and at most 1, got {train_fraction}.")
    d = d[~np.isnan(d)]
    n = len(d)
    if n == 0:
        raise InputError("there is no split in which both models have a score.")
    mean, nan = float(d.mean()), float("nan")
    if n == 1:
        return PairedTest(mean, nan, nan, nan, n, (nan, nan))
    if np.ptp(d) == 0:
        mean = float(d[0])
        t = 0.0 if mean == 0 else float(np.copysign(np.inf, mean))
        return PairedTest(mean, 0.0, t, float(mean == 0), n, (mean, mean))
    sd = float(d.std(ddof=1))
    error = sd * float(np.sqrt(1 / n + (1 - train_fraction) / train_fraction))
    half = float(stats.t.ppf(0.5 + 0.5 * LEVEL, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return PairedTest(mean, sd, mean / error, p, n, (mean - half, mean + half))


def compare(a: ArrayLike, b: ArrayLike, n_train: ArrayLike, n_test: ArrayLike) -> PairedTest:
    """The corrected test of scores ``a`` against scores ``b`` on the same splits.

    Parameters
    ----------
    a, b : (J,) scores, split by split; a split in which either is missing is left out.
    n_train, n_test : bags per split to train and to test on: one number, or (J,) numbers that are averaged.

    Returns
    -------
    test : PairedTest of a - b.

    Examples
    --------
    >>> compare([0.90, 0.85, 0.88], [0.90, 0.85, 0.88], n_train=80, n_test=20).p
    1.0
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise InputError(f"scores of shapes {first.shape} and {second.shape} do not belong to the same splits.")
    train, test = (float(np.asarray(n, dtype=np.float64).mean()) for n in (n_train, n_test))
    if not (train > 0 and test > 0):
        raise InputError(f"n_train and n_test must be positive, got {train:g} and {test:g}.")
    difference = first - second
    difference[np.abs(difference) <= SAME * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return corrected_t_test(difference, train / (train + test))
