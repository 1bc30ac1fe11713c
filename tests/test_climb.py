"""The climb of the kernel on a bound whose peak is known."""

import numpy as np
import pytest

from problems import make, random_posterior
from psimil.inference.ascent import KernelState
from psimil.inference.collapsed import REACH, Collapsed, CollapsedStep


def climbed(peak, size=1.0, steps=5):
    """Log parameters after a climb on -size |x - peak|^2, relative to the start, for data of weight ``size``."""
    _, gp = make()
    start, q = gp.kernel.log_parameters, random_posterior(gp.size)

    def bound(gp):
        away = gp.kernel.log_parameters - start - peak
        return Collapsed(-size * float(away @ away), -2.0 * size * away, gp, q)

    return CollapsedStep(steps).climb(KernelState(gp, q), bound, size, 1).gp.kernel.log_parameters - start


@pytest.mark.parametrize("peak", [(0.5, -0.5), (-1.0, 0.3)])
def test_the_peak_is_reached(peak):
    np.testing.assert_allclose(climbed(np.array(peak)), peak, atol=1e-5)


@pytest.mark.parametrize("size", [1e-3, 50.0, 1e5])
def test_more_of_the_same_data_climb_the_same_way(size):
    peak = np.array([0.7, -1.1])
    np.testing.assert_allclose(climbed(peak, size, 2), climbed(peak, 1.0, 2), rtol=1e-9)


def test_a_far_peak_is_approached_as_far_as_a_step_reaches():
    np.testing.assert_allclose(climbed(np.array([9.0, -9.0])), [REACH, -REACH], rtol=1e-9)
