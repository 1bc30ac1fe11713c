"""How strongly the labels of neighbours are linked: J by log p(T), as the kernel is.

Labels of bags say little about J: a smoother function and a stronger link explain them alike. So J has a prior of some
weight, under which neighbours agree e times as often as they would by chance, give or take a factor of two, and the
kernel is learned at its centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.evidence import noise_of, settled
from psimil.inference.shards import Shard
from psimil.inference.variational import Iterate, mode
from psimil.model.sparse_gp import Posterior, SparseGP

Array = NDArray[Any]

CENTRE, DEVIATION = 1.0, 0.5  # of the normal prior of J, cut off at 0
STEP, MOST = 0.5, 6.0
POINTS = 200  # inducing points, at most
SETTLING = 12  # steps of q(v) for every J, at most


def learn_coupling(shard: Shard, gp: SparseGP, start: Posterior | None, seed: int) -> tuple[Iterate, float]:
    """J >= 0 and an iterate with it, for a kernel that stays.

    Parameters
    ----------
    shard : the bags, with links of strength 1.
    start : q(v) to start from, such as that without links; None for the mode.
    """
    if len(gp.Z) > POINTS:
        gp = gp.rebuilt(gp.kernel, gp.Z[:: -(-len(gp.Z) // POINTS)])
        start = None
    noise, centre = noise_of(gp, seed), coupled(shard, CENTRE)
    start = mode(centre, gp) if start is None else start
    found = {CENTRE: settled(centre, gp, start, noise, SETTLING)}

    def score(J: float) -> float:
        return found[J].log_evidence - 0.5 * ((J - CENTRE) / DEVIATION) ** 2

    def tried(J: float) -> float:
        if J not in found:
            last = found[min(found, key=lambda other: abs(other - J))]
            found[J] = settled(coupled(shard, J), gp, last.posterior, noise, SETTLING)
        return score(J)

    J = CENTRE
    while True:
        sides = [other for other in (J - STEP, J + STEP) if 0.0 <= other <= MOST]
        best = max(sides, key=tried)
        if score(best) <= score(J):
            break
        J = best
    if len(sides) == 2:
        curve = np.polyfit([sides[0], J, sides[1]], [score(sides[0]), score(J), score(sides[1])], 2)
        tried(top := float(-0.5 * curve[1] / curve[0]) if curve[0] < 0 else J)
        J = max(J, top, key=score)
    return found[J], J


def coupled(shard: Shard, J: float) -> Shard:
    """The same bags with links J times as strong."""
    return shard.labelled(shard.labels.coupled(J))


def learned_coupling(history: Sequence[Mapping[str, Any]]) -> float:
    """J that a history tells of; 0 where none was learned.

    Examples
    --------
    >>> learned_coupling([{"stage": "kernel", "coupling": 0.5}])
    0.5
    """
    return float(next((row["coupling"] for row in history if "coupling" in row), 0.0))
