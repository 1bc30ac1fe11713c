"""Sums on a torch device, block by block: those of NumPy, with every block added once."""

from dataclasses import replace

import numpy as np
import pytest

from problems import make, random_posterior
from psimil import PsiVGPMIL
from psimil.estimators.parameters import options_of
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.sampled import GradientTask
from psimil.model.bag_ranges import BagRange
from psimil.model.densities import HyperbolicSecant, SmoothLaplace
from psimil.paper.passes import run_pass

torch_backend = pytest.importorskip("psimil.compute.torch_backend")

CLOSE = {"rtol": 1e-9, "atol": 1e-10}
WEIGHTS = [1, 2, 0.5, 1, 3]
CPU = torch_backend.TorchBackend("cpu")
KEPT = [{"keep": True}, {"keep": False}, {"whole": False}]


@pytest.mark.parametrize("kept", KEPT, ids=str)
@pytest.mark.parametrize("residual", ["projected", "full"])
def test_blocks_of_a_pass_add_up_to_the_sums_of_numpy(kept, residual):
    problem, gp = make(residual=residual, bias=1.0, weights=WEIGHTS, rows=4, **kept)
    posterior, on_device = random_posterior(gp.size), replace(problem, backend=CPU)
    expected, sums = run_pass(problem, gp, posterior)
    found, found_sums = run_pass(on_device, gp, posterior)
    for name in ("mu", "s2", "theta", "pi"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **CLOSE)
    for name in ("V_theta_V", "V_kappa", "potential", "scale_mixture", "bags", "entropy"):
        np.testing.assert_allclose(getattr(found_sums, name), getattr(sums, name), **CLOSE)


@pytest.mark.parametrize("kept", KEPT, ids=str)
@pytest.mark.parametrize("residual", ["projected", "full"])
def test_blocks_of_a_bag_pass_add_up_to_the_sums_of_numpy(kept, residual):
    options = {"residual": residual, "bias": 1.0, "weights": WEIGHTS, "rows": 4, **kept}
    problem, gp = make(density=SmoothLaplace(0.4, 1.0), **options)
    on_device, v = replace(problem, backend=CPU), antithetic_draws(gp.size, 6, seed=2)
    draws = Draws(np.stack([v, 0.5 * v]), group=2)
    expected, sums = run_bag_pass(problem, gp, draws, tilted=True)
    found, found_sums = run_bag_pass(on_device, gp, draws, tilted=True)
    for name in ("gradient", "diagonal", "vector", "pi"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **CLOSE)
    for name in ("curvature", "gradient", "likelihood", "log_z", "tilted"):
        np.testing.assert_allclose(getattr(found_sums, name), getattr(sums, name), **CLOSE)
    for one, other in zip(GradientTask(gp, v)(on_device), GradientTask(gp, v)(problem), strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


def test_rows_that_are_kept_on_a_device_come_back_as_arrays():
    problem, gp = make(bias=1.0)
    some = BagRange(1, 3, 1, 6)
    expected, _ = problem.rows_of_V(gp, some.rows)
    found, _ = replace(problem, backend=CPU).rows_of_V(gp, some.rows)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_done(device):
    parameters = PsiVGPMIL().get_params(deep=False) | {"density": HyperbolicSecant()}
    assert options_of(parameters | {"device": "cpu"}, 2).backend == CPU
    with pytest.raises(InputError, match="cannot be used"):
        options_of(parameters | {"device": device}, 2)
