"""What a whole default fit costs, counted in the BLAS of one pass: dsyrk and dtrmm of N x M.

The fit is that of VGPMIL on MNIST bags of 30 principal components where the data directory has them, on random data of
that size otherwise, its kernel learned; fits and the two products are taken in turns. Ratios are those of the clock;
those of processor time stand beside them, for machines that others use too.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from problem import mnist_folder, random_problem
from scipy.linalg import blas
from timing import last_line

from psimil import VGPMIL
from psimil.datasets import mnist_split
from psimil.model.bags import Bags

D, M, BURST = 30, 200, 6
Seconds = tuple[float, float]  # on the clock, of the processor


def timed(work: Callable[[], Any]) -> Seconds:
    """Seconds of one run."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - cpu


def training_bags(data: Path | None, n: int) -> tuple[Bags, Any]:
    """The bags of MNIST, or as many instances without structure."""
    if data is not None:
        bags, y, _ = mnist_split(data)[0]
        return bags, y
    problem = random_problem(n, D)
    return Bags(problem.X, problem.labels.offsets), problem.labels.T


def main() -> None:
    """Print the ratios; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=56_000, help="instances of random data")
    parser.add_argument("--data", type=Path, default=mnist_folder(), help="directory with the four IDX files of MNIST")
    arguments = parser.parse_args()
    bags, y = training_bags(arguments.data, arguments.n)
    V, U = np.asfortranarray(np.random.default_rng(0).random((len(bags.X), M))), np.asfortranarray(np.eye(M))

    def two_products() -> None:
        blas.dsyrk(1.0, V, trans=1)
        blas.dtrmm(1.0, U, V, side=1, overwrite_b=1)

    fits, products = list[Seconds](), list[Seconds]()
    for _ in range(arguments.rounds):
        model = VGPMIL(n_inducing=M, random_state=0)
        fits.append(timed(lambda model=model: model.fit(bags, y)))  # type: ignore[misc]
        products += [timed(two_products) for _ in range(BURST)][1:]
    clock, cpu = np.median(fits, axis=0) / np.median(products, axis=0)
    figures = {"data": "random" if arguments.data is None else "mnist", "fit": float(clock), "fit_cpu": float(cpu)}
    figures |= {"fit_s": float(np.median(fits, axis=0)[0]), "passes": float(model.n_iter_)}
    print(f"a fit of {figures['passes']:.0f} passes on {figures['data']} data: {figures['fit_s']:.2f} s, "
          f"{clock:.0f} x (dsyrk + dtrmm), {cpu:.0f} by processor time")  # fmt: skip
    last_line(benchmark="fit", **figures)


if __name__ == "__main__":
    main()
