"""Logarithms of probabilities close to 1: they keep their digits on both sides."""

import numpy as np
import pytest

from psimil.predictive.moments import instance_moments


@pytest.mark.parametrize("mean", [5.0, 20.0, 30.0, 36.0])
def test_certain_instances_keep_the_digits_of_their_logarithms(mean):
    certain = instance_moments(np.array([mean, -mean]), np.zeros(2))
    larger, smaller = -np.log1p(np.exp(-mean)), -mean - np.log1p(np.exp(-mean))
    np.testing.assert_allclose(certain.log_p, [larger, smaller], rtol=1e-12)
    np.testing.assert_allclose(certain.log_q, [smaller, larger], rtol=1e-12)


@pytest.mark.parametrize("variance", [0.3, 3.0, 30.0])
def test_both_sides_mirror_each_other(variance):
    mean = np.linspace(0.0, 40.0, 30)
    up, down = instance_moments(mean, np.full(30, variance)), instance_moments(-mean, np.full(30, variance))
    np.testing.assert_allclose(up.log_p, down.log_q, rtol=1e-11)
    np.testing.assert_allclose(up.log_q, down.log_p, rtol=1e-11)
    np.testing.assert_allclose(up.variance, down.variance, rtol=1e-9, atol=1e-16)
