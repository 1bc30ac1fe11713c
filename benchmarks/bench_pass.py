"""One full pass against dsyrk + dtrmm of the same size, in float64 and float32, and its growth with N."""

import argparse

import numpy as np
from problem import random_problem, settled, sparse_gp
from scipy.linalg import blas
from timing import last_line, typical

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.shards import Shard
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.natural_steps import global_update
from psimil.paper.passes import Bound, run_pass


def full_pass(problem: Shard, gp: SparseGP, posterior: Posterior) -> tuple[Posterior, Bound]:
    """Local quantities, label posterior, statistics, global update and bound."""
    _, s = run_pass(problem, gp, posterior)
    update = global_update(s.V_theta_V, s.V_kappa)
    return update, s.bound(posterior.kl, 0.0)


def measure(n: int, d: int, m: int, dtype: str, rounds: int) -> dict[str, float]:
    """Seconds of a pass and of the two BLAS products it cannot do without."""
    problem = random_problem(n, d, dtype)
    record = settled(problem, sparse_gp(problem, m))
    posterior = record.next_posterior
    V = np.ascontiguousarray(problem.features(record.gp, problem.blocks[0])[0][:, :m])
    W, U = V.copy(), np.asfortranarray(np.eye(m, dtype=dtype))
    syrk, trmm = (blas.dsyrk, blas.dtrmm) if dtype == "float64" else (blas.ssyrk, blas.strmm)
    work = {
        "pass": lambda: full_pass(problem, record.gp, posterior),
        "syrk": lambda: syrk(1.0, V.T),
        "trmm": lambda: trmm(1.0, U, W.T, lower=1, overwrite_b=1),
    }
    return typical(work, rounds, single_threaded_blas)


def main() -> None:
    """Print the ratios; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--linear", action="store_true", help="also measure the growth up to N = 500 000")
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    for dtype, name in (("float64", "ratio"), ("float32", "ratio_float32")):
        found = measure(56_000, 30, 200, dtype, arguments.rounds)
        figures[name] = found["pass"] / (found["syrk"] + found["trmm"])
        print(f"{dtype}: " + ", ".join(f"{k} {1e3 * v:.1f} ms" for k, v in found.items()), f"ratio {figures[name]:.2f}")
    if arguments.linear:
        small = measure(50_000, 30, 200, "float64", 1)["pass"]
        large = measure(500_000, 30, 200, "float64", 1)["pass"]
        figures["ten_times_n"] = large / small
        print(f"N = 50 000: {1e3 * small:.1f} ms, N = 500 000: {1e3 * large:.1f} ms, growth {large / small:.2f}")
    last_line(benchmark="pass", **figures)


if __name__ == "__main__":
    main()
