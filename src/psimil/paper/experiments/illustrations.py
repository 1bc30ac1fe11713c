"""Pictures of single bags: MNIST digits, a CT scan as a strip of slices, and the bound of one fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.datasets import authors_mnist_bags, load_mnist
from psimil.figures import (
    digits_table,
    history_table,
    new_figure,
    plot_digits,
    plot_history,
    plot_strip,
    save_figure,
    strip_table,
)
from psimil.paper.experiments.cohorts import load_cohort
from psimil.paper.experiments.job import Job
from psimil.paper.experiments.material import CROSS_VALIDATION, split_of
from psimil.paper.experiments.verdict import restored
from psimil.paper.experiments.workspace import Workspace

Array = NDArray[Any]
MODELS = ("gvgpmil", "vgpmil")  # whose prediction is shown: the first that was run


def illustrate(workspace: Workspace, jobs: Sequence[Job], directory: str | None) -> None:
    """Pictures from the first finished default fit under the nested protocol, if there is one."""
    done = [job for job in jobs if job.protocol == "nested" and workspace.records.has(job)]
    found = next((job for name in MODELS for job in done if job.model == name), None)
    if found is None:
        return
    folder = workspace.path / "figures"
    history = _history(workspace.path / "history" / f"{found.key}.csv")
    save_figure(plot_history(history, ax=new_figure()), folder / "bound.png", history_table(history))
    if found.experiment.startswith("mnist") and directory is not None:
        _digits(workspace, found, directory, folder)
    if found.experiment == "ich" and found.task == CROSS_VALIDATION:
        _scan(workspace, found, folder)


def _digits(workspace: Workspace, job: Job, directory: str, folder: Path) -> None:
    """A bag with one positive digit and one with four, as in the paper; instances are sorted by digit in each."""
    _, arrays = next(workspace.records.predictions([job]))
    images, digits = load_mnist(Path(directory))
    drawn = authors_mnist_bags(digits)
    y = load_cohort(job.experiment, directory, quick=job.quick).y
    test = split_of(job, y).test
    counts = np.add.reduceat(arrays["y_instances"], arrays["offsets"][:-1])
    shown = [int(np.flatnonzero(counts == wanted)[0]) for wanted in (1, 4)]
    pictures = [images[drawn.index[test[bag]]].reshape(-1, 28, 28) for bag in shown]
    prediction, truth = restored(arrays), [_part(arrays, bag) for bag in shown]
    ax = plot_digits(pictures, prediction, shown, truth, ax=new_figure(10.0, 4.0))
    save_figure(ax, folder / "digits.png", digits_table(prediction, shown, truth))


def _scan(workspace: Workspace, job: Job, folder: Path) -> None:
    """The positive scan with the most positive slices among the held-out ones."""
    _, arrays = next(workspace.records.predictions([job]))
    counts = np.add.reduceat(np.maximum(arrays["y_instances"], 0), arrays["offsets"][:-1])
    bag, prediction = int(np.argmax(counts)), restored(arrays)
    truth = _part(arrays, bag)
    ax = plot_strip(prediction, bag, truth, ax=new_figure(12.0, 3.5))
    save_figure(ax, folder / "scan.png", strip_table(prediction, bag, truth))


def _part(arrays: dict[str, Array], bag: int) -> Array:
    return arrays["y_instances"][arrays["offsets"][bag] : arrays["offsets"][bag + 1]]


def _history(path: Path) -> list[dict[str, Any]]:
    import pandas as pd

    found: list[dict[str, Any]] = pd.read_csv(path).to_dict("records")
    return found
