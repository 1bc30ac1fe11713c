"""An epoch with hyperparameter learning against the authors' published code, on the same data in one run.

Takes the path of a checkout of https://github.com/Franblueee/psi-VGPMIL and, with ``--python``, an interpreter that has
its requirements; nothing of that code is here. An epoch of theirs is one training step with the settings of their
experiments: q(u), q(y) and 200 gradient steps of the kernel. An epoch of ours is a pass, three evaluations of the bound
with its gradient by the kernel, and V of the new kernel.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import last_line

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.datasets import make_bags
from psimil.inference.kernel_learning import learn_kernel
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, SparseGP
from psimil.paper.ascent import pass_over

BAG, D, M = 10, 30, 200


def write_data(path: Path, n: int) -> Shard:
    """Bags of ten with a hidden direction, written for their process; returns them as our shard."""
    bags, y, _ = make_bags(n // BAG, (BAG, BAG), D, separation=3.0)
    np.savez(path, X=bags.X, y=y, bag_size=BAG)
    X = Scaling.fit(bags.X).apply(bags.X, "float64")
    return Shard(X, Labels(y, bags.offsets), np.ones(len(y)), HyperbolicSecant(), keep=True)


def ours(shard: Shard, epochs: int) -> list[float]:
    """Seconds of our epochs, each from where the last one ended; the start is theirs: variance 1/2, l^2 = D."""
    gp = SparseGP.build(RBF(0.5, float(np.sqrt(D))), shard.X[:M])
    state, seconds = KernelState.first(gp), []
    with single_threaded_blas():
        shard.features(gp, shard.blocks[0])  # kept
        for epoch in range(epochs):
            started = time.perf_counter()
            posterior = pass_over(shard, state.gp, state.posterior).next_posterior
            learned = learn_kernel(shard, state.gp, epoch, evaluations=3)
            state = KernelState(learned.gp, posterior)
            shard.features(state.gp, shard.blocks[0])
            seconds.append(time.perf_counter() - started)
    return seconds


def theirs(arguments: argparse.Namespace, data: Path, epochs: int) -> dict[str, Any]:
    """Seconds and peak memory of their epochs in a process of their own, or how it failed."""
    script = Path(__file__).with_name("authors_epoch.py")
    command = [arguments.python, str(script), str(arguments.checkout), str(data), "--inducing", str(M)]
    command += ["--epochs", str(epochs), "--gigabytes", str(arguments.gigabytes)]
    started = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"failure": f"no epoch within {arguments.seconds:.0f} s"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    said = [line for line in done.stderr.splitlines() if line.strip()]
    after = time.perf_counter() - started
    return {"failure": f"ended with {done.returncode} after {after:.0f} s: {said[-1].strip()[:200] if said else ''}"}


def main() -> None:
    """Print seconds per epoch and their ratio; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder that holds their folder code/")
    parser.add_argument("--python", default=sys.executable, help="interpreter with their requirements")
    parser.add_argument("--n", type=int, default=20_000, help="instances where both run")
    parser.add_argument("--largest", type=int, default=100_000, help="instances where theirs may fail; 0 leaves it out")
    parser.add_argument("--epochs", type=int, default=2, help="of theirs where both run; the last one counts")
    parser.add_argument("--gigabytes", type=float, default=16.0, help="memory that theirs may take")
    parser.add_argument("--seconds", type=float, default=1800.0, help="time that theirs may take")
    arguments = parser.parse_args()
    if not (arguments.checkout / "code" / "psiVGPMIL.py").is_file():
        parser.error("the checkout has no file code/psiVGPMIL.py")
    figures: dict[str, Any] = {"n": arguments.n, "largest": arguments.largest}
    with tempfile.TemporaryDirectory() as folder:
        shard = write_data(Path(folder) / "data.npz", arguments.n)
        before = ours(shard, 6)[1:]
        found = theirs(arguments, Path(folder) / "data.npz", arguments.epochs)
        mine = float(np.median(before + ours(shard, 6)[1:]))
        figures["ours_s"] = mine
        if "failure" in found:
            figures["theirs"] = found["failure"]
            print(f"N = {arguments.n}: ours {mine:.3f} s per epoch, theirs {found['failure']}", flush=True)
        else:
            figures |= {"theirs_s": found["seconds"][-1], "theirs_peak_gb": found["peak_gb"]}
            figures["ratio"] = figures["theirs_s"] / mine
            print(f"N = {arguments.n}: ours {mine:.3f} s per epoch, theirs {figures['theirs_s']:.1f} s, "
                  f"ratio {figures['ratio']:.0f}", flush=True)  # fmt: skip
        if arguments.largest:
            shard = write_data(Path(folder) / "data.npz", arguments.largest)
            figures["largest_ours_s"] = float(np.median(ours(shard, 4)[1:]))
            print(f"N = {arguments.largest}: ours {figures['largest_ours_s']:.3f} s per epoch", flush=True)
            found = theirs(arguments, Path(folder) / "data.npz", 1)
            ran = f"runs: {found['seconds'][-1]:.1f} s, {found['peak_gb']:.1f} GB" if "seconds" in found else ""
            figures["largest_theirs"] = ran or found["failure"]
            print(f"N = {arguments.largest}: theirs {figures['largest_theirs']}", flush=True)
    last_line(benchmark="authors", **figures)


if __name__ == "__main__":
    main()
