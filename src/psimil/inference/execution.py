"""How a fit is computed, apart from what it computes: in memory, in minibatches, on a cluster, and from where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psimil.inference.records import Record
from psimil.inference.shards import Shards, StreamedShards


@dataclass(frozen=True, eq=False)
class Progress:
    """All that a fit over shards needs to go on as if it had never been interrupted.

    Parameters
    ----------
    stage : "fit" or "batches".
    record : the last complete pass.
    history : one row per pass so far, of all stages.
    converged, stopped : whether the bound has settled, and whether the stage ends with this pass.
    rng : state of the generator.
    """

    stage: str
    record: Record
    history: list[dict[str, Any]]
    converged: bool
    stopped: bool
    rng: dict[str, Any]


@dataclass(frozen=True)
class Execution:
    """How a fit is computed.

    Parameters
    ----------
    batch_bags : bags of a minibatch; None for passes over all bags.
    spread : who works out the shards, such as a cluster; None for this process.
    keep : called after every complete pass, to write a checkpoint.
    begun : what an earlier run of the same fit kept last; this one goes on from there and ends with the same bits, on
        the same kind of machine.
    """

    batch_bags: int | None = None
    spread: Callable[[StreamedShards], Shards] | None = None
    keep: Callable[[Progress], None] | None = None
    begun: Progress | None = None
