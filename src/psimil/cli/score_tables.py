"""Tables and scores of a prediction, as the commands write and print them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from psimil.cli.exits import printable
from psimil.data.bagtable import BagTable
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.inference.out_of_bag import OutOfBag
from psimil.predictive.prediction import Prediction
from psimil.results.localisation import Localisation, Places, shown
from psimil.results.metrics import bag_metrics, instance_metrics

SCORES = {"accuracy": "accuracy", "f1": "F1", "auc": "AUC", "log_loss": "log-loss", "brier": "Brier", "ece": "ECE"}


def bag_frame(prediction: Prediction, **more: Any) -> pd.DataFrame:
    """One row per bag in the order in which bags first appear in the file, with further columns ``more`` (B,)."""
    frame = prediction.to_frame()
    for position, (name, values) in enumerate(more.items(), start=1):
        frame.insert(position, name, values)
    if prediction.rows is None:
        return frame
    first = np.minimum.reduceat(prediction.rows, prediction.offsets[:-1])
    return frame.iloc[np.argsort(first)].reset_index(drop=True)


def instance_frame(prediction: Prediction, table: BagTable) -> pd.DataFrame:
    """One row per instance in the row order of the file, with the known labels if there are any."""
    frame = prediction.to_frame("instance")
    if table.y_instances is not None:
        frame.insert(2, "y", table.bags.in_input_order(table.y_instances))
    return frame


def places_of(table: BagTable, estimator: PsiVGPMIL, position: str | None = None) -> Places | None:
    """Where the instances are: by the column ``position``, by their rows where these are in order, or nowhere."""
    if table.positions is not None and position is not None:
        return Places(table.positions, position)
    return Places.of_rows(table.bags.offsets) if estimator.labels == "chain" else None


def scores(
    prediction: Prediction, table: BagTable, places: Places | None = None, unseen: OutOfBag | None = None
) -> dict[str, Any]:
    """Bag scores, and instance scores where labels are known, with the thresholds used.

    Parameters
    ----------
    unseen : where the prediction is of training bags: these are called by a threshold of the bags of other folds.
    """
    measured: dict[str, Any] = {}
    if table.y is not None:
        threshold, fold = (prediction.threshold, None) if unseen is None else (unseen.thresholds, unseen.fold)
        measured["bags"] = bag_metrics(table.y, prediction.prob, threshold, prediction.log_odds, fold)
        measured["bag_threshold"] = prediction.threshold
        measured["n_bags"] = len(table.y)
    if table.y_instances is not None and (table.y_instances >= 0).any():
        measured["instances"] = instance_metrics(
            table.y_instances, prediction.instance_prob, prediction.instance_threshold, prediction.instance_log_odds
        )
        measured["instance_threshold"] = prediction.instance_threshold
        measured["n_instances"] = int((table.y_instances >= 0).sum())
        measured["localisation"] = Localisation.of(
            table.y_instances, prediction.instance_log_odds, prediction.offsets, places
        )._asdict()
    return measured


def score_tables(title: str, measured: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, heads and rows of a table of scores, and of one about what is found inside bags."""
    levels = [level for level in ("bags", "instances") if level in measured]
    rows = [[text, *(_score(measured[level], name) for level in levels)] for name, text in SCORES.items()]
    yield title, ["score", *(f"{measured[f'n_{level}']} {level}" for level in levels)], rows
    if "localisation" in measured:
        inside = Localisation(**measured["localisation"])
        title = f"Inside bags, {inside.n_both_kinds} of them with instances of both kinds"
        yield title, ["score", "model", "middle of the bag"], inside.rows()


def _score(column: dict[str, float], name: str) -> str:
    """A score, and its interval where that is known."""
    if f"{name}_lower" not in column:
        return shown(column[name], 4)
    return f"{shown(column[name], 4)} ({shown(column[name + '_lower'], 2)} to {shown(column[name + '_upper'], 2)})"


def feature_lines(names: Sequence[str], width: int = 80, lines: int = 3) -> list[str]:
    """The names of the features on a few lines; the middle is left out when there are too many.

    Examples
    --------
    >>> feature_lines([f"f{n}" for n in range(1, 167)], width=40, lines=2)
    ['166 features: f1, f2, f3, f4, f5, f6,', 'f7, f8, f9, f10, f11, f12, ..., f166.']
    """
    count = f"{len(names)} feature{'s' * (len(names) != 1)}: "
    fitting: list[str] = []
    for n in range(1, len(names) + 1):
        shown = [*names[:n], *(["...", names[-1]] if n < len(names) - 1 else names[n:])]
        wrapped = textwrap.wrap(f"{count}{', '.join(map(printable, shown))}.", width, break_on_hyphens=False)
        if fitting and len(wrapped) > lines:
            break
        fitting = wrapped
    return fitting
