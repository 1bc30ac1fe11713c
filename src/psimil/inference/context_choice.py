"""Whether a model sees instances in the context of their bag, where ``context="auto"`` leaves that to the evidence.

A kernel is learned without context and one with it, on the same bags and with as many inducing points. Both estimates
are of log p(T) of these bags and so compare; context is taken where its own is clearly the higher one. The points are
placed without a look at the labels: others have seen already what log p(T) asks for. The rows of the history tell what
was found, also to a fit that goes on after an interruption.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from psimil.foundations.errors import DataWarning
from psimil.foundations.phases import JUDGING
from psimil.inference.history import Row
from psimil.inference.kernel_learning import learn_kernel
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision, prepare_in_memory, representative_bags
from psimil.model.bags import Bags
from psimil.model.context import in_context
from psimil.model.densities import HyperbolicSecant
from psimil.model.inducing import inducing_for

STAGE = "context"  # of rows of the history
NONE, BAG = "none", "bag"
POSITIVE = 1.0  # nats by which context must be better: positive evidence (Kass and Raftery 1995)
POINTS = 200  # inducing points, at most


def judge_context(
    bags: Bags, supervision: Supervision, options: Options, seed: int, heard: Callable[..., bool]
) -> None:
    """Learn a kernel without context and one with it, on some of the bags.

    Parameters
    ----------
    bags : without their context.
    heard : called with every evaluation and its context, and ends a search by a true answer; at last with the kernel
        that was found and its log p(T).
    """
    chosen = representative_bags(supervision.T, bags.sizes, np.random.default_rng(seed))
    some, told = bags[chosen], supervision.of(chosen, bags.offsets)
    points = inducing_for(some.n_instances, some.n_features) if options.n_inducing == "auto" else options.n_inducing
    how = replace(
        options, density=HyperbolicSecant(), inducing="kmeans", n_inducing=min(int(points), POINTS), chunk_size=None
    )
    for context in (NONE, BAG):
        own = replace(how, context=None if context == NONE else BAG)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the fit itself will warn
            prepared = prepare_in_memory(
                in_context(some) if own.context else some, told, own, np.random.default_rng(seed)
            )
        shard = prepared.shards.in_memory
        assert shard is not None  # some bags are
        found = learn_kernel(shard, prepared.gp, seed, partial(heard, context=context), phase=JUDGING[context])
        heard(found, context=context, learned_log_evidence=found.log_evidence)


def context_evidence(history: Sequence[Row]) -> tuple[float, float] | None:
    """log p(T) of the kernels that were learned with and without context; None where they were not compared.

    Examples
    --------
    >>> row = {"stage": "context", "context": "bag", "learned_log_evidence": -31.0}
    >>> context_evidence([row, {**row, "context": "none", "learned_log_evidence": -35.0}])
    (-31.0, -35.0)
    """
    found = {row["context"]: float(row["learned_log_evidence"]) for row in history if "learned_log_evidence" in row}
    return (found[BAG], found[NONE]) if len(found) == 2 else None


def preferred_context(history: Sequence[Row]) -> str | None:
    """The context "bag" where its evidence is positive; None otherwise, and where the two were not compared.

    Examples
    --------
    >>> preferred_context([{"stage": "fit"}])
    """
    evidence = context_evidence(history)
    return BAG if evidence is not None and evidence[0] > evidence[1] + POSITIVE else None
