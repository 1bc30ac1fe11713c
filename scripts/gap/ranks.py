"""Whether the oracle itself is right: ranks of simulated truths among its draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gap.simulated import PROBLEMS, Simulation, layout
from oracle import mixed_sweep, model_of, simulated_ranks
from psimil.inference.shards import Shard
from psimil.model.sparse_gp import SparseGP

AGAIN = 5  # times the data sets, when ranks leave their band


@dataclass(frozen=True)
class RankSettings:
    """Data sets of a problem, draws that a truth is ranked among, and sweeps from one to the next."""

    repeats: int = 1000
    draws: int = 19
    thin: int = 5


def rank_rows(settings: Simulation, ranks: RankSettings) -> list[dict[str, Any]]:
    """Ranks of every problem; where one leaves its band, all of it are drawn again from more data sets."""
    rows = []
    for number, (name, problem) in enumerate(PROBLEMS.items()):
        shard, gp, _, _ = layout(settings, 0, problem)
        for again, repeats in enumerate((ranks.repeats, AGAIN * ranks.repeats)):
            rng = np.random.default_rng([settings.seed, number, again])
            found = ranks_of(name, shard, gp, rng, RankSettings(repeats, ranks.draws, ranks.thin))
            rows += found
            if all(row["distance"] <= row["band"] for row in found):
                break
    return rows


def ranks_of(
    name: str, shard: Shard, gp: SparseGP, rng: np.random.Generator, settings: RankSettings
) -> list[dict[str, Any]]:
    """Uniformity of the ranks of a problem, statistic by statistic."""
    found = simulated_ranks(
        model_of(shard, gp), rng, repeats=settings.repeats, draws=settings.draws, thin=settings.thin, step=mixed_sweep
    )
    p_values, distances = found.p_values(), found.ecdf_distances()
    return [{"problem": name, "data_sets": found.repeats, "statistic": key, "p_value": p_values[key],
             "distance": distances[key], "band": found.ecdf_band()} for key in p_values]  # fmt: skip
