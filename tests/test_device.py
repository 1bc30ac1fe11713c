"""The torch twin of the products: one contract for NumPy and torch, then passes, gradients and fits that agree."""

from dataclasses import replace

import numpy as np
import pytest
from psimil.inference.local_pass import Projection, local_pass

from problems import make, random_posterior
from psimil import RBF, Constant, Linear, Matern32, Matern52
from psimil.foundations import blas
from psimil.foundations.errors import InputError
from psimil.inference.collapsed import CollapsedBound
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.kernels.base import Kernel
from tiny import problem as tiny_problem
from tiny import quick

torch = pytest.importorskip("torch")
device_rows = pytest.importorskip("psimil.inference.device_rows")
torch_gram = pytest.importorskip("psimil.model.kernels.torch_gram")
torch_linalg = pytest.importorskip("psimil.foundations.torch_linalg")

KERNELS = [
    RBF(1.5, 1.2),
    RBF(0.7, (0.9, 1.7)),
    Matern32(1.1, 0.8),
    Matern52(2.0, (1.3, 0.6)),
    Linear(0.4) + RBF(1.5, 1.2),
    Constant(0.3) + Matern52(1.0, 1.0),
]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


class NumPy:
    """The primitives as they are."""

    multiply_upper, solve_lower_right = staticmethod(blas.multiply_upper), staticmethod(blas.solve_lower_right)
    add_gram = staticmethod(blas.add_gram)

    @staticmethod
    def array(A):
        return np.array(A)

    @staticmethod
    def values(A):
        return A


class Torch(NumPy):
    """The primitives on tensors."""

    multiply_upper = staticmethod(torch_linalg.multiply_upper)
    solve_lower_right = staticmethod(torch_linalg.solve_lower_right)
    add_gram = staticmethod(torch_linalg.add_gram)
    values = staticmethod(torch_linalg.to_host)

    @staticmethod
    def array(A):
        return torch_linalg.to_device(A, "cpu")


@pytest.mark.parametrize("room", [NumPy, Torch])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 7), (50, 20), (0, 3)])
def test_primitives_keep_their_contract(room, shape):
    rng = np.random.default_rng(0)
    n, M = shape
    W, full = rng.normal(size=(n, M)), rng.normal(size=(M, M)) + 5 * np.eye(M)
    upper, lower = np.triu(full), np.tril(full)
    found = room.values(room.multiply_upper(room.array(W), room.array(full)))
    np.testing.assert_allclose(found, W @ upper, **CLOSE)
    found = room.values(room.solve_lower_right(room.array(W), room.array(full)))
    np.testing.assert_allclose(found @ lower.T, W, **CLOSE)
    found = room.values(room.add_gram(room.array(full), room.array(W)))
    np.testing.assert_allclose(np.triu(found), np.triu(full + W.T @ W), **CLOSE)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gram_and_its_gradient_equal_those_of_numpy(kernel):
    rng = np.random.default_rng(1)
    X, Z, A = rng.normal(size=(9, 2)), rng.normal(size=(4, 2)), rng.normal(size=(9, 4))
    X[0] = Z[0]  # distance zero, where the root of a Matern kernel has no slope
    parameters = torch.tensor(kernel.log_parameters).requires_grad_()
    K = torch_gram.gram(kernel, torch.tensor(X), torch.tensor(Z), parameters)
    np.testing.assert_allclose(torch_linalg.to_host(K), kernel.gram(X, Z), **CLOSE)
    (gradient,) = torch.autograd.grad(K, parameters, torch.tensor(A))
    np.testing.assert_allclose(gradient.numpy(), kernel.gram_adjoint(X, Z, A), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("residual", ["projected", "full", "unit"])
@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[4]], ids=repr)
def test_a_pass_on_a_device_equals_that_of_numpy(kernel, residual, bias, cache):
    problem, gp = make(
        kernel=kernel, residual=residual, bias=bias, cache=cache, weights=[1, 2, 0.5, 1, 3], chunk_rows=4
    )
    posterior = random_posterior(gp.size)
    expected, sums = local_pass(Projection.build(gp, problem), posterior, problem)
    on_device = replace(problem, device="cpu")
    found, found_sums = local_pass(Projection.build(gp, on_device), posterior, on_device)
    for name in ("mu", "s2", "theta", "pi"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **CLOSE)
    for name in ("V_theta_V", "V_kappa", "potential", "scale_mixture", "bags", "entropy"):
        np.testing.assert_allclose(getattr(found_sums, name), getattr(sums, name), **CLOSE)


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.5)], ids=repr)
@pytest.mark.parametrize("residual", ["projected", "full"])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[4]], ids=repr)
def test_the_collapsed_bound_on_a_device_equals_that_of_numpy(kernel, residual, density):
    problem, gp = make(kernel=kernel, residual=residual, bias=1.0, density=density, weights=[1, 2, 0.5, 1, 3])
    local, _ = local_pass(Projection.build(gp, problem), random_posterior(gp.size), problem)
    expected = CollapsedBound(problem, local)(gp)
    found = CollapsedBound(replace(problem, device="cpu"), local)(gp)
    np.testing.assert_allclose(found.value, expected.value, **CLOSE)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.posterior.m, expected.posterior.m, **CLOSE)


