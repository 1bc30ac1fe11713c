"""The torch twin of the products: one contract for NumPy and torch, then passes, gradients and fits that agree."""

from dataclasses import replace

import numpy as np
import pytest

from problems import central_difference, make, random_posterior
from psimil import RBF, Constant, Linear, Matern32, Matern52
from psimil.compute.numpy_backend import NUMPY
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.evidence import NaturalSites, evidence_gradient, tilted_sums
from psimil.inference.sampled import GradientTask
from psimil.inference.variational import iterate_at
from psimil.model import sparse_gp
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace
from psimil.model.kernels.base import Kernel
from psimil.model.sparse_gp import SparseGP
from psimil.paper.passes import run_pass
from tiny import problem as tiny_problem
from tiny import quick

torch = pytest.importorskip("torch")
torch_backend = pytest.importorskip("psimil.compute.torch_backend")

KERNELS = [
    RBF(1.5, 1.2),
    RBF(0.7, (0.9, 1.7)),
    Matern32(1.1, 0.8),
    Matern52(2.0, (1.3, 0.6)),
    Linear(0.4) + RBF(1.5, 1.2),
    Constant(0.3) + Matern52(1.0, 1.0),
]
CPU = torch_backend.TorchBackend("cpu")
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def rows_of(backend, V):
    """V where the backend keeps it."""
    return torch.tensor(V) if backend is CPU else V.copy()


@pytest.mark.parametrize("backend", [NUMPY, CPU], ids=["numpy", "torch"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 7), (50, 20), (0, 3), (2000, 5)])
def test_sums_over_rows_keep_their_contract(backend, shape):
    rng = np.random.default_rng(0)
    n, M = shape
    V, full, m = rng.normal(size=(n, M)), rng.normal(size=(M, M)), rng.normal(size=M)
    theta, kappa = rng.uniform(0.0, 2.0, size=n), rng.normal(size=n)
    mean, squares = backend.row_squares(rows_of(backend, V), m, full)  # the lower part is not read
    np.testing.assert_allclose(mean, V @ m, **CLOSE)
    np.testing.assert_allclose(squares, np.square(V @ np.triu(full)).sum(axis=1), **CLOSE)
    gram, linear = backend.weighted_sums(rows_of(backend, V), theta, kappa)
    np.testing.assert_allclose(gram, V.T @ (theta[:, None] * V), **CLOSE)
    np.testing.assert_allclose(linear, V.T @ kappa, **CLOSE)
    assert gram.dtype == linear.dtype == np.float64
    np.testing.assert_array_equal(backend.on_host(rows_of(backend, V)), V)


@pytest.mark.parametrize("backend", [NUMPY, CPU], ids=["numpy", "torch"])
@pytest.mark.parametrize("whitened_by", ["product", "solve"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_features_keep_their_contract(backend, whitened_by, dtype, bias, monkeypatch):
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(9, 2)).astype(dtype), rng.normal(size=(4, 2))
    gp = SparseGP.build(RBF(1.5, 1.2), Z, bias=bias)
    close = CLOSE if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-5}
    if whitened_by == "solve":
        monkeypatch.setattr(sparse_gp, "WELL_CONDITIONED", {4: 1.0, 8: 1.0})
    assert gp.well_conditioned(X.itemsize) == (whitened_by == "product")
    K = backend.features(gp, X, whiten=False)
    expected = np.column_stack([gp.kernel.gram(X, Z), *([np.full(9, bias)] if bias else [])])
    np.testing.assert_allclose(backend.on_host(K), expected, **close)
    for V in (backend.features(gp, X), backend.features(gp, X, reuse=True)):
        host = backend.on_host(V)
        assert host.dtype == dtype
        np.testing.assert_allclose(host[:, :4] @ gp.L.T, expected[:, :4], **close)
        np.testing.assert_array_equal(host[:, 4:], expected[:, 4:])


