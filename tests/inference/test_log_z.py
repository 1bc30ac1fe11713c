"""log Z: exact for the secant, Jensen's value below it, the Fourier estimate around it."""

import numpy as np
import pytest
from scipy.integrate import quad

from problems import CUSTOM, DENSITIES, central_difference, log_psi, make, name, normal_grid
from psimil.inference.shards import prior_log_z
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace, jensen, log_ratio, log_ratio_slope
from psimil.model.kernels import RBF, Matern32, Matern52
from psimil.model.sparse_gp import Posterior
from psimil.paper.ascent import pass_over
from psimil.paper.fourier_log_z import random_fourier

NARROW = SmoothLaplace(2.0, 0.3)  # bends within 0.3, where 32 nodes keep three digits


def ratio(density, f):
    return np.log(2 * np.cosh(f / 2)) + log_psi(density, f)


def true_log_z(density, covariance, weights=(1.0, 1.0)):
    """Two instances, two-dimensional trapezoid rule."""
    x, w = normal_grid(401)
    values, vectors = np.linalg.eigh(covariance)
    f = np.einsum("ij,jab->iab", vectors * np.sqrt(np.maximum(values, 0)), np.stack(np.meshgrid(x, x, indexing="ij")))
    exponent = weights[0] * ratio(density, f[0]) + weights[1] * ratio(density, f[1])
    return np.log((np.outer(w, w) * np.exp(exponent)).sum())


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_log_ratio_and_its_slope(density):
    f = np.linspace(-9, 9, 37)
    np.testing.assert_allclose(log_ratio(density, f), ratio(density, f), rtol=1e-12, atol=1e-13)
    slope = np.imag(ratio(density, f + 1e-30j)) / 1e-30
    np.testing.assert_allclose(log_ratio_slope(density, f), slope, rtol=1e-5, atol=1e-5 if density is CUSTOM else 1e-12)
    assert np.isfinite(log_ratio(density, np.array([-1e4, 1e4]))).all()


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_jensen_equals_adaptive_quadrature_and_its_derivative(density):
    variance = np.array([0.01, 0.3, 1.0])
    value, slope = jensen(density, variance)
    assert value.shape == slope.shape == (3,)

    def integral(t):
        return quad(
            lambda x: ratio(density, np.sqrt(t) * x) * np.exp(-x * x / 2) / np.sqrt(2 * np.pi), -12, 12, limit=200
        )[0]

    np.testing.assert_allclose(value, [integral(t) for t in variance], atol=3e-3 if density == NARROW else 1e-5)
    h = 1e-5 * variance
    difference = (jensen(density, variance + h)[0] - jensen(density, variance - h)[0]) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-6)


def test_secant_is_exact_for_any_kernel_and_size():
    for seed, N in ((0, 1), (1, 7), (2, 40)):
        problem, gp = make(seed, (1,) * N, density=HyperbolicSecant(), variance=3.0)
        for log_z in (pass_over(problem, gp, Posterior.prior(gp.size)).bound.log_z, prior_log_z(problem, gp)):
            assert log_z == pytest.approx(-N * np.log(np.pi), rel=1e-13)
        estimate = random_fourier(gp.kernel, problem, bias=1.0, seed=0, samples=50)
        assert estimate.value == pytest.approx(-N * np.log(np.pi), rel=1e-12)  # every sample has the same weight
        assert estimate.effective_sample_size == pytest.approx(50, rel=1e-9)
        np.testing.assert_allclose(estimate.gradient, 0.0, atol=1e-12)


def test_published_value_for_one_instance():
    """I15: G(1, 2.5), v = 0.5: log Z = -0.251880."""
    x, w = normal_grid()
    exact = np.log(w @ np.exp(ratio(GammaMixture(1.0, 2.5), np.sqrt(0.5) * x)))
    assert exact == pytest.approx(-0.251880, abs=1e-6)
    problem, gp = make(0, (1,), density=GammaMixture(1.0, 2.5), variance=0.5)
    estimate = random_fourier(gp.kernel, problem, bias=0.0, seed=0, samples=5000, frequencies=1000)
    assert estimate.value == pytest.approx(exact, abs=4e-3)


