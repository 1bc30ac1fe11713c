"""Gauss-Hermite and trapezoid rules against moments and adaptive quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad

from psimil.foundations.logistic import expectation, gauss_hermite, trapezoid


@pytest.mark.parametrize("order", [2, 5, 20, 32])
def test_gauss_hermite_is_exact_for_polynomials_up_to_twice_its_order(order):
    x, w = gauss_hermite(order)
    assert x.shape == w.shape == (order,)
    for degree in range(min(2 * order, 24)):
        exact = 0.0 if degree % 2 else float(np.prod(np.arange(1, degree, 2)))  # (degree - 1)!!
        assert w @ x**degree == pytest.approx(exact, rel=1e-10, abs=1e-13 * (w @ np.abs(x) ** degree))


def test_trapezoid_is_exact_for_moments():
    x, w = trapezoid()
    assert w.sum() == pytest.approx(1.0, abs=1e-15)
    for degree, exact in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        assert w @ x**degree == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 2.0])
@pytest.mark.parametrize("variance", [1e-6, 0.3, 1.0])
def test_expectation_against_adaptive_quadrature(mean, variance):
    def density(f):
        return np.exp(-0.5 * (f - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)

    for g in (np.cos, np.tanh, lambda f: np.log(4 + f**2)):
        reach = 10 * np.sqrt(variance)
        exact, _ = quad(lambda f, g=g: g(f) * density(f), mean - reach, mean + reach, epsabs=1e-13, points=[mean])
        found = expectation(g, np.array([mean, mean]), np.array([variance, variance]))
        assert found.shape == (2,)
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-8)
