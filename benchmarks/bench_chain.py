"""A pass over bags whose labels are linked against one over the same bags with independent labels."""

import argparse

import numpy as np
from timing import last_line, typical

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_order import linked
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import Posterior, SparseGP


def measure(size: int, rounds: int, *, tilted: bool, instances: int = 56_000, m: int = 200) -> dict[str, float]:
    """Seconds of a pass over bags of so many instances, linked and not."""
    rng, n = np.random.default_rng(0), instances // size * size
    X, offsets = rng.standard_normal((n, 10)), np.arange(0, n + 1, size)
    labels = Labels(rng.integers(0, 2, len(offsets) - 1), offsets, links=linked(offsets)[1])
    gp = SparseGP.build(RBF(2.0, 3.0), X[: m - 1], bias=1.0)
    shard = Shard(X, labels, np.ones(len(offsets) - 1), HyperbolicSecant(), keep=True)
    shard.features(gp, shard.blocks[0])
    draws = Draws.for_bags(gp.size, labels, 0).of(Posterior.prior(gp.size))
    plain, chain = shard.coupled(0.0), shard.coupled(1.0)
    work = {
        "independent": lambda: run_bag_pass(plain, gp, draws, tilted=tilted),
        "chain": lambda: run_bag_pass(chain, gp, draws, tilted=tilted),
    }
    return typical(work, rounds, single_threaded_blas)


def main() -> None:
    """Print the ratios; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    for size in (10, 35):
        for tilted in (False, True):
            found, name = measure(size, arguments.rounds, tilted=tilted), f"{'tilted' if tilted else 'ratio'}_{size}"
            figures[name] = found["chain"] / found["independent"]
            print(f"bags of {size}, tilted {tilted}: " + ", ".join(f"{k} {1e3 * v:.0f} ms" for k, v in found.items()))
    last_line(benchmark="chain", **figures)


if __name__ == "__main__":
    main()
