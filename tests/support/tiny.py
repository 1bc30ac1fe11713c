"""Small problems that every test of the estimator can afford."""

from functools import cache

import numpy as np

from psimil import RBF, Bags, PsiVGPMIL
from psimil.datasets import make_bags

QUICK = {"n_inducing": 8, "hyperparameters": None, "max_iter": 30, "tol": 1e-4, "accelerate": False, "random_state": 0}


@cache
def problem(n_bags=24, seed=1):
    """Bags, labels and instance labels that a sane model separates."""
    bags, y, y_instances = make_bags(n_bags=n_bags, bag_size=(2, 6), n_features=3, separation=3.0, seed=seed)
    assert len(bags) == n_bags
    assert 0 < y.sum() < n_bags
    return bags, y, y_instances


def quick(**parameters):
    """An estimator that fits the small problem in half a second, most of which goes into calibration."""
    return PsiVGPMIL(**{**QUICK, **parameters})


def brief(**parameters):
    """An estimator that does all that a fit does, but only four passes of it."""
    return quick(**{"max_iter": 4, "tol": 0.0, **parameters})


@cache
def fitted():
    """A model with a learned RBF kernel, noisy-or and a forced calibration; never change it."""
    bags, y, _ = problem()
    settings = {"kernel": RBF(1.0), "aggregate": "noisy_or", "calibrate": True, "accelerate": True, "max_iter": 60}
    return quick(hyperparameters="bound", **settings).fit(bags, y)


def shuffled(bags, seed=0):
    """Rows and bag ids of the bags in random row order, and where each row went."""
    order = np.random.default_rng(seed).permutation(len(bags.X))
    return bags.X[order], bags.bag_index[order], order


def as_list(bags):
    """The bags as a plain list of arrays."""
    assert isinstance(bags, Bags)
    return [bag.copy() for bag in bags]
