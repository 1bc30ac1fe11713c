"""What an estimator's parameters and evaluation set come to, checked once before a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.estimators.inputs import features_of, read_bags, read_labels
from psimil.estimators.voice import say_pass
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.inference.options import Execution, Options
from psimil.inference.preparation import Supervision
from psimil.inference.training import Callback
from psimil.model.bags import Bags
from psimil.model.labels import Classes

Array = NDArray[Any]


def callbacks_of(callbacks: Sequence[Callback] | None, verbose: int) -> tuple[Callback, ...]:
    """The caller's callbacks, and one that says the passes when ``verbose`` asks for it.

    Examples
    --------
    >>> callbacks_of(None, 0), len(callbacks_of([print], 1))
    ((), 2)
    """
    if callable(callbacks) or not hasattr(callbacks or (), "__iter__"):
        raise InputError(f"callbacks must be a list of functions, got {type(callbacks).__name__}.")
    given = tuple(callbacks or ())
    for number, callback in enumerate(given):
        if not callable(callback):
            raise InputError(f"callback {number} cannot be called, got {callback!r}. Give functions of one dict.")
    return (*given, say_pass) if verbose else given


def evaluation_of(
    eval_set: tuple[Any, Any] | None, training: Bags, classes: Classes, early_stopping: str | None
) -> tuple[Bags, Array] | None:
    """Bags and labels that early stopping watches, checked against the training bags."""
    if eval_set is None:
        if early_stopping in ("auc", "log_loss"):
            raise InputError(f'early_stopping "{early_stopping}" needs eval_set=(bags, y).')
        return None
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
        raise InputError("eval_set must be a pair (bags, y).")
    bags = read_bags(eval_set[0], what="evaluation set")
    if bags.n_features != training.n_features:
        raise InputError(f"eval_set has {bags.n_features} features, expected {training.n_features}.")
    bags = features_of(bags, training.n_features, training.feature_names)
    _, T = read_labels(eval_set[1], bags, classes=classes)
    if early_stopping == "auc" and T.min() == T.max():
        raise InputError('early_stopping "auc" needs evaluation bags of both labels.')
    return bags, T


def execution_of(
    client: Any,
    checkpoint: Any,
    bags: Bags,
    supervision: Supervision,
    options: Options,
    rng: np.random.Generator,
    batch_bags: int | None,
) -> Execution:
    """Who works out the shards of a fit, where its progress is kept, and from where it goes on."""
    if batch_bags is not None:
        at_least(1, whole=True, batch_bags=batch_bags)
    execution = Execution(batch_bags)
    if client is not None:
        if options.device is not None:
            raise InputError("device and client exclude each other: workers of a cluster compute with NumPy.")
        from psimil.cluster.dask_shards import DaskShards

        execution = replace(execution, spread=lambda shards: DaskShards(shards, client, bags))
    if checkpoint is not None:
        from psimil.cluster.checkpoint import Checkpoint

        kept = Checkpoint.of_fit(checkpoint, bags, supervision, options, rng, batch_bags)
        execution = replace(execution, keep=kept.write, begun=kept.read())
    return execution
