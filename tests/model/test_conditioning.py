"""When sums may be whitened at the end, and that it changes no more than rounding."""

import numpy as np
import pytest

from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.sampled import GradientTask
from psimil.inference.shards import Shard
from psimil.model import sparse_gp
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF, Linear
from psimil.model.sparse_gp import KernelState, SparseGP
from psimil.paper.passes import run_pass

KERNEL = Linear(0.3) + RBF(2.0, 1.5)


def points(gap):
    """Twenty inducing points in pairs this far apart."""
    Z = np.random.default_rng(0).normal(size=(20, 3))
    Z[1::2] = Z[::2] + gap
    return Z


@pytest.mark.parametrize("gap", [1.0, 0.1, 1e-2, 1e-3])
def test_the_condition_is_that_of_the_spectral_norm_up_to_a_small_factor(gap):
    gp = SparseGP.build(KERNEL, points(gap))
    exact = 1.0 / np.linalg.cond(gp.L)
    assert 0.1 * exact < gp.reciprocal_condition <= 1.01 * exact


def test_points_that_almost_touch_are_whitened_one_by_one():
    assert SparseGP.build(KERNEL, points(1.0)).sums_can_be_whitened(np.float64)
    assert not SparseGP.build(KERNEL, points(1e-3)).sums_can_be_whitened(np.float64)
    assert not SparseGP.build(KERNEL, points(1.0)).sums_can_be_whitened(np.float32)


def test_both_ways_give_the_same_sums_and_gradients(monkeypatch):
    rng = np.random.default_rng(1)
    offsets = np.arange(0, 301, 10)
    labels = Labels(rng.integers(0, 2, 30), offsets)
    shard = Shard(rng.normal(size=(300, 3)), labels, np.ones(30), HyperbolicSecant())
    gp = SparseGP.build(KERNEL, points(1.0), bias=2.0)
    posterior, draws = KernelState.first(gp).posterior, antithetic_draws(gp.size, 8, seed=0)

    def found():
        sums, bag_sums = run_pass(shard, gp, posterior)[1], run_bag_pass(shard, gp, Draws.shared(draws))[1]
        slopes = GradientTask(gp, draws)(shard)[1]
        return sums.V_theta_V, sums.V_kappa, bag_sums.curvature, bag_sums.gradient, bag_sums.likelihood, slopes

    assert shard.unwhitened(gp)
    end = found()
    monkeypatch.setattr(sparse_gp, "VERY_WELL_CONDITIONED", 1.0)
    assert not shard.unwhitened(gp)
    for one, other in zip(end, found(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
