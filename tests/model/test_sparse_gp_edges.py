"""The residual variance of instances at crowded inducing points: rounding is forgiven, and nothing else."""

import numpy as np
import pytest

from psimil.model.kernels import RBF
from psimil.model.sparse_gp import SparseGP


def crowded(gap, residual="full", bias=0.0):
    Z = np.random.default_rng(0).normal(size=(30, 2))
    Z[1::2] = Z[::2] + gap
    return SparseGP.build(RBF(5.0, 3.0), Z, residual=residual, bias=bias)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-6])
def test_rounding_at_crowded_points_is_forgiven(gap, dtype):
    gp = crowded(gap)
    X = np.concatenate([gp.Z, gp.Z + 1e-4]).astype(dtype)
    found = gp.residual_variance(X, gp.features(X))
    assert (found >= 0).all()
    assert found.max() < (1e-3 if dtype == np.float64 else 0.5)


@pytest.mark.parametrize("seed", [21, 23])
def test_features_at_crowded_points_still_solve_their_equation(seed):
    """V L' = K_xz to rounding; a product with L^-1 would lose as many digits as the condition of L has."""
    Z = np.random.default_rng(seed).normal(size=(15, 1))
    gp = SparseGP.build(RBF(5.0, 1.0 if seed == 21 else 0.6), Z)
    X = np.linspace(-3.0, 3.0, 100)[:, None]
    np.testing.assert_allclose(gp.features(X) @ gp.L.T, gp.kernel.gram(X, gp.Z), atol=1e-12)


@pytest.mark.parametrize("residual", ["projected", "full"])
def test_the_prior_variance_includes_the_constant_mean(residual):
    gp = crowded(1.0, residual, bias=2.0)
    X = np.random.default_rng(1).normal(size=(4, 2))
    V = gp.features(X)
    np.testing.assert_array_equal(V[:, -1], 2.0)
    kernel_part = 5.0 if residual == "full" else np.square(V[:, :-1]).sum(axis=1)
    np.testing.assert_allclose(gp.prior_variance(X, V), kernel_part + 4.0, rtol=1e-12)
    assert gp.residual_variance(X, V).any() == (residual == "full")


def test_points_that_are_huge_are_at_their_own_place():
    """Rounding of their squares may be many length scales, on most processors."""
    Z = 1e10 * np.random.default_rng(0).standard_normal((2, 64))
    np.testing.assert_allclose(SparseGP.build(RBF(1.0, lengthscale=8.0), Z).L, np.eye(2))
