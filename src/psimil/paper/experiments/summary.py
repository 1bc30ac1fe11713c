"""From rows of fits to tables: selection over the paper's grid, means over splits, and paired tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from psimil.foundations.errors import InputError
from psimil.results.render import summarise

BAG = ("bag_accuracy", "bag_f1", "bag_auc", "bag_log_loss", "bag_brier", "bag_ece")
INSTANCE = (
    "instance_accuracy", "instance_f1", "instance_auc", "instance_auc_within_bags", "instance_localisation_error",
    "instance_log_loss", "instance_brier", "instance_ece", "middle_auc", "middle_auc_within_bags",
    "middle_localisation_error",
)  # fmt: skip
IDENTITY = ("protocol", "task", "measured_on", "model", "preset", "n_features", "n_inducing")
PAIRED = ("bag_auc", "bag_accuracy", "bag_log_loss", "instance_auc", "instance_auc_within_bags", "instance_f1")
REFERENCE = ("VGPMIL", "default")
LEVEL = 0.95
SAME = 1e-12  # scores that differ by less than this share differ by rounding only
FEWEST_SPLITS = 5  # below this no paired test is made


def selected(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the best (alpha, beta) of each model and size, by bag accuracy; rows without a grid stay.

    Under the paper's protocol the accuracy is that on the validation bags, so that test bags choose nothing; under
    ``published`` it is that of the measured bags, as in the authors' tables.
    """
    best = []
    by = ["protocol", "model", "preset", "n_features", "n_inducing"]
    for (protocol, *_), group in rows.groupby(by, sort=False, dropna=False):
        settings = group.groupby(["alpha", "beta"])
        if settings.ngroups > 1:
            score = "bag_accuracy" if protocol == "published" else "select_accuracy"
            best.append(settings.get_group(settings[score].mean().idxmax()))
        else:
            best.append(group)
    return pd.concat(best).sort_index()


def score_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of every score, one line per protocol, task, model, preset and size."""
    best = selected(rows)
    used = [name for name in INSTANCE if name in best and best[name].notna().any()]
    by = [name for name in (*IDENTITY, "alpha", "beta") if name in best and best[name].notna().any()]
    return summarise(best, by, [*BAG, *used])


def cnn_table(rows: pd.DataFrame) -> pd.DataFrame | None:
    """The scores per CNN (ICH), or None."""
    if "cnn" not in rows or rows["cnn"].isna().all():
        return None
    return summarise(rows, ["protocol", "task", "measured_on", "cnn", "model", "preset"], ["bag_accuracy", "bag_auc",
                     "instance_f1", "instance_auc", "instance_auc_within_bags"])  # fmt: skip


def time_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Training seconds and passes; apart from the scores, as they differ from run to run."""
    by = [name for name in IDENTITY if name in rows and rows[name].notna().any()]
    return summarise(rows, by, ["seconds", "passes"])


def paired_tests(rows: pd.DataFrame) -> pd.DataFrame:
    """Every model against the default VGPMIL on equal splits (Nadeau and Bengio); no table says "better" without it.

    Returns
    -------
    tests : one line per task, model and score with ``difference`` (reference minus model), ``p`` and ``n_splits``.
    """
    nested = rows[rows["protocol"] == "nested"]
    lines: list[dict[str, Any]] = []
    for task, part in nested.groupby("task", sort=False):
        groups = dict(iter(part.groupby(["model", "preset", "n_inducing"], sort=False, dropna=False)))
        reference = next((g for (m, p, _), g in groups.items() if (m, p) == REFERENCE), None)
        if reference is None:
            continue
        for (model, preset, size), group in groups.items():
            if group is not reference:
                names = {"task": task, "model": model, "preset": preset, "n_inducing": size}
                lines += [{**names, **line} for line in _compare(reference, group)]
    return pd.DataFrame(lines)


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


def _compare(reference: pd.DataFrame, group: pd.DataFrame) -> list[dict[str, Any]]:
    """Scores averaged over CNNs first: they share scans, so they are no further splits."""
    lines = []
    for score in PAIRED:
        if score not in reference:
            continue
        a, b = (frame.groupby(["repeat", "split"])[[score, "n_train", "n_test"]].mean() for frame in (reference, group))
        both = a.join(b[[score]].add_suffix("_other"), how="inner").dropna(subset=[score, f"{score}_other"])
        if len(both) < FEWEST_SPLITS:
            continue
        test = compare(
            both[score].to_numpy(float),
            both[f"{score}_other"].to_numpy(float),
            both["n_train"].to_numpy(float),
            both["n_test"].to_numpy(float),
        )
        lines.append({"score": score, "difference": test.mean, "t": test.t, "p": test.p, "n_splits": test.n_splits})
    return lines


def difference_in_words(difference: float, p: float, *, smaller_is_better: bool = False) -> str:
    """Better, worse, or no clear difference of the reference against a model.

    Examples
    --------
    >>> difference_in_words(0.02, 0.01), difference_in_words(0.02, 0.4)
    ('better', 'no clear difference')
    """
    if not np.isfinite(p):
        raise InputError(f"a verdict needs a p value, got {p}.")
    if p >= 0.05 or difference == 0:
        return "no clear difference"
    return "better" if (difference > 0) != smaller_is_better else "worse"
