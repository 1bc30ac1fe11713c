"""Latent values that no sane model gives are refused, whichever moment is out of range."""

from functools import cache

import numpy as np
import pytest

from psimil import Bags
from psimil.foundations.errors import NumericalFailure
from psimil.predictive.moments import LARGEST_LATENT
from tiny import problem, quick


@cache
def model():
    bags, y, _ = problem()
    return quick(tol=1.0, calibrate=False).fit(bags, y).model_


@pytest.mark.parametrize("moment", [0, 1])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0])
def test_a_mean_or_a_deviation_out_of_range_is_refused(moment, wrong):
    latent = [np.zeros(2), np.ones(2)]
    latent[moment][1] = wrong * (LARGEST_LATENT if moment == 0 else LARGEST_LATENT**2)
    with pytest.raises(NumericalFailure, match="overflow"):
        model().assemble(Bags.from_list([np.zeros((2, 3))]), tuple(latent))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_what_is_just_within_the_range_gives_finite_numbers(sign):
    latent = np.array([0.0, 0.9 * sign * LARGEST_LATENT]), np.array([1.0, (0.9 * LARGEST_LATENT) ** 2])
    found = model().assemble(Bags.from_list([np.zeros((2, 3))]), latent)
    assert np.isfinite(found.log_odds).all()
    assert np.isfinite(found.instance_prob).all()
