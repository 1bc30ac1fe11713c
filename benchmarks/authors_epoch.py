"""Epochs of the authors' code from a checkout of it; run by compare_authors.py, which says with which interpreter.

It needs nothing of psimil: their requirements are not ours.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    """Print the seconds of every epoch and the peak memory as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("data", type=Path, help="an npz file with X, y and bag_size")
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--gigabytes", type=float, default=16.0, help="address space that it may take")
    arguments = parser.parse_args()
    limit = int(arguments.gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.path.insert(0, str(arguments.checkout / "code"))

    import jax

    jax.config.update("jax_enable_x64", True)
    from psi_functions import dif_psi_vgpmil, psi_vgpmil
    from psiVGPMIL import psiVGPMIL

    data = np.load(arguments.data)
    X, y, size = data["X"], data["y"], int(data["bag_size"])
    model = psiVGPMIL(
        psi_vgpmil,
        dif_psi_vgpmil,
        num_inducing=arguments.inducing,
        kernel_ls=float(X.shape[1]),
        lr=0.01,  # this and the other settings are the defaults of their experiments
        update_hyperparams=True,
    )
    model.initialize(list(X.reshape(-1, size, X.shape[1])), list(y))
    seconds = []
    for _ in range(arguments.epochs):
        started = time.perf_counter()
        model.train_step()
        np.asarray(model.KzziKzx)  # waits for what jax still works on
        seconds.append(time.perf_counter() - started)
        print(f"epoch {len(seconds)}: {seconds[-1]:.1f} s", file=sys.stderr, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "peak_gb": peak}))


if __name__ == "__main__":
    main()
