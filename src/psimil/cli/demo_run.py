"""The demonstration: VGPMIL and G-VGPMIL on MUSK1, cross-validated over bags, with figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from psimil.cli.fitted import draw
from psimil.cli.predicted import write_prediction
from psimil.data.bagtable import BagTable
from psimil.datasets import load_musk1
from psimil.estimators.psi_vgpmil import GVGPMIL, VGPMIL, PsiVGPMIL
from psimil.figures import (
    bag_table,
    history_table,
    plot_bag,
    plot_history,
    plot_reliability,
    plot_theta,
    reliability_table,
    theta_table,
)
from psimil.files.environment import environment
from psimil.files.rundir import RunDirectory
from psimil.foundations.arrays import Array
from psimil.model.bags import Bags
from psimil.predictive.prediction import Prediction
from psimil.results.metrics import bag_metrics

FOLDS = 5


@dataclass(frozen=True)
class Fold:
    """One test fold: which bags it held, what the model trained on the others says about them, and how it scores."""

    test: Array
    prediction: Prediction
    scores: dict[str, float]
    seconds: float
    fitted: PsiVGPMIL


def cross_validate(
    model: PsiVGPMIL, bags: Bags, y: Array, seed: int = 0, follow: Callable[[str], None] | None = None
) -> list[Fold]:
    """Stratified cross-validation over bags; every bag is predicted by a model that never saw it.

    Parameters
    ----------
    model : estimator to clone for each fold.
    follow : called with a note after each fold.

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=30, seed=0)
    >>> folds = cross_validate(VGPMIL(n_inducing=5, hyperparameters=None, random_state=0), bags, y)
    >>> len(folds), sum(len(fold.test) for fold in folds)
    (5, 30)
    """
    folds = []
    split = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)
    for number, (train, test) in enumerate(split, start=1):
        started = time.perf_counter()
        fitted = clone(model).fit(bags[train], y[train])
        prediction = fitted.predict_dist(bags[test])
        seconds = time.perf_counter() - started
        scores = bag_metrics(y[test], prediction.prob, prediction.threshold, prediction.log_odds)
        folds.append(Fold(test, prediction, scores, seconds, fitted))
        if follow is not None:
            follow(f"fold {number} of {FOLDS}")
    return folds


def fold_table(results: dict[str, list[Fold]]) -> pd.DataFrame:
    """One row per model and fold: scores on the test bags, and seconds to train and predict.

    Examples
    --------
    >>> fold_table({}).empty
    True
    """
    rows = [
        {"model": name, "fold": number, "test_bags": len(fold.test), **fold.scores, "seconds": fold.seconds}
        for name, folds in results.items()
        for number, fold in enumerate(folds, start=1)
    ]
    return pd.DataFrame(rows)


def run_demo(
    run: RunDirectory, held_out: RunDirectory, seed: int = 0, follow: Callable[[str], None] | None = None
) -> pd.DataFrame:
    """Cross-validate both models on MUSK1, fill the directories, and return the table of folds.

    Parameters
    ----------
    run : directory for folds.csv, figures/, musk1.csv, model.safetensors and summary.md.
    held_out : directory for the prediction of the first test fold. The folds are not put together: each model has its
        own thresholds.
    follow : called with a note after each of the 2 x 5 folds, after the fit to all bags and after the files.
    """
    bags, y = load_musk1()
    models = {
        "VGPMIL": VGPMIL(n_inducing=100, random_state=seed),
        "G-VGPMIL": GVGPMIL(n_inducing=100, random_state=seed),
    }
    results: dict[str, list[Fold]] = {}
    with threadpool_limits(limits=1):  # matrices this small only lose by waiting for a second thread
        for name, model in models.items():
            note = None if follow is None else (lambda text, name=name: follow(f"{name}, {text}"))
            results[name] = cross_validate(model, bags, y, seed, note)
        final = models["VGPMIL"].fit(bags, y)
    if follow is not None:
        follow("all bags")
    table = fold_table(results)
    run.start(environment(seed))
    run.write_table("folds.csv", table)
    run.write_table("musk1.csv", musk_frame(bags, y))
    _figures(run, final, results["VGPMIL"], y)
    final.save(run.file("model.safetensors"))
    first = results["VGPMIL"][0]
    held_out.start(environment(seed))
    first.fitted.save(held_out.file("model.safetensors"))
    table_of_fold = BagTable(bags[first.test], y[first.test], None)
    write_prediction(held_out, table_of_fold, first.fitted, file=held_out.file("model.safetensors"))
    if follow is not None:
        follow("files")
    return table


def musk_frame(bags: Bags, y: Array) -> pd.DataFrame:
    """The bags as a table with one row per instance, as ``psimil fit`` reads it.

    Examples
    --------
    >>> musk_frame(*load_musk1()).shape
    (476, 168)
    """
    frame = pd.DataFrame(bags.X, columns=[f"f{d + 1}" for d in range(bags.n_features)])
    frame.insert(0, "bag", bags.names[bags.bag_index])
    frame.insert(1, "label", y[bags.bag_index])
    return frame


def _figures(run: RunDirectory, final: PsiVGPMIL, folds: list[Fold], y: Array) -> None:
    prob = np.concatenate([fold.prediction.prob for fold in folds])
    truth = np.concatenate([y[fold.test] for fold in folds])
    first = folds[0]
    largest = int(np.argmax(np.where(y[first.test] == 1, np.diff(first.prediction.offsets), 0)))
    draw(
        run,
        theta=(plot_theta, theta_table),
        bound=(plot_history, history_table, final.history_),
        reliability=(plot_reliability, reliability_table, truth, prob),
        bag=(plot_bag, bag_table, first.prediction, largest),
    )
