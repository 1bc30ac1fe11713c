"""Prediction against the product behind the distances + dtrmm of the same size, in float64 and float32."""

import argparse

import numpy as np
from problem import BAG, random_problem, settled, sparse_gp
from scipy.linalg import blas
from timing import last_line, typical

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.model.bags import Bags
from psimil.model.scaling import Scaling
from psimil.predictive.trained import TrainedModel


def measure(n: int, d: int, m: int, dtype: str, rounds: int) -> dict[str, float]:
    """Seconds of bag and instance probabilities with standard deviations, and of the two unavoidable products."""
    problem = random_problem(n, d, dtype)
    record = settled(problem, sparse_gp(problem, m))
    model = TrainedModel(Scaling.identity(d), record.gp, record.next_posterior, dtype=dtype)
    bags = Bags(problem.X, np.arange(0, n + 1, BAG))
    K = np.ascontiguousarray(problem.X @ problem.X[:m].T)
    U = np.asfortranarray(np.eye(m, dtype=dtype))
    trmm = blas.dtrmm if dtype == "float64" else blas.strmm
    work = {
        "predict": lambda: model.predict(bags),
        "gemm": lambda: problem.X @ problem.X[:m].T,
        "trmm": lambda: trmm(1.0, U, K.T, lower=1, overwrite_b=1),
    }
    return typical(work, rounds, single_threaded_blas)


def main() -> None:
    """Print the ratios; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    for dtype, name in (("float64", "ratio"), ("float32", "ratio_float32")):
        found = measure(56_000, 30, 200, dtype, arguments.rounds)
        figures[name] = found["predict"] / (found["gemm"] + found["trmm"])
        print(f"{dtype}: " + ", ".join(f"{k} {1e3 * v:.1f} ms" for k, v in found.items()), f"ratio {figures[name]:.2f}")
    last_line(benchmark="predict", **figures)


if __name__ == "__main__":
    main()