@pytest.mark.parametrize("backend", [NUMPY, CPU], ids=["numpy", "torch"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_adjoint_keeps_its_contract(backend, kernel):
    """That of dF / dK_xz = left right, against differences of F = sum(K_xz * (left right))."""
    rng = np.random.default_rng(2)
    X, Z, R = rng.normal(size=(9, 2)), rng.normal(size=(4, 2)), 3
    gp = SparseGP.build(kernel, Z, bias=1.5)
    left, right = rng.normal(size=(9, R)), rng.normal(size=(R, 4))
    found = backend.kernel_adjoint(gp, X, backend.features(gp, X, whiten=False), left, right)
    np.testing.assert_allclose(found, kernel.gram_adjoint(X, Z, left @ right), rtol=1e-9, atol=1e-10)
    F = lambda p: float((kernel.with_log_parameters(p).gram(X, Z) * (left @ right)).sum())  # noqa: E731
    np.testing.assert_allclose(found, central_difference(F, kernel.log_parameters), rtol=1e-6, atol=1e-7)


def test_results_of_a_device_come_in_order():
    assert list(CPU.map(abs, [-1, 2, -3])) == [1, 2, 3]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gram_and_its_gradient_equal_those_of_numpy(kernel):
    rng = np.random.default_rng(1)
    X, Z, A = rng.normal(size=(9, 2)), rng.normal(size=(4, 2)), rng.normal(size=(9, 4))
    X[0] = Z[0]  # distance zero, where the root of a Matern kernel has no slope
    parameters = torch.tensor(kernel.log_parameters).requires_grad_()
    K = kernel.tensor_gram(torch.tensor(X), torch.tensor(Z), parameters)
    np.testing.assert_allclose(kernel.tensor_gram(torch.tensor(X), torch.tensor(Z)).numpy(), kernel.gram(X, Z), **CLOSE)
    np.testing.assert_allclose(K.detach().numpy(), kernel.gram(X, Z), **CLOSE)
    (gradient,) = torch.autograd.grad(K, parameters, torch.tensor(A))
    np.testing.assert_allclose(gradient.numpy(), kernel.gram_adjoint(X, Z, A), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("memory", [{"keep": True}, {"keep": False}, {"whole": False}], ids=str)
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("residual", ["projected", "full", "unit"])
@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[4]], ids=repr)
def test_a_pass_on_a_device_equals_that_of_numpy(kernel, residual, bias, memory):
    problem, gp = make(kernel=kernel, residual=residual, bias=bias, weights=[1, 2, 0.5, 1, 3], rows=4, **memory)
    posterior = random_posterior(gp.size)
    expected, sums = run_pass(problem, gp, posterior)
    found, found_sums = run_pass(replace(problem, backend=CPU), gp, posterior)
    for name in ("mu", "s2", "theta", "pi"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **CLOSE)
    for name in ("V_theta_V", "V_kappa", "potential", "scale_mixture", "bags", "entropy"):
        np.testing.assert_allclose(getattr(found_sums, name), getattr(sums, name), **CLOSE)


@pytest.mark.parametrize("memory", [{"keep": True}, {"keep": False, "whole": False, "rows": 4}], ids=str)
@pytest.mark.parametrize("density", [HyperbolicSecant(), SmoothLaplace(0.4, 1.0)], ids=repr)
@pytest.mark.parametrize("residual", ["projected", "full"])
@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[4]], ids=repr)
def test_a_bag_pass_on_a_device_equals_that_of_numpy(kernel, tilted, residual, density, memory):
    problem, gp = make(kernel=kernel, residual=residual, bias=1.0, density=density, weights=[1, 2, 0.5, 1, 3])
    problem = replace(problem, **memory)
    draws = Draws.shared(antithetic_draws(gp.size, 6, seed=0))
    local, sums = run_bag_pass(problem, gp, draws, tilted=tilted)
    found, found_sums = run_bag_pass(replace(problem, backend=CPU), gp, draws, tilted=tilted)
    for name in ("gradient", "diagonal", "vector", "pi"):
        np.testing.assert_allclose(getattr(found, name), getattr(local, name), **CLOSE)
    for name in ("curvature", "gradient", "likelihood", "log_z", "tilted"):
        np.testing.assert_allclose(getattr(found_sums, name), getattr(sums, name), **CLOSE)


@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[4]], ids=repr)
def test_what_the_search_for_a_kernel_asks_of_a_device_equals_that_of_numpy(kernel):
    problem, gp = make(kernel=kernel, residual="projected", bias=1.0, weights=[1, 2, 0.5, 1, 3])
    noise, q, found = Draws.shared(antithetic_draws(gp.size, 6, seed=0)), random_posterior(gp.size), []
    for shard in (problem, replace(problem, backend=CPU)):
        one = iterate_at(shard, gp, q, noise)
        follows = NaturalSites.of(shard, one).posterior(shard, gp)
        found.append((
            evidence_gradient(shard, one), follows.m, follows.R, tilted_sums(shard, gp, noise.of(q), one.local)[0]
        ))  # fmt: skip
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-10)


def test_rows_are_worked_out_in_pieces(monkeypatch):
    problem, gp = make(bias=1.0)
    posterior, v = random_posterior(gp.size), antithetic_draws(gp.size, 6, seed=0)
    on_device, draws = replace(problem, backend=CPU), Draws.shared(v)

    def found():
        local, sums = run_pass(on_device, gp, posterior)
        bag_sums = run_bag_pass(on_device, gp, draws)[1]
        slopes, by_kernel = GradientTask(gp, v)(on_device)[1], iterate_at(on_device, gp, posterior, draws)
        return sums.V_theta_V, local.s2, bag_sums.curvature, slopes, evidence_gradient(on_device, by_kernel)

    whole = found()
    monkeypatch.setattr(torch_backend, "ROWS", 2)
    for one, other in zip(found(), whole, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


@pytest.mark.parametrize("chunk_size", [None, 64])
@pytest.mark.parametrize("density", [None, GammaMixture(1.0, 1.0)])
def test_a_fit_on_a_device_gives_the_same_model(density, chunk_size):
    """With a kernel that is learned first, for both posteriors: Gamma mixtures have the augmented one."""
    bags, y, _ = tiny_problem()
    settings = {"hyperparameters": "bound", "density": density, "chunk_size": chunk_size, "max_iter": 20, "tol": 0.0}
    expected = quick(**settings).fit(bags, y)
    found = quick(device="cpu", **settings).fit(bags, y)
    parameters = found.kernel_.log_parameters, expected.kernel_.log_parameters
    np.testing.assert_allclose(*parameters, atol=1e-9)
    np.testing.assert_allclose(found.elbo_, expected.elbo_, rtol=1e-9)
    np.testing.assert_allclose(found.predict_dist(bags).log_odds, expected.predict_dist(bags).log_odds, rtol=1e-6)


@pytest.mark.parametrize("posterior", ["variational", "augmented"])
def test_minibatches_run_on_a_device(posterior):
    bags, y, _ = tiny_problem()
    settings = {"max_iter": 3, "tol": 0.0, "posterior": posterior}
    expected = quick(**settings).fit(bags, y, batch_bags=6)
    found = quick(**settings, device="cpu").fit(bags, y, batch_bags=6)
    np.testing.assert_allclose(found.q_mean_, expected.q_mean_, rtol=1e-8)


def test_single_precision_stays_on_the_device():
    problem, gp = make(dtype=np.float32)
    assert CPU.features(gp, problem.X).dtype == torch.float32


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
