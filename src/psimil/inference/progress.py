"""Where a fit over parts stands after a complete pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psimil.inference.fitting import Pass


@dataclass(frozen=True, eq=False)
class Progress:
    """All that a fit needs to go on as if it had never been interrupted.

    Parameters
    ----------
    stage : "kernel", "fit" or "batches".
    record : the last complete pass.
    history : one row per pass so far, of all stages.
    converged, stopped : whether the bound has settled, and whether the stage ends with this pass.
    rng : state of the generator.
    """

    stage: str
    record: Pass
    history: list[dict[str, Any]]
    converged: bool
    stopped: bool
    rng: dict[str, Any]


Keep = Callable[[Progress], None]
