"""The benchmark problem: N standard normal instances of D features in bags of ten."""

import os
from pathlib import Path

import numpy as np

from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP
from psimil.paper.ascent import Pass, ascend

BAG = 10


def mnist_folder() -> Path | None:
    """The folder ``mnist`` of the data directory that PSIMIL_DATA names, if there is one."""
    folder = Path(os.environ.get("PSIMIL_DATA", "")) / "mnist"
    return folder if "PSIMIL_DATA" in os.environ and folder.is_dir() else None


def random_problem(n: int = 56_000, d: int = 30, dtype: str = "float64", seed: int = 0) -> Shard:
    """Instances without structure; the cost of a pass does not depend on what they say."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    labels = Labels(rng.integers(0, 2, n // BAG), np.arange(0, n + 1, BAG))
    return Shard(X, labels, np.ones(n // BAG), HyperbolicSecant(), keep=True)


def sparse_gp(problem: Shard, m: int = 200) -> SparseGP:
    """M of the instances as inducing points, RBF kernel, constant mean."""
    return SparseGP.build(RBF(3.0, 4.0), problem.X[:m].astype(np.float64), bias=3.0)


def settled(problem: Shard, gp: SparseGP, passes: int = 3) -> Pass:
    """The record after a few passes, so that q(v) is no longer the prior."""
    records = ascend(problem, KernelState(gp, Posterior.prior(gp.size)))
    for record in records:
        if record.step == passes:
            return record
    raise RuntimeError("the passes ended")
