"""The kernel that learning starts from when none is given."""

import numpy as np
import pytest

from psimil import Bags, GammaMixture, HyperbolicSecant
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision, choose_sparse_gp
from psimil.model.kernels import RBF, Linear, Sum
from psimil.model.scaling import Scaling


def first_kernel(density, **choices):
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(4, 3)) for _ in range(4)])
    options = Options(density, n_inducing=4, **choices)
    supervision = Supervision(np.array([0, 1, 0, 1]), np.ones(4))
    return choose_sparse_gp(bags.X, Scaling.fit(bags.X), bags, supervision, options, rng, len(bags.X)).kernel


def test_a_trend_is_learned_where_the_density_bears_it():
    kernel = first_kernel(HyperbolicSecant())
    assert isinstance(kernel, Sum)
    assert kernel.left == Linear(1.0 / 3.0)
    assert isinstance(kernel.right, RBF)


@pytest.mark.parametrize(
    ("density", "hyperparameters"),
    [(HyperbolicSecant(), None), (GammaMixture(), "bound"), (GammaMixture(), None)],
    ids=["kept", "heavy tails", "both"],
)
def test_no_trend_where_it_could_run_away_or_is_not_learned(density, hyperparameters):
    assert isinstance(first_kernel(density, hyperparameters=hyperparameters), RBF)


def test_a_given_kernel_is_taken():
    assert first_kernel(HyperbolicSecant(), kernel=Linear(2.0)) == Linear(2.0)