@pytest.mark.parametrize("density", [d for d in DENSITIES if not isinstance(d, HyperbolicSecant)], ids=name)
@pytest.mark.parametrize(("variance", "bias"), [(0.5, 0.0), (2.0, 1.0)])
def test_jensen_is_below_and_fourier_around_the_true_value(density, variance, bias):
    problem, gp = make(1, (1, 1), density=density, variance=variance, bias=bias, residual="full")
    distance = ((problem.X[0] - problem.X[1]) ** 2).sum()
    off = variance * np.exp(-distance / (2 * 1.2**2))
    exact = true_log_z(density, np.array([[variance, off], [off, variance]]) + bias**2)
    assert prior_log_z(problem, gp) <= exact + 1e-6
    samples, frequencies = 2000, 1000
    estimates = [
        random_fourier(gp.kernel, problem, bias=bias, seed=s, samples=samples, frequencies=frequencies)
        for s in range(4)
    ]
    # spread of one estimate by its effective sample size; the frequencies add theirs
    spread = max(np.std([e.value for e in estimates]), np.sqrt(1 / estimates[0].effective_sample_size - 1 / samples))
    error = 6 * spread / np.sqrt(4) + 6 / np.sqrt(4 * frequencies)
    assert np.mean([e.value for e in estimates]) == pytest.approx(exact, abs=error)
    assert all(1 <= e.effective_sample_size <= samples for e in estimates)


def test_projected_prior_and_weights_enter_jensen():
    problem, gp = make(2, (1, 1), density=GammaMixture(1.0, 1.0), residual="projected", bias=0.7, weights=[2.0, 0.5])
    V = gp.kernel.gram(problem.X, gp.Z) @ np.linalg.inv(np.linalg.cholesky(gp.kernel.gram(gp.Z, gp.Z))).T
    x, w = normal_grid()
    f = np.sqrt((V**2).sum(axis=1) + 0.49)[:, None] * x
    expected = np.array([2.0, 0.5]) @ (ratio(problem.density, f) @ w)
    assert prior_log_z(problem, gp) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kernel", [RBF(0.8, 1.1), RBF(0.8, (0.7, 2.0)), Matern32(1.5, 1.1), Matern52(0.5, (0.7, 2.0))])
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_gradient_of_the_fourier_estimate_with_common_random_numbers(kernel, bias):
    problem, _ = make(3, density=GammaMixture(1.0, 2.0), weights=[1.0, 2.0, 0.5, 1.0, 3.0], rows=4)

    def value(x):
        return random_fourier(
            kernel.with_log_parameters(x), problem, bias=bias, seed=5, samples=60, frequencies=40
        ).value

    found = random_fourier(kernel, problem, bias=bias, seed=5, samples=60, frequencies=40)
    expected = central_difference(value, kernel.log_parameters)
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-6, atol=1e-8)
    again = random_fourier(kernel, problem, bias=bias, seed=5, samples=60, frequencies=40)
    assert again.value == found.value


def test_effective_sample_size_collapses_with_the_number_of_instances():
    """I15: nearly all of 1000 samples count at N = 10, nearly none at N = 1000."""
    sizes = {}
    for N in (10, 100, 1000):
        problem, gp = make(0, (1,) * N, density=GammaMixture(1.0, 2.5), variance=0.5, lengthscale=float(np.sqrt(2.0)))
        sizes[N] = random_fourier(gp.kernel, problem, bias=0.0, seed=0).effective_sample_size
    assert sizes[10] > 950
    assert sizes[10] > sizes[100] > sizes[1000]
    assert sizes[1000] < 50
