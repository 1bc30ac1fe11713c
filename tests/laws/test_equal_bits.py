"""What is equal to the last bit and what to rounding, as docs/trust/reliability.md says: on every processor."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from psimil import VGPMIL, Linear
from psimil.cluster.worker import run_shard
from psimil.compute.numpy_backend import available_threads
from psimil.datasets import make_bags
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import BagPassTask
from psimil.inference.draws import Draws
from psimil.inference.sampled import GradientTask
from psimil.inference.shards import StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.ascent import PassTask

ROUNDING = 1e-10  # of probabilities in double precision


def problem():
    bags, y, _ = make_bags(n_bags=40, bag_size=(1, 20), n_features=5, seed=2)
    return bags, y


def learned(**settings):
    settings = {"n_inducing": 15, "max_iter": 4, "tol": 0, "random_state": 0, **settings}
    return VGPMIL(**settings).fit(*problem())


def bits(model):
    """What a fit leaves and what it predicts, byte by byte."""
    found = model.predict_dist(problem()[0], joint=True)
    arrays = (
        model.model_.gp.L, model.model_.gp.Z, model.model_.posterior.m, model.model_.posterior.R,
        found.prob, found.std, found.lower, found.joint_std, found.instance_prob, found.instance_std,
    )  # fmt: skip
    return [np.asarray(a).tobytes() for a in arrays]


@pytest.mark.parametrize(
    "settings",
    [
        {"chunk_size": 300},
        {"dtype": "float32"},
        pytest.param({"posterior": "augmented", "residual": "full"}, marks=pytest.mark.slow),
    ],
    ids=["chunks", "float32", "augmented"],
)
def test_threads_and_repetition_do_not_change_a_bit(settings):
    expected = bits(learned(**settings))
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            if available_threads() != threads:
                pytest.skip(f"BLAS does not run {threads} threads here")
            assert bits(learned(**settings)) == expected


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", ROUNDING), ("float32", 1e-5)])
def test_other_bags_beside_a_bag_change_no_more_than_rounding(dtype, rounding):
    model, (bags, _) = learned(dtype=dtype), problem()
    expected = model.predict_dist(bags)
    for size in (1, 7, 20):
        batches = [model.predict_dist(bags[first : first + size]) for first in range(0, len(bags), size)]
        for name in ("prob", "std", "instance_prob", "instance_std"):
            found = np.concatenate([getattr(batch, name) for batch in batches])
            np.testing.assert_allclose(found, getattr(expected, name), rtol=0, atol=rounding)


def elsewhere(A, shift):
    """The array so many bytes behind an address that NumPy would choose."""
    room = np.empty(A.nbytes + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64 + shift
    moved = room[start : start + A.nbytes].view(A.dtype).reshape(A.shape)
    moved[...] = A
    return moved


def test_where_rows_lie_in_memory_does_not_change_a_bit():
    """A worker gets its rows at any address."""
    bags, y = problem()
    rng = np.random.default_rng(0)
    gp = SparseGP.build(Linear(0.5), rng.normal(size=(9, 5)), residual="full", bias=1.0)
    weights = rng.uniform(0.5, 2.0, len(y))
    psi = HyperbolicSecant()
    shards = StreamedShards(bags.X, Labels(y, bags.offsets), weights, Scaling.fit(bags.X), psi, rows=180)
    draws = antithetic_draws(gp.size, 8, seed=0)
    groups = Draws(np.stack([draws, 0.5 * draws, draws[:, ::-1]]), group=7)
    passes = [BagPassTask(gp, one, tilted) for one in (Draws.shared(draws), groups) for tilted in (False, True)]
    tasks = (PassTask(gp, Posterior.prior(gp.size)), *passes, GradientTask(gp, draws))
    for task, single in product(tasks, (False, True)):
        rounded = replace(shards, single=single)
        for bag_range, expected in zip(shards.ranges, rounded.map(task), strict=True):
            shard = rounded.shard(bag_range)
            for shift in (0, 8):
                moved = replace(shard, X=elsewhere(shard.X, shift), weights=elsewhere(shard.weights, shift))
                found, _ = run_shard(moved, task, psi)
                assert numbers(found) == numbers(expected)


def numbers(result):
    """All numbers of the sums of a shard, byte by byte."""
    values = [vars(part).values() if hasattr(part, "__dict__") else [part] for part in result if part is not None]
    return [np.asarray(value).tobytes() for part in values for value in part]
