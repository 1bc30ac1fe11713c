"""Values at the ends of the ranges of options: which are in, which are out."""

import numpy as np
import pytest

from psimil import GammaMixture, HyperbolicSecant, PsiVGPMIL
from psimil.estimators.parameters import check_parameters, options_of
from psimil.foundations.errors import InputError


def options(density=HyperbolicSecant(), **choices):  # noqa: B008 - frozen
    return options_of(PsiVGPMIL(**choices).get_params(deep=False) | {"density": density}, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            (name, end)
            for name in ("threshold", "false_positive_rate")
            for end in (0.0, 1.0, -0.5, np.nan, True, "0.5")
        ],
        *[("start", end) for end in (0.0, 1.5, -1.0, True, "random")],
        *[(name, end) for name in ("n_inducing", "patience", "chunk_size") for end in (0, -1, 1.0)],
        *[("H", end) for end in (0.0, -1.0, np.nan)],
        *[("tol", end) for end in (-1e-9, np.nan)],
        ("max_iter", -1),
    ],
)
def test_ends_that_are_out(name, value):
    with pytest.raises(InputError, match=name):
        check_parameters({name: value})
    with pytest.raises(InputError, match=name):
        options(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", 1e-9),
        ("threshold", 1.0 - 1e-9),
        ("start", 1.0),
        ("start", 1),
        ("n_inducing", 1),
        ("patience", 1),
        ("chunk_size", 1),
        ("max_iter", 0),
        ("tol", 0.0),
    ],
)
def test_ends_that_are_in(name, value):
    assert getattr(options(posterior="augmented", **{name: value}), name) == value


@pytest.mark.parametrize(
    ("density", "how", "log_z", "expected"),
    [
        (GammaMixture(), "paper", "logistic", "jensen"),
        (GammaMixture(), "paper", "jensen", "jensen"),
        (GammaMixture(), "paper", "none", "none"),
        (GammaMixture(), "published", "jensen", "none"),
        (HyperbolicSecant(), "paper", "jensen", "none"),
    ],
)
def test_log_z_of_the_papers_step(density, how, log_z, expected):
    found = options(density, posterior="augmented", hyperparameters=how, log_z=log_z)
    assert found.algorithm(found, 0).step.log_z == expected
