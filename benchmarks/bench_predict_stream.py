"""Prediction of a store by ``psimil predict``: peak memory of the process, and bytes of it per instance.

Ten million instances of 32 features take 1.3 GB of disk below the folder that ``--folder`` names, and the tables 2 GB.
"""

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_stream import BAG, D, write
from timing import last_line

M = 20


def fit(path: Path) -> None:
    """A model of few inducing points, of bags like those of the store."""
    from psimil import VGPMIL, Bags

    rng = np.random.default_rng(1)
    X, offsets = rng.standard_normal((40 * BAG, D), dtype=np.float32), np.arange(0, 40 * BAG + 1, BAG)
    VGPMIL(n_inducing=M, max_iter=5, tol=0.0, random_state=0).fit(Bags(X, offsets), np.arange(40) % 2).save(path)


def megabytes() -> float:
    """Peak of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def predict(folder: str, store: str, answer: "multiprocessing.Queue[tuple[float, float, float]]") -> None:
    """The command; peak megabytes before, of a process that has predicted a little, and after, and seconds."""
    from typer.testing import CliRunner

    from psimil.cli.main import app

    def run(name: str) -> None:
        arguments = [f"{folder}/model.safetensors", f"{folder}/{name}", "--out", f"{folder}/run-{name}", "--json"]
        done = CliRunner().invoke(app, ["predict", *arguments])
        if done.exit_code:
            raise RuntimeError(done.output)
        print(json.loads(done.stdout), flush=True)

    run("small")
    before, started = megabytes(), time.perf_counter()
    run(store)
    answer.put((before, megabytes(), time.perf_counter() - started))


def main() -> None:
    """Print megabytes and bytes per instance; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the store and the tables are written")
    arguments = parser.parse_args()
    spawn, n = multiprocessing.get_context("spawn"), arguments.instances
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        fit(Path(folder) / "model.safetensors")
        write(Path(folder) / "small", 1000 * BAG)
        write(Path(folder) / "large", n)
        answer = spawn.Queue()
        child = spawn.Process(target=predict, args=(folder, "large", answer))
        child.start()
        before, peak, seconds = answer.get()
        child.join()
        rows = sum(1 for _ in (Path(folder) / "run-large" / "instances.csv").open("rb")) - 1
    print(f"N = {rows}: peak {peak:.0f} MB, {before:.0f} MB of them before, {seconds:.0f} s")
    figures = {f"peak_mb_{n}": peak, f"bytes_per_instance_{n}": 2**20 * peak / n, f"seconds_{n}": seconds}
    last_line(benchmark="predict_stream", before_mb=before, **figures)


if __name__ == "__main__":
    main()
