"""Training and test bags on which novelty and referral are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from psimil.datasets import authors_mnist_bags, load_cq500, load_mnist, load_rsna
from psimil.datasets.ich import CNNS
from psimil.model.bags import Bags
from psimil.paper.experiments.cohorts import COMPONENTS, load_cohort
from psimil.paper.experiments.trial_data import FOLDS, nested_split

Array = NDArray[Any]

LEFT_OUT = (0, 7)  # digits, both negative ones


@dataclass(frozen=True, eq=False)
class Case:
    """Bags to learn from and bags to test on.

    Parameters
    ----------
    run : cases of one run are counted together: folds of the features of one CNN, say.
    cnn_prob : (B,) what the CNN that made the features says of the test bags, or None.
    strange : further kinds of strange bags, by name.
    """

    run: int
    bags: Bags
    y: Array
    new: Bags
    y_new: Array
    cnn_prob: Array | None = None
    strange: dict[str, Bags] | None = None


def folds_of(name: str, cnn: int | None, run: int | None, directory: str | None, folds: int = FOLDS) -> Iterator[Case]:
    """Stratified folds of a cohort, each a run of its own where none is given."""
    cohort = load_cohort(name, directory, cnn)
    for k in range(folds):
        split = nested_split(cohort.y, k)
        bags, prob = cohort.features(split.train), cohort.cnn_prob
        yield Case(k if run is None else run, bags[split.train], cohort.y[split.train], bags[split.test],
                   cohort.y[split.test], None if prob is None else prob[split.test])  # fmt: skip


def musk_cases(directory: str | None) -> Iterator[Case]:
    """Five folds."""
    return folds_of("musk1", None, None, directory)


def mnist_cases(directory: str | None) -> Iterator[Case]:
    """The first of five folds."""
    return folds_of("mnist-pca", None, None, directory, folds=1)


def rsna_cases(directory: str | None) -> Iterator[Case]:
    """Five folds of the features of each CNN."""
    for cnn in CNNS:
        yield from folds_of("rsna", cnn, cnn, directory)


def shift_cases(directory: str | None) -> Iterator[Case]:
    """CQ500 to RSNA, CNN by CNN."""
    for cnn in CNNS:
        given, new = load_cq500(str(directory), cnn), load_rsna(str(directory), cnn)
        yield Case(cnn, given.bags, given.y, new.bags, new.y, new.cnn_prob)


def digit_cases(directory: str | None) -> Iterator[Case]:
    """The first fold of MNIST without some digits: they are taken out of training and test bags, and components too."""
    images, digits = load_mnist(Path(str(directory)))
    drawn = authors_mnist_bags(digits)
    split = nested_split(drawn.y, 0)
    known = ~np.isin(digits[drawn.index], LEFT_OUT)
    pca = PCA(COMPONENTS["mnist-pca"], svd_solver="covariance_eigh")
    pca.fit(images[drawn.index[split.train][known[split.train]]].astype(np.float64))

    def bags_of(chosen: Array, wanted: Array) -> Bags:
        """The instances that are wanted (b, n) of the chosen images (b, n); bags without any are left out."""
        sizes = wanted.sum(axis=1)
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        return Bags(pca.transform(images[chosen[wanted]].astype(np.float64)), offsets)

    train, test = drawn.index[split.train], drawn.index[split.test]
    left = test[~known[split.test]]
    left = left[: len(left) // 10 * 10].reshape(-1, 10)
    have = ~known[split.test].all(axis=1)
    strange = {"bags with digits left out of training": bags_of(test[have], np.ones_like(test[have], dtype=bool)),
               "bags of nothing else": bags_of(left, np.ones_like(left, dtype=bool))}  # fmt: skip
    y, y_new = (drawn.y[part][known[part].any(axis=1)] for part in (split.train, split.test))
    yield Case(0, bags_of(train, known[split.train]), y, bags_of(test, known[split.test]), y_new, strange=strange)


CASES: dict[str, tuple[str, Callable[[str | None], Iterator[Case]]]] = {
    "musk1": ("MUSK1", musk_cases),
    "mnist-pca": ("MNIST, PCA", mnist_cases),
    "digits": (f"MNIST, PCA, without {' and '.join(map(str, LEFT_OUT))}", digit_cases),
    "rsna": ("RSNA", rsna_cases),
    "shift": ("CQ500 to RSNA", shift_cases),
}
EMBEDDED = ("musk1",)
ASKED = ("musk1", "mnist-pca", "rsna")  # data sets whose novelty has targets
