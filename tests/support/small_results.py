"""A small model and the results of its prediction."""

from functools import cache

import numpy as np

from psimil import VGPMIL
from psimil.data.bagtable import BagTable
from psimil.datasets import make_bags
from psimil.model.bags import Bags
from psimil.results.tabular_results import tabular_results

NAMES = ("a", "b", "c", "d", "e", "f")


@cache
def small_model():
    """A fitted estimator, its bags, their labels and those of their instances; never change them."""
    bags, y, known = make_bags(n_bags=20, n_features=6, separation=3.0, seed=2)
    return VGPMIL(n_inducing=8, random_state=0).fit(bags, y), bags, y, known


def results_of(fitted, ids=None, **how):
    estimator, bags, y, known = fitted
    bags = (
        bags if ids is None else Bags(bags.X, bags.offsets, np.asarray(ids), rows=np.arange(len(bags.X))[::-1].copy())
    )
    return tabular_results(BagTable(bags, y, known, NAMES), estimator.predict_dist(bags, **how), estimator)
