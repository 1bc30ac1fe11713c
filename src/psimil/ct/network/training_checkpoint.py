"""Checkpoints of the CNN's training: all that the next epoch needs, in one file that is whole or absent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from psimil.ct.network.weights import check_like, check_state, state_arrays
from psimil.files.tensor_file import Tensors, digest, read_tensors, write_tensors
from psimil.foundations.errors import InputError, ModelFileError

Array = NDArray[Any]
KIND = "AttCNN checkpoint"
_CURE = "Delete it to start over."


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a training after an epoch. Random numbers come from seed and epoch, so none are stored.

    Parameters
    ----------
    weights, best : weights and buffers of the model by name, now and after the best epoch.
    first, second : Adam's moments by the name of the parameter.
    steps : Adam's steps so far.
    history : one table of numbers for each epoch.
    """

    weights: Tensors
    best: Tensors
    first: Tensors
    second: Tensors
    steps: int
    history: tuple[dict[str, float | None], ...]


def save_checkpoint(path: Path, training: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one step; a kill at any moment leaves the one before or this one.

    Parameters
    ----------
    path : file.
    training : digest of data and settings, see :func:`training_digest`.
    checkpoint : what to write.
    """
    groups = {name: getattr(checkpoint, name) for name in ("weights", "best", "first", "second")}
    tensors = {f"{group}/{name}": array for group, content in groups.items() for name, array in content.items()}
    header = {"training": training, "steps": checkpoint.steps, "history": list(checkpoint.history)}
    write_tensors(path, KIND, tensors, header)


def load_checkpoint(path: Path, training: str, model: nn.Module, fields: Sequence[str]) -> Checkpoint | None:
    """The checkpoint of this training, or None when there is none yet.

    Parameters
    ----------
    path : file.
    training : digest of data and settings.
    model : the model that is trained; the weights must fit it.
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
        return _checked(tensors, header, model, fields)
    except InputError as error:
        raise InputError(f"{error} {_CURE}") from None


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
        running.update(digest({"": np.asarray(image)}, "").encode())
    running.update(digest({"y": np.asarray(y, dtype=np.int64)}, "").encode())
    running.update(digest(state_arrays(model), "").encode())
    return running.hexdigest()


def _checked(tensors: Tensors, header: dict[str, Any], model: nn.Module, fields: Sequence[str]) -> Checkpoint:
    groups: dict[str, Tensors] = {"weights": {}, "best": {}, "first": {}, "second": {}}
    for key, array in tensors.items():
        group, _, name = key.partition("/")
        if group not in groups:
            raise ModelFileError(f"{KIND}: unknown tensors.")
        groups[group][name] = array
    for group in ("weights", "best"):
        check_state(model, groups[group], KIND)
    parameters = dict(model.named_parameters())
    for group in ("first", "second"):
        if set(groups[group]) != set(parameters):
            raise ModelFileError(f"{KIND}: Adam's moments are incomplete.")
        for name, parameter in parameters.items():
            check_like(groups[group][name], tuple(parameter.shape), "float32", f"{KIND}: moment of {name}")
    steps, history = header["steps"], header["history"]
    if not isinstance(steps, int) or steps < 1 or not isinstance(history, list) or not history:
        raise ModelFileError(f"{KIND}: the counts are not right.")
    for record in history:
        if not isinstance(record, dict) or set(record) != set(fields) or not all(map(_number, record.values())):
            raise ModelFileError(f"{KIND}: the history is not right.")
    return Checkpoint(**groups, steps=steps, history=tuple(history))


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value))
