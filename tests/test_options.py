"""What a fit derives from its options."""

import numpy as np
import pytest

from psimil import GammaMixture, HyperbolicSecant
from psimil.inference.options import Options


def test_only_the_logarithm_of_h_is_carried():
    assert Options(HyperbolicSecant(), H=100.0).log_H == pytest.approx(4.605170185988092)
    assert Options(HyperbolicSecant(), H=np.inf).log_H == np.inf


@pytest.mark.parametrize(
    ("density", "hyperparameters", "log_z", "expected"),
    [
        (HyperbolicSecant(), "collapsed", "logistic", False),
        (GammaMixture(), "collapsed", "logistic", True),
        (GammaMixture(), "loo", "logistic", True),
        (GammaMixture(), "collapsed", "jensen", False),
        (GammaMixture(), None, "logistic", False),
    ],
)
def test_a_density_without_known_log_z_learns_its_kernel_on_the_logistic_model(
    density, hyperparameters, log_z, expected
):
    options = Options(density, hyperparameters=hyperparameters, log_z=log_z)
    assert options.learns_on_logistic is expected


def test_nothing_is_refitted_when_nothing_is_learned_from_it():
    fixed = {"calibrate": False, "threshold": 0.5, "false_positive_rate": None}
    assert not Options(HyperbolicSecant(), **fixed).learns_from_unseen
    for name, value in {"calibrate": "auto", "threshold": None, "false_positive_rate": 0.1}.items():
        assert Options(HyperbolicSecant(), **{**fixed, name: value}).learns_from_unseen
