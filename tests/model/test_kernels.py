"""Gram matrices against scikit-learn's, adjoints against differences, spectral samples against the kernel."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from problems import central_difference
from psimil.foundations.errors import InputError
from psimil.model.kernels import RBF, Columns, Constant, Linear, Matern32, Matern52, Stationary, Sum

D = 3
ARD = (0.5, 1.3, 4.0)
KERNELS = {
    "rbf": (RBF(1.7, 0.8), 1.7 * sk.RBF(0.8)),
    "rbf-ard": (RBF(0.4, ARD), 0.4 * sk.RBF(ARD)),
    "matern32": (Matern32(1.7, 0.8), 1.7 * sk.Matern(0.8, nu=1.5)),
    "matern32-ard": (Matern32(2.0, ARD), 2.0 * sk.Matern(ARD, nu=1.5)),
    "matern52": (Matern52(1.7, 0.8), 1.7 * sk.Matern(0.8, nu=2.5)),
    "matern52-ard": (Matern52(2.0, ARD), 2.0 * sk.Matern(ARD, nu=2.5)),
    "linear": (Linear(2.0), 2.0 * sk.DotProduct(0.0)),
    "constant": (Constant(3.0), sk.ConstantKernel(3.0)),
    "sum": (RBF(1.7, 0.8) + Linear(2.0) + Constant(0.3), 1.7 * sk.RBF(0.8) + 2.0 * sk.DotProduct(0.0) + 0.3),
    "default": (Linear(2.0) + RBF(1.7, 0.8), 2.0 * sk.DotProduct(0.0) + 1.7 * sk.RBF(0.8)),
    "two-rbfs": (RBF(0.5, 2.0) + RBF(1.7, ARD), 0.5 * sk.RBF(2.0) + 1.7 * sk.RBF(ARD)),
    "columns": (Columns(RBF(1.7, 0.8), 0, 3), 1.7 * sk.RBF(0.8)),
    "constant-and-matern": (Constant(0.3) + Matern32(1.7, 0.8), 0.3 + 1.7 * sk.Matern(0.8, nu=1.5)),
}


def points():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(12, D)), rng.normal(size=(5, D))
    Z[0] = X[0]  # a distance of zero
    return X, Z


@pytest.fixture(params=KERNELS, ids=str)
def pair(request):
    return KERNELS[request.param]


def test_values_equal_scikit_learn(pair):
    ours, reference = pair
    X, Z = points()
    gram = ours.gram(X, Z)
    assert gram.shape == (12, 5)
    np.testing.assert_allclose(gram, reference(X, Z), rtol=1e-7, atol=1e-12)  # sqrt of a rounded zero distance
    np.testing.assert_allclose(gram[1:], reference(X, Z)[1:], rtol=1e-12)
    np.testing.assert_allclose(ours.diagonal(X), reference.diag(X), rtol=1e-12)


def test_gram_is_symmetric_positive_semidefinite_with_its_diagonal(pair):
    ours, _ = pair
    X, _ = points()
    K = ours.gram(X, X)
    np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-14)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * np.trace(K)
    np.testing.assert_allclose(np.diag(K), ours.diagonal(X), rtol=1e-6)


def test_adjoints_equal_differences(pair):
    ours, _ = pair
    X, Z = points()
    rng = np.random.default_rng(1)
    A, w = rng.normal(size=(12, 5)), rng.normal(size=12)

    def by_gram(x):
        return float((A * ours.with_log_parameters(x).gram(X, Z)).sum())

    def by_diagonal(x):
        return float(w @ ours.with_log_parameters(x).diagonal(X))

    x = ours.log_parameters
    expected = central_difference(by_gram, x)
    np.testing.assert_allclose(ours.gram_adjoint(X, Z, A.copy()), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.gram_adjoint(X, Z, A.copy(), ours.gram(X, Z)), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.diagonal_adjoint(X, w), central_difference(by_diagonal, x), rtol=1e-8, atol=1e-8)


def test_parameters_go_out_and_come_back(pair):
    ours, _ = pair
    X, Z = points()
    again = ours.with_log_parameters(ours.log_parameters)
    np.testing.assert_allclose(again.gram(X, Z), ours.gram(X, Z), rtol=1e-14)
    assert type(again) is type(ours)
    assert len(ours.log_parameters) == len(ours.gram_adjoint(X, Z, np.ones((12, 5))))


def test_single_precision_stays_single(pair):
    ours, _ = pair
    X, Z = (p.astype(np.float32) for p in points())
    assert ours.gram(X, Z).dtype == np.float32
    np.testing.assert_allclose(ours.gram(X, Z), ours.gram(X.astype(float), Z.astype(float)), rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("key", [k for k, (ours, _) in KERNELS.items() if isinstance(ours, Stationary)])
def test_spectral_sample_reproduces_the_kernel(key):
    """k = v E cos(w'(x - z)): every pair within six standard errors of the Monte Carlo mean."""
    ours, reference = KERNELS[key]
    X, Z = points()
    count = 40_000
    omega = ours.spectral_sample(np.random.default_rng(2), count, D)
    assert omega.shape == (D, count)
    cosines = ours.variance * np.cos((X[:, None] - Z[None]) @ omega)
    error = cosines.std(axis=-1) / np.sqrt(count)
    assert (np.abs(cosines.mean(axis=-1) - reference(X, Z)) <= 6 * error + 1e-12).all()


@pytest.mark.parametrize("kernel", [Linear(), Constant(), RBF() + Linear()], ids=["linear", "constant", "sum"])
def test_kernels_without_a_spectrum_say_so(kernel):
    with pytest.raises(InputError, match="rff"):
        kernel.spectral_sample(np.random.default_rng(0), 10, D)


def test_length_scale_none_is_the_root_of_the_dimension():
    assert RBF().resolve(9).lengthscale == 3.0
    assert (RBF() + Matern32()).resolve(4).right.lengthscale == 2.0
    assert RBF(1.0, ARD).resolve(3) == RBF(1.0, ARD)
    with pytest.raises(InputError, match="3 length scales but data has 2"):
        RBF(1.0, ARD).resolve(2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: RBF(0.0),
        lambda: RBF(1.0, -1.0),
        lambda: Matern32(np.inf),
        lambda: RBF(1.0, (1.0, 0.0)),
        lambda: Linear(-1),
    ],
)
def test_parameters_must_be_positive(build):
    with pytest.raises(InputError, match="must be > 0"):
        build()


