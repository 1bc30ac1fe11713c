"""Prediction of a store by ``psimil predict``: peak memory of the process, and bytes of it per instance.

Ten million instances of 32 features take 1.3 GB of disk below the folder that ``--folder`` names, and the tables 2 GB.
"""

import argparse
import multiprocessing
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
    """Peak of this process so far; ``getrusage`` would count that of its parent before it was started."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def predict(folder: str, answer: "multiprocessing.Queue[tuple[float, float, float]]") -> None:
    """The command; peak megabytes of the process before, with all libraries loaded, and after, and seconds."""
    from typer.testing import CliRunner

    import psimil.cli.predicted  # noqa: F401
    from psimil.cli.main import app

    before, started = megabytes(), time.perf_counter()
    arguments = [f"{folder}/model.safetensors", f"{folder}/store", "--out", f"{folder}/run", "--json"]
    done = CliRunner().invoke(app, ["predict", *arguments])
    if done.exit_code:
        raise RuntimeError(done.output)
    print(done.stdout.strip(), flush=True)
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
        write(Path(folder) / "store", n)
        answer = spawn.Queue()
        child = spawn.Process(target=predict, args=(folder, answer))
        child.start()
        before, peak, seconds = answer.get()
        child.join()
        rows = sum(1 for _ in (Path(folder) / "run" / "instances.csv").open("rb")) - 1
    print(f"N = {rows}: peak {peak:.0f} MB, {before:.0f} MB of them before, {seconds:.0f} s")
    figures = {f"peak_mb_{n}": peak, f"bytes_per_instance_{n}": 2**20 * peak / n, f"seconds_{n}": seconds}
    last_line(benchmark="predict_stream", before_mb=before, **figures)


if __name__ == "__main__":
    main()
