"""What a fit costs in passes: an evaluation of the collapsed bound with its gradient, and a whole default fit.

The evaluation is measured at N = 56 000 and M = 200 on random data, for an RBF kernel and for the default kernel. The
fit is that of VGPMIL on MNIST bags of 30 principal components where the data directory has them, on random data of
that size otherwise; it is counted in passes over its own data with its own kernel, taken in turns with whole fits.
Ratios are those of the clock; those of processor time stand beside them, for machines that others use too.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_pass import full_pass
from problem import mnist_folder, random_problem, settled, sparse_gp
from timing import last_line

from psimil import VGPMIL
from psimil.compute.numpy_backend import chunk_rows, single_threaded_blas
from psimil.datasets import mnist_split
from psimil.inference.ascent import KernelState
from psimil.inference.collapsed import CollapsedBound
from psimil.inference.shards import Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF, Kernel, Linear
from psimil.model.label_posteriors import Labels

D, M, WARM, BURST = 30, 200, 4, 12
Seconds = tuple[float, float]  # on the clock, of the processor


def timed(work: Callable[[], Any]) -> Seconds:
    """Seconds of one run."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - cpu


def burst(work: Callable[[], Any]) -> list[Seconds]:
    """Several runs in a row, without the first ones."""
    with single_threaded_blas():
        return [timed(work) for _ in range(BURST)][WARM:]


def ratio(of: list[Seconds], to: list[Seconds]) -> tuple[float, float]:
    """Of the medians, by clock and by processor."""
    found = np.median(of, axis=0) / np.median(to, axis=0)
    return float(found[0]), float(found[1])


def evaluation(n: int, kernel: Kernel, rounds: int) -> tuple[float, float]:
    """An evaluation of the collapsed bound with gradient against a pass, bursts of both in turns."""
    problem = random_problem(n, D)
    first = sparse_gp(problem, M)
    gp = SparseGP.build(kernel, first.Z, bias=first.bias)
    record = settled(problem, gp)
    posterior = record.next_posterior
    bound = CollapsedBound(problem, KernelState(record.gp, record.posterior), record.local)
    passes: list[Seconds] = []
    evaluations: list[Seconds] = []
    for _ in range(rounds):
        passes += burst(lambda: full_pass(problem, gp, posterior))
        evaluations += burst(lambda: bound(gp))
    return ratio(evaluations, passes)


def training_bags(data: Path | None, n: int) -> tuple[Bags, Any]:
    """The bags of MNIST, or as many instances without structure."""
    if data is not None:
        bags, y, _ = mnist_split(data)[0]
        return bags, y
    problem = random_problem(n, D)
    return Bags(problem.X, problem.labels.offsets), problem.labels.T


def whole_fit(bags: Bags, y: Any, rounds: int) -> tuple[tuple[float, float], dict[str, float]]:
    """A default fit against one pass, and the seconds and passes of a fit."""
    fits: list[Seconds] = []
    passes: list[Seconds] = []
    for _ in range(rounds):
        model = VGPMIL(n_inducing=M, random_state=0)
        fits.append(timed(lambda model=model: model.fit(bags, y)))  # type: ignore[misc]
        trained = model.model_
        X, labels = trained.scaling.apply(bags.X, "float64"), Labels(np.asarray(y), bags.offsets)
        rows = chunk_rows(trained.gp.size)
        shard = Shard(X, labels, np.ones(len(bags)), HyperbolicSecant(), rows=rows, keep=True)
        passes += burst(lambda: full_pass(shard, trained.gp, trained.posterior))  # noqa: B023 - called at once
    figures = {"fit_s": float(np.median(fits, axis=0)[0]), "pass_s": float(np.median(passes, axis=0)[0])}
    return ratio(fits, passes), figures | {"passes": float(model.n_iter_)}


def main() -> None:
    """Print the ratios; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=56_000, help="instances of random data")
    parser.add_argument("--data", type=Path, default=mnist_folder(), help="directory with the four IDX files of MNIST")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"data": "random" if arguments.data is None else "mnist"}
    kernels = {"evaluation": RBF(3.0, 4.0), "evaluation_default_kernel": Linear(1.0 / D) + RBF(3.0, 4.0)}
    for name, kernel in kernels.items():
        figures[name], figures[f"{name}_cpu"] = evaluation(arguments.n, kernel, arguments.rounds)
        print(f"{name}: {figures[name]:.2f} passes, {figures[f'{name}_cpu']:.2f} by processor time", flush=True)
    (figures["fit"], figures["fit_cpu"]), more = whole_fit(
        *training_bags(arguments.data, arguments.n), arguments.rounds
    )
    print(f"a fit of {more['passes']:.0f} passes on {figures['data']} data: {more['fit_s']:.2f} s, "
          f"{figures['fit']:.0f} x one pass, {figures['fit_cpu']:.0f} by processor time")  # fmt: skip
    last_line(benchmark="fit", **figures, **more)


if __name__ == "__main__":
    main()