@pytest.mark.parametrize("kernel", [RBF(1.0, 1.0), Matern52(1.0, 1.0)], ids=["rbf", "matern52"])
def test_a_large_common_offset_does_not_destroy_distances(kernel):
    """I10, shift: at 1e6 the points themselves keep ten digits of their differences, so must the kernel."""
    X, Z = points()
    np.testing.assert_allclose(kernel.gram(X + 1e6, Z + 1e6), kernel.gram(X, Z), rtol=1e-6, atol=1e-8)


def test_sum_is_associative_in_value():
    X, Z = points()
    a, b, c = RBF(1.0, 1.0), Linear(0.5), Constant(2.0)
    np.testing.assert_allclose(((a + b) + c).gram(X, Z), (a + (b + c)).gram(X, Z), rtol=1e-14)
    assert isinstance(a + b, Sum)


def test_columns_are_the_kernel_of_some_features():
    X, Z = points()
    kernel = (Columns(Linear(2.0) + RBF(1.5), 0, 1) + Columns(RBF(), 1, 3)).resolve(3)
    expected = (Linear(2.0) + RBF(1.5, 1.0)).gram(X[:, :1], Z[:, :1]) + RBF(1.0, np.sqrt(2.0)).gram(X[:, 1:], Z[:, 1:])
    np.testing.assert_allclose(kernel.gram(X, Z), expected, rtol=1e-12)
    assert kernel.is_length_scale.tolist() == [False, False, True, False, True]
    assert kernel.per_feature(3).right.kernel.lengthscale == (np.sqrt(2.0),) * 2
    assert kernel.stretched(2.0).left.kernel.right == RBF(6.0, 2.0)
    A = np.random.default_rng(1).normal(size=(12, 5))

    def by_gram(x):
        return np.vdot(A, kernel.with_log_parameters(x).gram(X, Z))

    found = kernel.gram_adjoint(X, Z, A.copy(), kernel.gram(X, Z))
    np.testing.assert_allclose(found, central_difference(by_gram, kernel.log_parameters), rtol=1e-6)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 2), (3, 1)])
def test_columns_must_be_some(start, stop):
    with pytest.raises(InputError, match="0 <= start < stop"):
        Columns(RBF(), start, stop)
    with pytest.raises(InputError, match="columns up to 4 but data has 3 features"):
        Columns(RBF(), 1, 4).resolve(3)


def test_a_field_that_is_no_parameter_is_left_alone():
    @dataclass(frozen=True)
    class Tagged(RBF):
        power: float = 2.0

    kernel = Tagged().resolve(4)
    assert kernel == Tagged(1.0, 2.0, 2.0) and len(kernel.log_parameters) == 2
    moved = kernel.with_log_parameters(np.log([3.0, 5.0]))
    assert (moved.variance, moved.lengthscale, moved.power) == (pytest.approx(3.0), pytest.approx(5.0), 2.0)
