"""Factorisations, BLAS wrappers and the logistic family."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from psimil.foundations.errors import NumericalFailure
from psimil.foundations.linalg import (
    SMALLEST_EIGENVALUE,
    add_gram,
    add_product,
    cholesky,
    inverse_upper,
    multiply_upper,
    nonnegative,
    smallest_eigenvalue,
    solve_lower,
    solve_lower_right,
    solve_upper,
    symmetric,
)
from psimil.foundations.logistic import log1mexp, sigmoid, softplus


def spd(size, seed=0):
    B = np.random.default_rng(seed).normal(size=(size, size))
    return B @ B.T + 0.5 * np.eye(size)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_factor_without_jitter_reproduces_the_matrix(size):
    K = spd(size, size)
    factor = cholesky(K)
    assert factor.L.shape == (size, size)
    assert factor.jitter == 0.0
    assert np.array_equal(factor.L, np.tril(factor.L))
    np.testing.assert_allclose(factor.L @ factor.L.T, K, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_jitter_grows_with_the_diagonal_and_is_reported(scale):
    K = scale * np.ones((4, 4))  # four identical inducing points
    factor = cholesky(K)
    assert 0 < factor.jitter <= 1e-4 * scale
    np.testing.assert_allclose(factor.L @ factor.L.T, K + factor.jitter * np.eye(4), rtol=1e-12)
    steps = np.log10(factor.jitter / scale)
    assert abs(steps - round(steps)) < 1e-9  # a rung of the ladder


def test_matrices_without_a_factor_are_named():
    with pytest.raises(NumericalFailure, match="2 x 2"):
        cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(NumericalFailure, match="non-finite"):
        cholesky(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_triangular_solves_and_inverse():
    L, B = np.linalg.cholesky(spd(6, 3)), np.random.default_rng(1).normal(size=(6, 4))
    np.testing.assert_allclose(L @ solve_lower(L, B), B, atol=1e-13)
    np.testing.assert_allclose(L.T @ solve_upper(L.T, B), B, atol=1e-13)
    np.testing.assert_allclose(inverse_upper(L) @ L.T, np.eye(6), atol=1e-12)
    assert np.array_equal(inverse_upper(L), np.triu(inverse_upper(L)))
    upper = np.triu(spd(5, 2)) + np.tril(np.full((5, 5), 7.0), -1)
    np.testing.assert_array_equal(symmetric(upper), np.where(np.triu(np.ones((5, 5))), upper, upper.T))


def test_variance_is_cut_off_at_zero_and_finite():
    np.testing.assert_array_equal(nonnegative(np.array([2.0, -1e-6, 0.0]), "x"), [2.0, 0.0, 0.0])
    for wrong in (np.nan, np.inf):
        with pytest.raises(NumericalFailure, match="name of it"):
            nonnegative(np.array([1.0, wrong]), "name of it")


@pytest.mark.parametrize("size", [2, 15, 40])
def test_the_smallest_eigenvalue_is_estimated_from_below(size):
    K = spd(size, size)
    exact = np.linalg.eigvalsh(K)[0]
    assert exact / size < smallest_eigenvalue(np.linalg.cholesky(K)) <= exact * (1 + 1e-9)


def test_a_small_eigenvalue_behind_large_pivots_is_found():
    """The matrix of Kahan: no pivot of this factor is below 1e-6 of the first, its smallest eigenvalue is 1e-14."""
    s, c = np.sin(1.0), np.cos(1.0)
    L = (np.diag(s ** np.arange(40)) @ (np.eye(40) - c * np.triu(np.ones((40, 40)), 1))).T
    K, pivots = L @ L.T, np.diag(L) ** 2
    assert pivots.min() > 1e-6 * pivots.max()
    assert np.linalg.eigvalsh(K)[0] < 1e-13
    factor = cholesky(K)
    assert factor.jitter > 0
    assert smallest_eigenvalue(factor.L) > SMALLEST_EIGENVALUE * np.diag(K).mean()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 13])
def test_blas_on_row_major_chunks_and_on_slices_of_wider_arrays(dtype, n):
    rng = np.random.default_rng(n)
    M, tolerance = 6, 1e-12 if dtype is np.float64 else 1e-4
    U = np.ascontiguousarray(np.triu(rng.normal(size=(M, M)) + 3 * np.eye(M)), dtype=dtype)
    wide = rng.normal(size=(n, M + 2)).astype(dtype)
    W, untouched = wide[:, :M], wide[:, M:].copy()
    W0 = W.astype(float)
    beside = np.tril(rng.normal(size=(M, M)), -1).astype(dtype)  # never read
    np.testing.assert_allclose(multiply_upper(W, U + beside), W0 @ U.astype(float), rtol=tolerance, atol=tolerance)
    W1, lower = W.astype(float), np.ascontiguousarray(U.T)
    expected = np.linalg.solve(lower.astype(float), W1.T).T
    np.testing.assert_allclose(solve_lower_right(W, lower + beside.T), expected, rtol=tolerance, atol=tolerance)
    G = np.ones((M, M), dtype=dtype)
    expected = np.triu(1.0 + W.astype(float).T @ W.astype(float)) + np.tril(np.ones((M, M)), -1)
    np.testing.assert_allclose(add_gram(G, W), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(wide[:, M:], untouched)


def test_blas_takes_single_rows_and_columns_made_by_indexing():
    """NumPy gives them a stride of zero."""
    column, row = np.linspace(0.0, 1.0, 3)[:, None], np.arange(4.0)[None]
    np.testing.assert_array_equal(add_product(np.zeros((3, 3)), column, column), column @ column.T)
    np.testing.assert_array_equal(add_product(np.zeros((1, 1)), row, row), [[14.0]])
    np.testing.assert_array_equal(multiply_upper(np.ones(2)[None], np.array([[1.0, 2.0], [0.0, 3.0]])), [[1.0, 5.0]])


def test_blas_refuses_column_major():
    with pytest.raises(ValueError, match="row-major"):
        multiply_upper(np.asfortranarray(np.ones((4, 3))), np.eye(3))


POINTS = [-745.0, -300.0, -40.0, -1.0, -1e-3, -1e-12, 0.0, 1e-12, 1e-3, 1.0, 40.0, 300.0, 745.0]


@pytest.fixture
def digits():
    """Four hundred decimal digits, whatever other modules ask for."""
    with localcontext(prec=400):
        yield


@pytest.mark.usefixtures("digits")
def test_softplus_and_sigmoid_against_exact_arithmetic():
    e = [Decimal(x).exp() for x in POINTS]
    np.testing.assert_allclose(softplus(np.array(POINTS)), [float((1 + y).ln()) for y in e], rtol=1e-14, atol=1e-320)
    np.testing.assert_allclose(sigmoid(np.array(POINTS)), [float(y / (1 + y)) for y in e], rtol=1e-14, atol=1e-320)


@pytest.mark.usefixtures("digits")
def test_log1mexp_against_exact_arithmetic():
    x = [-1e-300, -1e-20, -1e-5, -0.1, -0.69, -0.7, -5.0, -50.0, -700.0]
    np.testing.assert_allclose(log1mexp(np.array(x)), [float((1 - Decimal(v).exp()).ln()) for v in x], rtol=1e-13)
    assert log1mexp(np.array([0.0]))[0] == -np.inf
