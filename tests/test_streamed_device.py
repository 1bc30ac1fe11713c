"""Sums on a torch device, block by block: those of NumPy, with every block added once."""

from dataclasses import replace

import numpy as np
import pytest
from psimil.inference.local_pass import Projection, local_pass

from problems import make, random_posterior
from psimil.foundations.errors import InputError
from psimil.inference.collapsed import CollapsedBound
from psimil.inference.options import Options
from psimil.model.densities import GammaMixture, HyperbolicSecant

pytest.importorskip("torch")

CLOSE = {"rtol": 1e-9, "atol": 1e-10}
WEIGHTS = [1, 2, 0.5, 1, 3]


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("residual", ["projected", "full"])
def test_blocks_of_a_pass_add_up_to_the_sums_of_numpy(cache, residual):
    problem, gp = make(residual=residual, bias=1.0, cache=cache, weights=WEIGHTS, chunk_rows=4)
    posterior, on_device = random_posterior(gp.size), replace(problem, device="cpu")
    expected, sums = local_pass(Projection.build(gp, problem), posterior, problem)
    found, found_sums = local_pass(Projection.build(gp, on_device), posterior, on_device)
    for name in ("mu", "s2", "theta", "pi"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **CLOSE)
    for name in ("V_theta_V", "V_kappa", "potential", "scale_mixture", "bags", "entropy"):
        np.testing.assert_allclose(getattr(found_sums, name), getattr(sums, name), **CLOSE)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("residual", ["projected", "full"])
def test_blocks_of_the_collapsed_bound_add_up_to_that_of_numpy(cache, residual):
    options = {"residual": residual, "bias": 1.0, "cache": cache, "weights": WEIGHTS, "chunk_rows": 4}
    problem, gp = make(density=GammaMixture(1.0, 1.5), **options)
    local, _ = local_pass(Projection.build(gp, problem), random_posterior(gp.size), problem)
    expected = CollapsedBound(problem, local)(gp)
    found = CollapsedBound(replace(problem, device="cpu"), local)(gp)
    np.testing.assert_allclose(found.value, expected.value, **CLOSE)
    np.testing.assert_allclose(found.gradient, expected.gradient, **CLOSE)


def test_rows_that_are_kept_on_a_device_come_back_as_arrays():
    problem, gp = make(bias=1.0)
    expected, _ = Projection.build(gp, problem).rows(2, 7)
    found, _ = Projection.build(gp, replace(problem, device="cpu")).rows(2, 7)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_done(device):
    assert Options(HyperbolicSecant(), device="cpu").device == "cpu"
    with pytest.raises(InputError, match="cannot be used"):
        Options(HyperbolicSecant(), device=device)
