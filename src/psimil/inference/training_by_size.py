"""One door to training: in memory, streamed, or in minibatches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.threads import single_threaded_blas
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision
from psimil.inference.progress import Keep, Progress
from psimil.inference.streamed_training import Spread, train_streamed
from psimil.inference.trained import TrainedModel
from psimil.inference.training import Callback, Training, train
from psimil.model.bags import Bags

Array = NDArray[Any]

LARGE = 200_000  # instances above which a chunk size means that nothing of the size of the data is kept


def train_by_size(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    *,
    rng: np.random.Generator,
    evaluation: tuple[Bags, Array] | None = None,
    callbacks: Sequence[Callback] = (),
    previous: TrainedModel | None = None,
    batch_bags: int | None = None,
    spread: Spread | None = None,
    keep: Keep | None = None,
    begun: Progress | None = None,
) -> Training:
    """Fit the model that ``options`` describe; see :func:`psimil.inference.training.train`.

    Parameters
    ----------
    batch_bags : bags of a minibatch; None for passes over all bags.
    spread, keep, begun : see :func:`psimil.inference.streamed_training.train_streamed`, which one of them calls for.
    """
    in_memory = options.chunk_size is None or len(bags.X) <= LARGE
    if batch_bags is None and spread is None and keep is None and in_memory:
        return train(bags, supervision, options, rng=rng, evaluation=evaluation, callbacks=callbacks, previous=previous)
    for given, what in ((supervision.known, "y_instances"), (previous, "warm_start"), (evaluation, "eval_set")):
        if given is not None:
            raise InputError(f"streaming and minibatches do not take {what}.")
    with single_threaded_blas():
        return train_streamed(
            bags,
            supervision,
            options,
            rng=rng,
            callbacks=callbacks,
            batch_bags=batch_bags,
            spread=spread or (lambda parts: parts),
            keep=keep,
            begun=begun,
        )
