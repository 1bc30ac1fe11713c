"""The data sets whose kernels are put in order, and how their bags are split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.datasets import read_classic
from psimil.model.bags import Bags
from psimil.paper.experiments.cohorts import load_cohort
from psimil.paper.experiments.trial_data import FOLDS, nested_split

Array = NDArray[Any]
Fold = tuple[Bags, Array, Bags, Array]  # bags and labels to learn from, and those held out

MNIST_TRAINING, MNIST_HELD_OUT = 2000, 1000


@dataclass(frozen=True)
class Problem:
    """A data set: its name in words, the order that is asked of it, and where its folds come from.

    Parameters
    ----------
    target : Spearman correlation that the bound shall reach.
    folds : folder of the data and a seed -> folds.
    """

    title: str
    target: float
    folds: Callable[[str | None, int], Iterator[Fold]]


def cohort_folds(name: str) -> Callable[[str | None, int], Iterator[Fold]]:
    """Five stratified folds of a cohort."""

    def folds(directory: str | None, seed: int) -> Iterator[Fold]:
        cohort = load_cohort(name, directory)
        for k in range(FOLDS):
            split = nested_split(cohort.y, k)
            bags = cohort.features(split.train)
            yield bags[split.train], cohort.y[split.train], bags[split.test], cohort.y[split.test]

    return folds


def classic_folds(name: str) -> Callable[[str | None, int], Iterator[Fold]]:
    """Five stratified folds of a classic benchmark, a file in the folder or in its sub-folder ``classic``."""

    def folds(directory: str | None, seed: int) -> Iterator[Fold]:
        paths = [Path(str(directory)) / part / f"{name}.csv.gz" for part in ("", "classic")]
        bags, y = read_classic(next((path for path in paths if path.is_file()), paths[-1]))
        for k in range(FOLDS):
            split = nested_split(y, k)
            yield bags[split.train], y[split.train], bags[split.test], y[split.test]

    return folds


def mnist_fold(directory: str | None, seed: int) -> Iterator[Fold]:
    """One split of training bags alone: the bags that the first fold of experiments tests on are not looked at."""
    cohort = load_cohort("mnist-pca", directory)
    order = np.random.default_rng(seed).permutation(nested_split(cohort.y, 0).train)
    train, held = np.sort(order[:MNIST_TRAINING]), np.sort(order[MNIST_TRAINING : MNIST_TRAINING + MNIST_HELD_OUT])
    bags = cohort.features(train)
    yield bags[train], cohort.y[train], bags[held], cohort.y[held]


PROBLEMS = {
    "musk1": Problem("MUSK1", 0.95, cohort_folds("musk1")),
    "mnist-pca": Problem("MNIST, PCA", 0.95, mnist_fold),
    "elephant": Problem("Elephant", 0.8, classic_folds("elephant")),
    "protein": Problem("Protein", 0.8, classic_folds("protein")),
    "cq500": Problem("CQ500, CNN 0", 0.8, cohort_folds("cq500")),
}
EMBEDDED = ("musk1",)
