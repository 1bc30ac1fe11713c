"""The bound against the data seen, for passes over all data and for minibatches, fixed kernel and learned kernel.

Two kinds of bags: witnesses shifted along a hidden direction, and witnesses from a few of many clusters. What counts is
the share of the rise of the bound that full passes bring from the first q(v) until they settle; the bound of every q(v)
is that of a full pass under it. Data seen are instances that were worked out, in passes, those of kernel steps twice
per evaluation. Writes docs/images/minibatches.png with its table beside it.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from timing import last_line

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.datasets import make_bags
from psimil.figures import new_figure, save_figure
from psimil.figures.canvas import COLOURS
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision, sampled_sparse_gp
from psimil.inference.shards import StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import PassTask, ascend, pass_over
from psimil.paper.augmented import Augmented

D, M, KINDS = 32, 200, 24
MOMENTS = (0.25, 0.5, 1.0, 1.5, 2.0)  # passes' worth of data after which the bound of minibatches is looked at
SETTLED = 1e-4  # nats per bag
OPTIONS = Options(HyperbolicSecant(), n_inducing=M, posterior="augmented", hyperparameters=None)
Snapshot = tuple[float, KernelState]  # passes' worth of data seen, and the state they led to
FIGURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "minibatches.png"


def direction(n: int) -> tuple[Bags, Any]:
    """Bags of 5 to 15 instances; witnesses are shifted along one direction."""
    return make_bags(n // 10, (5, 15), D, separation=3.0)[:2]


def clusters(n: int) -> tuple[Bags, Any]:
    """Bags of 5 to 35 instances from 24 clusters, the first three of which only witnesses come from."""
    rng = np.random.default_rng(0)
    sizes, y = rng.integers(5, 36, n // 20), rng.integers(0, 2, n // 20)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    witness = rng.random(offsets[-1]) < 0.1
    witness[offsets[:-1] + rng.integers(sizes)] = True
    witness &= np.repeat(y == 1, sizes)
    kind = np.where(witness, rng.integers(0, 3, offsets[-1]), rng.integers(3, KINDS, offsets[-1]))
    X = rng.standard_normal((KINDS, D))[kind]
    return Bags(X + rng.standard_normal(X.shape), offsets), y


DATA = {"direction": direction, "clusters": clusters}


class Watched:
    """Shards that count the instances worked out, and keep the q(v) of steps at the moments that are asked for."""

    in_memory = None

    def __init__(self, shards: StreamedShards, moments: Iterable[float] = ()) -> None:
        self.shards, self.moments = shards, list(moments)
        self.labels, self.weights, self.density = shards.labels, shards.weights, shards.density
        self.ranges, self.rows, self.kept = shards.ranges, 0, list[Snapshot]()

    @property
    def passes(self) -> float:
        """Data worked out so far."""
        return self.rows / int(self.labels.offsets[-1])

    def map(self, task: Any, ranges: Iterable[BagRange] | None = None) -> Iterator[Any]:
        """As the shards do it."""
        todo = list(self.ranges if ranges is None else ranges)
        while self.moments and isinstance(task, PassTask) and self.passes >= self.moments[0] - 1e-9:
            self.moments.pop(0)
            self.kept.append((self.passes, KernelState(task.gp, task.posterior)))
        self.rows += sum(bags.stop - bags.start for bags in todo)
        return self.shards.map(task, todo)


def bound_of(shards: StreamedShards, state: KernelState) -> float:
    """Nats per bag, by a full pass."""
    return pass_over(shards, state.gp, state.posterior).bound.total / len(shards.weights)


def full_passes(data: StreamedShards, state: KernelState) -> list[tuple[float, float]]:
    """Data seen before each pass, and the bound, until passes settle."""
    shards, found = Watched(data), list[tuple[float, float]]()
    for last in ascend(shards, state):
        found.append((shards.passes - 1.0, last.bound.total / len(shards.weights)))
        if len(found) > 1 and not last.unfinished and found[-1][1] - found[-2][1] < SETTLED:
            return found
    raise RuntimeError("ascend ended")


def minibatches(data: StreamedShards, state: KernelState) -> list[Snapshot]:
    """q(v) at the moments, and after every instance was seen once and twice by steps of q(v)."""
    shards, found = Watched(data, MOMENTS), list[Snapshot]()
    for last in Augmented(OPTIONS, 0).batches(shards, state, np.random.default_rng(0)):
        found.append((shards.passes, KernelState(last.gp, last.posterior)))
        if last.step == 2:
            return sorted(shards.kept + found, key=lambda snapshot: snapshot[0])
    raise RuntimeError("batches ended")


def compare(name: str, n: int, batches: list[int]) -> pd.DataFrame:
    """One row per moment: data, method, passes of data seen, bound in nats per bag, share of the rise."""
    bags, y = DATA[name](n)
    scaling, supervision = Scaling.fit(bags.X), Supervision(y, np.ones(len(bags)))
    gp = sampled_sparse_gp(bags, scaling, supervision, OPTIONS, np.random.default_rng(0))
    first = KernelState.first(gp)
    labels = Labels(y, bags.offsets)
    shards = StreamedShards(bags.stream, labels, supervision.weights, scaling, HyperbolicSecant())
    curves = {"full passes": full_passes(shards, first)}
    for size in batches:
        batched = replace(shards, rows=max(1, round(size * len(bags.X) / len(bags))))
        curves[f"{size} bags"] = [(seen, bound_of(shards, s)) for seen, s in minibatches(batched, first)]
    low, high = curves["full passes"][0][1], curves["full passes"][-1][1]
    rows = [(name, how, s, b, (b - low) / (high - low)) for how, curve in curves.items() for s, b in curve]
    return pd.DataFrame(rows, columns=["data", "method", "passes", "bound", "share"])


def draw(table: pd.DataFrame, path: Path) -> None:
    """What is missing of the rise against data seen, both on logarithmic axes."""
    ax = new_figure(8.0, 5.0)
    for place, (data, group) in enumerate(table.groupby("data", sort=False)):
        inside = group[(group["passes"] > 0) & (group["share"] < 1)]
        for style, (how, curve) in zip(("--", "-", ":"), inside.groupby("method", sort=False), strict=False):
            label = f"{data}, {how}"
            ax.plot(curve["passes"], 1 - curve["share"], style, marker=".", color=COLOURS[place], label=label)
    ax.axhline(0.01, color="grey", linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="data seen, in passes", ylabel="missing share of the rise of the bound")
    ax.set_title("Full passes and minibatches")
    ax.legend(frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(ax, path, table)


def main() -> None:
    """Print the shares; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--batches", nargs="+", type=int, default=[500], help="bags of a minibatch")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    tables = []
    with single_threaded_blas():
        for name in arguments.data:
            tables.append(compare(name, arguments.n, arguments.batches))
            print(tables[-1].to_string(float_format="%.4f"), flush=True)
    table = pd.concat(tables, ignore_index=True)
    draw(table, arguments.figure)
    figures: dict[str, float] = {}
    for (data, how), curve in table[table["method"] != "full passes"].groupby(["data", "method"]):
        for most in (1.0, 2.0):
            seen = curve[curve["passes"] <= most + 0.01]
            if len(seen):
                figures[f"{data}, {how}, {most:g}"] = float(seen["share"].iloc[-1])
    last_line(benchmark="minibatch", n=arguments.n, **figures)


if __name__ == "__main__":
    main()
