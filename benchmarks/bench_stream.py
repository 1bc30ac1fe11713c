"""Streaming from disk: seconds per instance against a pass in memory, and peak memory as N grows.

Ten million instances of 32 features take 1.3 GB of disk below the folder that ``--folder`` names.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import last_line

BAG, D, M, PASSES = 100, 32, 200, 3


def write(path: Path, n: int) -> None:
    """A store of n instances without structure, in bags of a hundred."""
    from psimil.store import StoreWriter

    rng = np.random.default_rng(0)
    with StoreWriter(path, D, dtype="float32") as writer:
        for first in range(0, n // BAG, 1000):
            X = rng.standard_normal((1000 * BAG, D), dtype=np.float32)
            for b in range(1000):
                writer.add(X[b * BAG : (b + 1) * BAG], (first + b) % 2, first + b)


def sparse_gp(X: np.ndarray):
    """M instances as inducing points."""
    from psimil.model.kernels import RBF
    from psimil.model.sparse_gp import SparseGP

    return SparseGP.build(RBF(3.0, 6.0), X[:M].astype(np.float64), bias=3.0)


def stream(path: str, answer: "multiprocessing.Queue[tuple[float, float]]") -> None:
    """Three passes over a store; median seconds of a pass and peak megabytes of the process."""
    from psimil.compute.numpy_backend import single_threaded_blas
    from psimil.inference.shards import StreamedShards
    from psimil.model.bag_likelihoods import Labels
    from psimil.model.densities import HyperbolicSecant
    from psimil.model.scaling import Scaling
    from psimil.model.sparse_gp import KernelState
    from psimil.paper.ascent import pass_over
    from psimil.store import open_store

    bags = open_store(path)
    rows = bags.stream
    shards = StreamedShards(
        rows, Labels(bags.y, bags.offsets), np.ones(len(bags)), Scaling.identity(D), HyperbolicSecant()
    )
    gp = sparse_gp(rows[:M])
    posterior, seconds = KernelState.first(gp).posterior, []
    with single_threaded_blas():
        for _ in range(PASSES):
            started = time.perf_counter()
            posterior = pass_over(shards, gp, posterior).next_posterior
            seconds.append(time.perf_counter() - started)
    answer.put((float(np.median(seconds)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def in_memory(n: int) -> float:
    """Median seconds of a pass with V kept, in float64."""
    from psimil.compute.numpy_backend import single_threaded_blas
    from psimil.inference.shards import Shard
    from psimil.model.bag_likelihoods import Labels
    from psimil.model.densities import HyperbolicSecant
    from psimil.model.sparse_gp import KernelState
    from psimil.paper.natural_steps import global_update
    from psimil.paper.passes import run_pass

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    labels = Labels(np.arange(n // BAG) % 2, np.arange(0, n + 1, BAG))
    shard = Shard(X, labels, np.ones(n // BAG), HyperbolicSecant(), keep=True)
    gp = sparse_gp(X)
    posterior, seconds = KernelState.first(gp).posterior, []
    with single_threaded_blas():
        shard.features(gp, shard.blocks[0])  # kept
        for _ in range(5):
            started = time.perf_counter()
            _, statistics = run_pass(shard, gp, posterior)
            posterior = global_update(statistics.V_theta_V, statistics.V_kappa)
            seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[1:]))


def main() -> None:
    """Print seconds and megabytes; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the stores are written")
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for n in (arguments.largest // 10, arguments.largest):
            path = Path(folder) / str(n)
            write(path, n)
            answer = spawn.Queue()
            child = spawn.Process(target=stream, args=(str(path), answer))
            child.start()
            seconds, peak = answer.get()
            child.join()
            figures[f"ns_per_instance_{n}"], figures[f"peak_mb_{n}"] = 1e9 * seconds / n, peak
            print(f"N = {n}: {seconds:.2f} s per pass, peak {peak:.0f} MB", flush=True)
    n = arguments.largest // 20
    memory = in_memory(n)
    print(f"in memory, N = {n}: {memory:.3f} s per pass", flush=True)
    figures["ratio"] = figures[f"ns_per_instance_{arguments.largest}"] / (1e9 * memory / n)
    figures["memory_growth"] = figures[f"peak_mb_{arguments.largest}"] / figures[f"peak_mb_{arguments.largest // 10}"]
    print(f"streamed against in memory {figures['ratio']:.2f}, memory growth {figures['memory_growth']:.3f}")
    last_line(benchmark="stream", **figures)


if __name__ == "__main__":
    main()
