"""k~ is a variance wherever the inducing points lie: never below zero, and right to rounding on every processor."""

import numpy as np
import pytest
from scipy.linalg import lapack

from psimil.foundations.linalg import SMALLEST_EIGENVALUE, smallest_eigenvalue
from psimil.model.kernels import RBF, Constant, Linear, Matern32, Matern52, Sum
from psimil.model.sparse_gp import Posterior, SparseGP, latent_moments

LONG = np.longdouble
needs_long_doubles = pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="long double is double here")

KERNELS = [
    RBF(5.0, 0.6), RBF(5.0, 1.0), RBF(5.0, 3.0), RBF(2.0, 1e3), Matern32(5.0, 1.0), Matern52(5.0, 30.0),
    Linear(0.3), Linear(0.3) + RBF(2.0, 1.5), RBF(1.0, 2.0) + Constant(9.0),
]  # fmt: skip


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def pairs(gap):
    Z = drawn(0, 30, 2)
    Z[1::2] = Z[::2] + gap
    return Z


CROWDED = {
    "pairs 1e-3": pairs(1e-3), "pairs 1e-6": pairs(1e-6), "pairs 1e-9": pairs(1e-9),
    "each thrice": np.repeat(drawn(1, 10, 2), 3, axis=0),
    **{f"on a line, {seed}": drawn(seed, 15, 1) for seed in (20, 21, 22, 23)},
    "dense on a line": np.linspace(0.0, 2.0, 100)[:, None],
    "collinear": np.outer(drawn(2, 40), [1.0, 2.0, -1.0]),
    "a cloud": drawn(3, 60, 2),
}  # fmt: skip
FAR = {"outliers": np.concatenate([drawn(4, 30, 2), 1e3 * drawn(5, 4, 2)]), "wide": 1e4 * drawn(6, 20, 2)}


def instances(Z, dtype):
    """At the points, beside them, and in front of and behind all of them."""
    across = np.linspace(-1.3, 1.3, 60)[:, None] * np.abs(Z).max(axis=0)
    return np.concatenate([Z, Z + 1e-4, across]).astype(dtype)


def exact_gram(kernel, X, Z):
    X, Z = X.astype(LONG), Z.astype(LONG)
    if isinstance(kernel, Sum):
        return exact_gram(kernel.left, X, Z) + exact_gram(kernel.right, X, Z)
    if isinstance(kernel, Constant):
        return np.full((len(X), len(Z)), LONG(kernel.variance))
    if isinstance(kernel, Linear):
        return LONG(kernel.variance) * np.einsum("nd,md->nm", X, Z)
    s = np.square((X[:, None] - Z) / LONG(kernel.lengthscale)).sum(axis=2)
    return LONG(kernel.variance) * kernel.profile(s)


def exact_residual(gp, X):
    """k_nn - k'(K_zz + jitter)^-1 k in long doubles, column by column."""
    L = exact_gram(gp.kernel, gp.Z, gp.Z) + LONG(gp.jitter) * np.eye(len(gp.Z), dtype=LONG)
    V = exact_gram(gp.kernel, X, gp.Z)
    for j in range(len(L)):
        L[j:, j] = (L[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(L[j, j] - L[j, :j] @ L[j, :j])
        V[:, j] = (V[:, j] - V[:, :j] @ L[j, :j]) / L[j, j]
    prior = np.array([exact_gram(gp.kernel, x[None], x[None])[0, 0] for x in X])
    return (prior - np.square(V).sum(axis=1)).astype(float), prior.astype(float)


@needs_long_doubles
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("points", CROWDED)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_conditional_variance_equals_that_of_long_doubles(kernel, points, dtype):
    Z = CROWDED[points].astype(dtype).astype(float)
    gp, X = SparseGP.build(kernel, Z, residual="full"), instances(Z, dtype)
    found = gp.residual_variance(X, gp.features(X))
    assert (found >= 0).all()
    exact, prior = exact_residual(gp, X)
    assert np.abs(found - exact).max() <= (1e-8 if dtype == np.float64 else 1e-2) * prior.max()


@pytest.mark.parametrize("points", [*CROWDED, *FAR])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rounding_that_is_cut_off_is_small(kernel, points):
    """Eigenvalues bound |a| in k~ = k_nn - |v|^2 = k_nn - k'a, and so what rounding of K_zz does to it."""
    Z = {**CROWDED, **FAR}[points]
    gp, X = SparseGP.build(kernel, Z, residual="full"), instances(Z, np.float64)
    V, scale = gp.features(X), np.diag(gp.kernel.gram(Z, Z)).mean()
    assert smallest_eigenvalue(gp.L) > SMALLEST_EIGENVALUE * scale
    prior = gp.kernel.diagonal(X)
    assert (prior - gp.explained_variance(V) >= -1e-6 * prior).all()
    a = np.linalg.norm(np.linalg.solve(gp.L.T, V.T), axis=0)
    assert (a <= np.sqrt(prior / smallest_eigenvalue(gp.L)) * (1 + 1e-6)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("points", FAR)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_variance_far_beyond_the_length_scale_lies_between_zero_and_the_prior(kernel, points, dtype):
    """Distances lose their digits there; in single precision all of them."""
    gp = SparseGP.build(kernel, FAR[points], residual="full")
    X = instances(FAR[points], dtype)
    found = gp.residual_variance(X, gp.features(X))
    assert ((found >= 0) & (found <= gp.kernel.diagonal(X))).all()


@pytest.mark.parametrize("seed", [20, 23, 24, 25, 26, 27, 29])
def test_a_factor_of_version_one_still_predicts(seed):
    """It was taken when no pivot was small, whatever its condition: files may hold one."""
    Z = drawn(seed, 15, 1)
    K = RBF(5.0, 0.6).gram(Z, Z)
    L, info = lapack.dpotrf(K + 2e-14 * np.eye(15), lower=1, clean=1)
    assert info == 0
    assert smallest_eigenvalue(L) < 1e-12
    gp = SparseGP(RBF(5.0, 0.6), Z, np.ascontiguousarray(L), 0.0, residual="full")
    X = instances(Z, np.float64)
    mu, s2 = latent_moments(gp, Posterior.prior(15), X)
    assert np.isfinite(mu).all()
    assert ((gp.residual_variance(X, gp.features(X)) >= 0) & (s2 >= 0)).all()
