"""Whether a model sees instances in the context of their bag, where ``context="auto"`` leaves that to the evidence.

The kernel is learned twice, with and without context, on the same bags. Both estimates are of log p(T) of these bags
and so compare; the higher one decides. They stand in the history, where a fit that was interrupted finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psimil.foundations.errors import InputError
from psimil.inference.options import Progress

NONE = "none"  # of rows of the history
Row = dict[str, Any]


def contexts_of(begun: Progress | None = None, *, warm: bool = False) -> tuple[str | None, ...]:
    """The contexts that a fit learns a kernel with, each "bag" or None: two to choose from, or the one chosen before.

    Parameters
    ----------
    begun : what an earlier run of the same fit kept last, which has chosen already.
    warm : whether it starts from another model, whose kernel has a context.

    Examples
    --------
    >>> contexts_of()
    (None, 'bag')
    """
    if warm:
        raise InputError('context="auto" cannot be judged on a warm start. Give context="bag" or None.')
    return (None, "bag") if begun is None else (preferred_context(begun.history),)


def context_evidence(history: Sequence[Row]) -> tuple[float, float] | None:
    """log p(T) of the kernels that were learned with and without context; None where they were not compared.

    Examples
    --------
    >>> row = {"stage": "kernel", "context": "bag", "learned_log_evidence": -31.0}
    >>> context_evidence([row, {**row, "context": "none", "learned_log_evidence": -35.0}])
    (-31.0, -35.0)
    """
    found = {row["context"]: float(row["learned_log_evidence"]) for row in history if "learned_log_evidence" in row}
    return (found["bag"], found[NONE]) if len(found) == 2 else None


def preferred_context(history: Sequence[Row]) -> str | None:
    """The context with the higher evidence; None for none, and where the two are equal or were not compared.

    Examples
    --------
    >>> preferred_context([{"stage": "fit"}])
    """
    evidence = context_evidence(history)
    return "bag" if evidence is not None and evidence[0] > evidence[1] else None
