"""From rows of fits to tables: selection over the paper's grid, means over splits, and paired tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.foundations.errors import InputError
from psimil.paper.experiments.significance import compare
from psimil.results.render import summarise

if TYPE_CHECKING:
    import pandas as pd

BAG = ("bag_accuracy", "bag_f1", "bag_auc", "bag_log_loss", "bag_brier", "bag_ece")
INSTANCE = (
    "instance_accuracy", "instance_f1", "instance_auc", "instance_auc_within_bags", "instance_localisation_error",
    "instance_log_loss", "instance_brier", "instance_ece", "middle_auc", "middle_auc_within_bags",
    "middle_localisation_error",
)  # fmt: skip
IDENTITY = ("protocol", "task", "measured_on", "model", "preset", "n_features", "n_inducing")
PAIRED = ("bag_auc", "bag_accuracy", "bag_log_loss", "instance_auc", "instance_auc_within_bags", "instance_f1")
REFERENCE = ("VGPMIL", "default")
FEWEST_SPLITS = 5  # below this no paired test is made


def selected(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the best (alpha, beta) of each model and size, by bag accuracy; rows without a grid stay.

    Under the paper's protocol the accuracy is that on the validation bags, so that test bags choose nothing; under
    ``published`` it is that of the measured bags, as in the authors' tables.
    """
    import pandas as pd

    kept = []
    by = ["protocol", "model", "preset", "n_features", "n_inducing"]
    for (protocol, *_), group in rows.groupby(by, sort=False, dropna=False):
        settings = group.groupby(["alpha", "beta"])
        if settings.ngroups > 1:
            score = "bag_accuracy" if protocol == "published" else "select_accuracy"
            kept.append(settings.get_group(settings[score].mean().idxmax()))
        else:
            kept.append(group)
    return pd.concat(kept).sort_index()


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
    import pandas as pd

    nested = rows[rows["protocol"] == "nested"]
    found: list[dict[str, Any]] = []
    for task, part in nested.groupby("task", sort=False):
        groups = dict(iter(part.groupby(["model", "preset", "n_inducing"], sort=False, dropna=False)))
        reference = next((g for (m, p, _), g in groups.items() if (m, p) == REFERENCE), None)
        if reference is None:
            continue
        for (model, preset, size), group in groups.items():
            if group is not reference:
                names = {"task": task, "model": model, "preset": preset, "n_inducing": size}
                found += [{**names, **line} for line in _compare(reference, group)]
    return pd.DataFrame(found)


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


def verdict_in_words(difference: float, p: float, *, smaller_is_better: bool = False, level: float = 0.05) -> str:
    """Better, worse, or no clear difference of the reference against a model.

    Examples
    --------
    >>> verdict_in_words(0.02, 0.01), verdict_in_words(0.02, 0.4)
    ('better', 'no clear difference')
    """
    if not np.isfinite(p):
        raise InputError(f"a verdict needs a p value, got {p}.")
    if p >= level or difference == 0:
        return "no clear difference"
    return "better" if (difference > 0) != smaller_is_better else "worse"
