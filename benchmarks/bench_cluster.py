"""Two local Dask workers of one thread each against one, and passes whose workers are killed at random moments.

A store of one million instances is read by the workers themselves. Passes of both clusters are taken in turns, from
the same q(v). With ``--kills`` as many passes lose a worker (SIGKILL) at a random moment; a nanny starts another one.
Every q(v) on the way is compared bit for bit with that of the undisturbed passes. Dask's own log of the losses goes to
stderr.
"""

import argparse
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np
from bench_stream import BAG, D, sparse_gp, write
from distributed import Client, LocalCluster, Status
from timing import last_line

from psimil.cluster import DaskShards
from psimil.inference.shards import StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP
from psimil.paper.ascent import pass_over
from psimil.store import StoredBags, open_store

# LocalCluster drops a worker whose successor is not up within 15 seconds, which a busy machine may need
PATIENT = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
# the profilers of the scheduler and of each worker take part of a core that two busy workers do not have to spare
QUIET = {"distributed.worker.profile.enabled": False, "distributed.scheduler.dashboard.status.task-stream-length": 0}
LOCAL = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}


def parts_on(client: Any, bags: StoredBags) -> DaskShards:
    """The parts of a store on the cluster of a client."""
    labels = Labels(bags.y, bags.offsets)
    alone = StreamedShards(bags.stream, labels, np.ones(len(bags)), Scaling.identity(D), HyperbolicSecant())
    return DaskShards(alone, client, bags)


def one_pass(parts: DaskShards, gp: SparseGP, posterior: Posterior) -> tuple[Posterior, float]:
    """The next q(v), and the seconds it took."""
    started = time.perf_counter()
    update = pass_over(parts, gp, posterior).next_posterior
    return update, time.perf_counter() - started


def same(one: Posterior, other: Posterior) -> bool:
    """Whether two q(v) have the same bits."""
    return one.m.tobytes() == other.m.tobytes() and one.R.tobytes() == other.R.tobytes()


def speed(gp: SparseGP, clusters: list[DaskShards], passes: int) -> tuple[list[Posterior], Any]:
    """The q(v) of every pass, and the seconds (passes, clusters) but for the first pass, which reads the rows."""
    chain, seconds = [KernelState.first(gp).posterior], []
    for _ in range(passes + 1):
        found = [one_pass(parts, gp, chain[-1]) for parts in clusters]
        if not same(found[0][0], found[1][0]):
            raise SystemExit("one and two workers do not give the same bits")
        chain.append(found[0][0])
        seconds.append([s for _, s in found])
        print("seconds of a pass: " + ", ".join(f"{s:.2f}" for s in seconds[-1]), flush=True)
    return chain, np.array(seconds[1:])


def kill_after(seconds: float, local: LocalCluster, rng: np.random.Generator, log: list[int]) -> threading.Thread:
    """A thread that kills one of the workers after so many seconds."""
    pid = int(rng.choice([nanny.pid for nanny in local.workers.values()]))

    def kill() -> None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        log.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def wait_for_nannies(local: LocalCluster, victims: list[int]) -> None:
    """Until every victim is replaced, so that a kill never leaves the cluster without workers."""
    while not all(
        nanny.process is not None and nanny.process.status == Status.running and nanny.pid not in victims
        for nanny in local.workers.values()
    ):
        time.sleep(0.05)


def with_kills(
    local: LocalCluster, parts: DaskShards, gp: SparseGP, chain: list[Posterior], kills: int, typical: float
) -> dict[str, float]:
    """Passes along the chain that lose a worker each: how many, how many had other bits, their median seconds."""
    rng, log, wrong, seconds = np.random.default_rng(0), list[int](), 0, list[float]()
    while len(log) < kills:
        posterior = chain[0]
        for expected in chain[1 : 1 + kills - len(log)]:
            wait_for_nannies(local, log)
            thread = kill_after(float(rng.uniform(0.0, typical)), local, rng, log)
            posterior, took = one_pass(parts, gp, posterior)
            thread.join()
            seconds.append(took)
            wrong += not same(posterior, expected)
            print(f"kill {len(log)}: {took:.2f} s, passes with other bits so far: {wrong}", flush=True)
    return {"kills": len(log), "passes_with_other_bits": wrong, "killed_s": float(np.median(seconds))}


def main() -> None:
    """Print seconds and the outcome of the kills; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=None, help="where the store is written")
    arguments = parser.parse_args()
    with (
        dask.config.set(PATIENT | QUIET),
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        LocalCluster(n_workers=1, **LOCAL) as one,
        LocalCluster(n_workers=2, **LOCAL) as two,
        Client(one, set_as_default=False) as client_one,
        Client(two, set_as_default=False) as client_two,
    ):
        path = Path(folder) / "store"
        write(path, max(arguments.n // (1000 * BAG), 1) * 1000 * BAG)
        bags = open_store(path)
        gp = sparse_gp(bags.stream[:1000])
        clusters = [parts_on(client, bags) for client in (client_one, client_two)]
        chain, seconds = speed(gp, clusters, arguments.passes)
        medians = np.median(seconds, axis=0)
        figures: dict[str, Any] = {"n": len(bags.X), "one_s": float(medians[0]), "two_s": float(medians[1])}
        figures["ratio"] = float(np.median(seconds[:, 0] / seconds[:, 1]))
        print(f"two workers against one: {figures['ratio']:.2f} x", flush=True)
        if arguments.kills:
            figures |= with_kills(two, clusters[1], gp, chain, arguments.kills, figures["two_s"])
    last_line(benchmark="cluster", **figures)


if __name__ == "__main__":
    main()
