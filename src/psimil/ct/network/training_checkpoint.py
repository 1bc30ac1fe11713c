"""Checkpoints of the CNN's training: all that the next epoch needs, in one file that is whole or absent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from psimil.ct.network.weights import Layout, check_tensors, state_arrays
from psimil.files.sealed import Tensors, checksum, read_tensors, write_tensors
from psimil.foundations.errors import InputError, ModelFileError
from psimil.foundations.numbers import is_number

Array = NDArray[Any]
KIND = "AttCNN checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a training after an epoch. Random numbers come from seed and epoch, so none are stored.

    Parameters
    ----------
    tensors : ``weights/NAME`` and ``best/NAME``, weights and buffers of the model now and after the best epoch;
        ``first/NAME`` and ``second/NAME``, Adam's moments of each parameter.
    steps : Adam's steps so far.
    history : one table of numbers for each epoch.
    """

    tensors: Tensors
    steps: int
    history: list[dict[str, Any]]


def save_checkpoint(path: Path, training: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one step; a kill at any moment leaves the one before or this one.

    Parameters
    ----------
    path : file.
    training : digest of data and settings, see :func:`training_digest`.
    checkpoint : what to write.
    """
    header = {"training": training, "steps": checkpoint.steps, "history": checkpoint.history}
    write_tensors(path, KIND, checkpoint.tensors, header)


def load_checkpoint(path: Path, training: str, expected: Layout, fields: Sequence[str]) -> Checkpoint | None:
    """The checkpoint of this training, or None when there is none yet.

    Parameters
    ----------
    path : file.
    training : digest of data and settings.
    expected : shape and dtype of its tensors.
    fields : names of the numbers of an epoch.

    Raises
    ------
    InputError
        When the file is damaged, or belongs to another training.
    """
    if not path.exists():
        return None
    try:
        tensors, header = read_tensors(path, KIND)
        if set(header) != {"training", "steps", "history"}:
            raise ModelFileError(f"{KIND}: the header's keys are incomplete or unknown.")
        if header["training"] != training:
            raise InputError(f"{KIND} {path.name} belongs to another training: data or settings differ.")
        check_tensors(tensors, expected, KIND)
        steps, history = header["steps"], header["history"]
        if not isinstance(steps, int) or steps < 1 or not isinstance(history, list) or not history:
            raise ModelFileError(f"{KIND}: the counts are not right.")
        if not all(_is_epoch(record, fields) for record in history):
            raise ModelFileError(f"{KIND}: the history is not right.")
    except InputError as error:
        raise InputError(f"{error} Delete it to start over.") from None
    return Checkpoint(tensors, steps, history)


def training_digest(images: Sequence[Array], y: Array, settings: dict[str, Any], model: nn.Module) -> str:
    """Names a training: the same only for the same slices, labels, settings and first weights.

    Parameters
    ----------
    images : (S, C, H, W) slices of each scan.
    y : (B,) labels.
    settings : numbers and texts.
    model : before the first epoch.

    Examples
    --------
    >>> images, model = [np.zeros((1, 3, 8, 8))], nn.Linear(1, 1)
    >>> one, other = (training_digest(images, np.array([label]), {}, model) for label in (0, 1))
    >>> one == other
    False
    """
    running = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for image in images:
        running.update(checksum({"": np.asarray(image)}, "0:").encode())
    running.update(checksum({"y": np.asarray(y, dtype=np.int64)}, "0:").encode())
    running.update(checksum(state_arrays(model), "0:").encode())
    return running.hexdigest()


def _is_epoch(record: Any, fields: Sequence[str]) -> bool:
    if not isinstance(record, dict) or set(record) != set(fields):
        return False
    return all(value is None or (is_number(value) and isfinite(value)) for value in record.values())