def test_rows_are_worked_out_in_pieces(monkeypatch):
    problem, gp = make(bias=1.0)
    posterior = random_posterior(gp.size)
    whole = local_pass(Projection.build(gp, replace(problem, device="cpu")), posterior, replace(problem, device="cpu"))
    monkeypatch.setattr(device_rows, "ROWS", 2)
    pieces = local_pass(Projection.build(gp, replace(problem, device="cpu")), posterior, replace(problem, device="cpu"))
    np.testing.assert_allclose(pieces[1].V_theta_V, whole[1].V_theta_V, **CLOSE)
    np.testing.assert_allclose(pieces[0].s2, whole[0].s2, **CLOSE)


@pytest.mark.parametrize("chunk_size", [None, 64])
@pytest.mark.parametrize("density", [None, GammaMixture(1.0, 1.0)])
def test_a_fit_on_a_device_gives_the_same_model(density, chunk_size):
    bags, y, _ = tiny_problem()
    settings = {
        "hyperparameters": "collapsed",
        "density": density,
        "chunk_size": chunk_size,
        "max_iter": 20,
        "tol": 0.0,
    }
    expected = quick(**settings).fit(bags, y)
    found = quick(device="cpu", **settings).fit(bags, y)
    np.testing.assert_allclose(found.predict_dist(bags).log_odds, expected.predict_dist(bags).log_odds, rtol=1e-6)
    np.testing.assert_allclose(found.elbo_, expected.elbo_, rtol=1e-9)


def test_minibatches_run_on_a_device():
    bags, y, _ = tiny_problem()
    expected = quick(max_iter=3, tol=0.0).fit(bags, y, batch_bags=6)
    found = quick(max_iter=3, tol=0.0, device="cpu").fit(bags, y, batch_bags=6)
    np.testing.assert_allclose(found.q_mean_, expected.q_mean_, rtol=1e-8)


def test_single_precision_stays_on_the_device():
    problem, gp = make(dtype=np.float32)
    assert device_rows.features(gp, problem.X, "cpu").dtype == torch.float32


def test_the_device_is_not_stored_with_the_model(tmp_path):
    bags, y, _ = tiny_problem()
    quick(device="cpu").fit(bags, y).save(tmp_path / "m.safetensors")
    assert quick().load(tmp_path / "m.safetensors").device is None


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta-x"])
def test_a_device_that_is_not_there_is_refused(device):
    bags, y, _ = tiny_problem()
    with pytest.raises(InputError, match="cannot be used"):
        quick(device=device).fit(bags, y)


def test_a_kernel_without_a_torch_gram_is_refused():
    class Own(RBF):
        pass

    assert issubclass(Own, Kernel)
    bags, y, _ = tiny_problem()
    with pytest.raises(InputError, match="torch knows"):
        quick(kernel=Own(1.0), device="cpu").fit(bags, y)


def test_a_cluster_works_on_its_own_processors():
    bags, y, _ = tiny_problem()
    with pytest.raises(InputError, match="device"):
        quick(device="cpu").fit(bags, y, client=object())
