"""How a pass grows with N, M, D and shrinks with workers: slopes on logarithmic axes, for docs/results/scaling.md.

A pass in memory keeps V between passes; a streamed pass works K_xz out again in every shard. Sizes are taken in turns,
and the slope is that of a line through the logarithms of the fastest runs. Workers are those of a local Dask cluster,
one thread each, over the same shards; as many of them as the machine has cores are measured.
"""

import argparse
import os
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from bench_pass import full_pass
from problem import random_problem, sparse_gp
from timing import last_line

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.shards import StreamedShards
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import pass_over

CENTRE = {"N": 50_000, "M": 200, "D": 32}
SIZES = {"N": (25_000, 50_000, 100_000, 200_000), "M": (100, 200, 400), "D": (8, 32, 128)}
EXPECTED = {
    ("N", "in memory"): "1",
    ("N", "streamed"): "1",
    ("M", "in memory"): "1 to 2, 2 for large M",
    ("M", "streamed"): "1 to 2, 2 for large M",
    ("D", "in memory"): "0",
    ("D", "streamed"): "0 to 1, 1 for D far above M",
    ("workers", "streamed"): "-1",
}


def streamed_shards(n: int, d: int) -> StreamedShards:
    """A random problem in shards."""
    problem = random_problem(n, d)
    return StreamedShards(problem.X, problem.labels, problem.weights, Scaling.identity(d), problem.density)


def passes(n: int, m: int, d: int) -> dict[str, Callable[[], Any]]:
    """A pass in memory and a streamed one, ready to run."""
    problem = random_problem(n, d)
    gp = sparse_gp(problem, m)
    posterior, shards = KernelState.first(gp).posterior, streamed_shards(n, d)
    return {
        "in memory": lambda: full_pass(problem, gp, posterior),
        "streamed": lambda: pass_over(shards, gp, posterior),
    }


def fastest(work: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, float]:
    """Seconds of the fastest run of each piece of work, taken in turns; the first round is not counted."""
    seconds: dict[Any, list[float]] = {key: [] for key in work}
    for _ in range(rounds + 1):
        for key, run in work.items():
            started = time.perf_counter()
            run()
            seconds[key].append(time.perf_counter() - started)
    return {key: min(found[1:]) for key, found in seconds.items()}


def over_sizes(axis: str, scale: float, rounds: int) -> dict[tuple[str, float], float]:
    """Seconds of a pass by way of running and size."""
    work = {}
    for size in SIZES[axis]:
        sizes = CENTRE | {axis: size}
        sizes["N"] = max(1000, int(scale * sizes["N"]) // 10 * 10)
        work |= {(way, float(sizes[axis])): run for way, run in passes(sizes["N"], sizes["M"], sizes["D"]).items()}
    with single_threaded_blas():
        return fastest(work, rounds)


def over_workers(n: int, rounds: int) -> dict[tuple[str, float], float]:
    """Seconds of a streamed pass by number of workers."""
    from distributed import Client, LocalCluster

    from psimil.cluster import DaskShards

    shards, found = streamed_shards(n, CENTRE["D"]), {}
    gp = sparse_gp(random_problem(n, CENTRE["D"]), CENTRE["M"])
    posterior = KernelState.first(gp).posterior
    for workers in sorted({1, 2, os.cpu_count() or 1}):
        local = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
        with local, Client(local, set_as_default=False) as client:
            spread = DaskShards(shards, client)
            work = {("streamed", float(workers)): lambda spread=spread: pass_over(spread, gp, posterior)}
            found |= fastest(work, rounds)
    return found


def rows_of(axis: str, found: dict[tuple[str, float], float]) -> list[dict[str, Any]]:
    """One row per way of running: sizes, seconds, slope of the line and of its last piece."""
    rows = []
    for way in dict.fromkeys(way for way, _ in found):
        points = sorted((size, seconds) for (other, size), seconds in found.items() if other == way)
        x, y = np.log(np.array(points)).T
        steps = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(zip(x, y, strict=True))]
        slope, last = float(np.polyfit(x, y, 1)[0]), float(steps[-1])
        rows.append({"axis": axis, "way": way, "points": points, "slope": slope, "last": last})
    return rows


def main() -> None:
    """Print the table; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of every N")
    parser.add_argument("--no-workers", action="store_true", help="leave the cluster out")
    arguments = parser.parse_args()
    rows = [row for axis in SIZES for row in rows_of(axis, over_sizes(axis, arguments.scale, arguments.rounds))]
    if not arguments.no_workers:
        rows += rows_of("workers", over_workers(int(4 * arguments.scale * CENTRE["N"]), arguments.rounds))
    print("| in | pass | sizes | milliseconds | slope | slope of the last step | expected |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        sizes, seconds = zip(*row["points"], strict=True)
        cells = [row["axis"], row["way"], ", ".join(f"{s:g}" for s in sizes)]
        cells += [", ".join(f"{1e3 * s:.1f}" for s in seconds), f"{row['slope']:.2f}", f"{row['last']:.2f}"]
        print("| " + " | ".join([*cells, EXPECTED[row["axis"], row["way"]]]) + " |")
    print()
    last_line(benchmark="slopes", **{f"{row['axis']}, {row['way']}": row["slope"] for row in rows})


if __name__ == "__main__":
    main()
