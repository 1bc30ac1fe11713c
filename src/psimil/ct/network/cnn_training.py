"""Training of an AttCNN from scan labels: Adam on batches of scans, stopped by the log-loss of held-out scans.

On a CPU every scan of a batch is worked out by one thread, with as many threads at a time as torch may use, and the
gradients are added in the order of the batch. So the result does not depend on the number of threads, and small
convolutions need not be split between cores. A backbone of the caller's own may draw random numbers and keep running
means, so its scans are worked out one after another, and the result holds for one number of threads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from psimil.ct.network.attcnn import AttCNN
from psimil.ct.network.augmentation import Augmentation, drawn_slices
from psimil.ct.network.backbone import CHANNELS, SliceCNN
from psimil.ct.network.torch_workers import read_device, torch_workers
from psimil.ct.network.training_run import Epoch, Settings, TrainingRun
from psimil.ct.network.weights import state_arrays
from psimil.files.paths import as_path
from psimil.files.sealed import checksum
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero, at_least
from psimil.paper.baselines.attention import hold_out

SAMPLE = 256  # slices on which activations are measured before training


@dataclass(frozen=True, eq=False)
class TrainedCNN:
    """A trained network with the weights of its best epoch, how it got there, and the numbers of held-out scans."""

    model: AttCNN
    history: tuple[Epoch, ...]
    best_epoch: int
    held_out: tuple[int, ...]


def train_cnn(
    images: Sequence[Array],
    y: Any,
    *,
    n_features: int = 8,
    attention_width: int = 64,
    channels: Sequence[int] = CHANNELS,
    epochs: int = 40,
    patience: int = 12,
    learning_rate: float = 5e-4,
    weight_decay: float = 1e-2,
    batch_scans: int = 8,
    max_slices: int | None = 64,
    validation: float | Sequence[int] = 0.2,
    augment: bool | Augmentation = True,
    seed: int = 0,
    device: str = "cpu",
    checkpoint: str | Path | None = None,
    backbone: nn.Module | None = None,
    callback: Callable[[Epoch], object] | None = None,
) -> TrainedCNN:
    """Train an AttCNN from one label per scan.

    The same arguments give the same weights, bit for bit, on one kind of processor, also when the training was killed
    and started again with the same checkpoint. Torch's random state, flags and number of threads are left as they were.

    Parameters
    ----------
    images : for each scan its (S, C, H, W) slices, floats in [0, 1] or uint8 in 0..255, which saves memory.
    y : (B,) labels, 0 or 1.
    n_features : D.
    attention_width : width of the attention layer.
    channels : width of each block of the network.
    epochs : passes over the scans, at most; the learning rate falls to 0 along a cosine over them.
    patience : epochs without a lower log-loss of the held-out scans before training stops.
    learning_rate, weight_decay : of Adam with decoupled decay.
    batch_scans : scans per step.
    max_slices : slices of a scan that an epoch uses, at most, spread evenly; None for all.
    validation : share of the scans held out, by label, or their numbers; 0 or none trains all epochs on all scans.
    augment : whether, or how, scans are changed at random.
    seed : decides the split, the first weights, the order of scans and how each is changed.
    device : "cpu", "cuda", ...
    checkpoint : file that is written after every epoch and, when it is there, continued from.
    backbone : a module to start from in place of SliceCNN; it is copied.
    callback : called after every epoch, when its checkpoint is written.

    Returns
    -------
    trained : TrainedCNN.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> images = [rng.random((3, 3, 8, 8)) for _ in range(6)]
    >>> trained = train_cnn(images, [0, 1] * 3, epochs=2, channels=(8,), validation=[0, 1])
    >>> [record.epoch for record in trained.history], trained.model.n_features
    ([1, 2], 8)
    """
    at_least(1, whole=True, n_features=n_features, attention_width=attention_width, epochs=epochs)
    at_least(1, whole=True, patience=patience, batch_scans=batch_scans)
    at_least(1, whole=True, max_slices=1 if max_slices is None else max_slices)
    at_least(0, weight_decay=weight_decay)
    at_least(0, whole=True, seed=seed)
    above_zero(learning_rate=learning_rate)
    T = _labels(images, y)
    augmentation = augment if isinstance(augment, Augmentation) else Augmentation() if augment else None
    settings = Settings(epochs, patience, learning_rate, weight_decay, batch_scans, max_slices, int(seed), augmentation)
    place = read_device(device)
    learn, hold = _split(T, validation, settings.seed)
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = AttCNN(n_features, deepcopy(backbone), attention_width, channels, images[0].shape[1]).to(place)
        with torch_workers(1 if backbone is not None or place.type != "cpu" else None) as ordered:
            if isinstance(model.backbone, SliceCNN):
                model.backbone.measure(_sample(images, learn, settings).to(place))
            run = TrainingRun(model, images, T, learn, hold, settings, place)
            if checkpoint is not None:
                facts = {**asdict(settings), **model.architecture, "hold": hold.tolist(), "device": place.type}
                run.use_checkpoint(as_path(checkpoint, "checkpoint"), _digest(images, T, facts, model))
            while not run.finished:
                record = run.epoch(ordered)
                if callback is not None:
                    callback(record)
    return TrainedCNN(run.best_model(), tuple(run.history), run.best_epoch, tuple(hold.tolist()))


def _labels(images: Sequence[Array], y: Any) -> Array:
    """(B,) labels 0 and 1, both there, and slices that one network can take."""
    T = np.asarray(y)
    if T.shape != (len(images),):
        raise InputError(f"{len(images)} scans but labels of shape {T.shape}.")
    if not len(T) or T.dtype.kind not in "biuf" or not np.isin(T, (0, 1)).all():
        raise InputError("scan labels must be 0 or 1.")
    T = T.astype(np.int64)
    if len(set(T.tolist())) < 2:
        raise InputError(f"all scans have the label {T[0]}. Training needs scans of both labels.")
    first = np.shape(images[0])
    for number, image in enumerate(images):
        if np.ndim(image) != 4 or not len(image) or np.shape(image)[1:] != first[1:]:
            raise InputError(
                f"scan {number} has slices of shape {np.shape(image)}, expected (slices, windows, rows, columns) as "
                f"scan 0 has, {first}."
            )
        if image.dtype != np.uint8 and not (image.dtype.kind == "f" and np.isfinite(image).all()):
            raise InputError(f"scan {number}: slices must be finite floats or uint8, got {image.dtype}.")
    return T


def _digest(images: Sequence[Array], T: Array, facts: dict[str, Any], model: nn.Module) -> str:
    """Names a training: the same only for the same slices, labels, settings and first weights."""
    running = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for image in images:
        running.update(checksum({"": np.asarray(image)}, "0:").encode())
    running.update(checksum({"y": T}, "0:").encode())
    running.update(checksum(state_arrays(model), "0:").encode())
    return running.hexdigest()


def _sample(images: Sequence[Array], learn: Array, settings: Settings) -> Tensor:
    """About SAMPLE slices, a few of every scan to learn from, changed at random as in training."""
    few, each = list[Tensor](), max(1, SAMPLE // len(learn))
    for scan in learn[:SAMPLE]:
        rng = np.random.default_rng([settings.seed, 0, int(scan)])
        few.append(drawn_slices(images[scan], each, settings.augmentation, rng))
    return torch.cat(few)


def _split(T: Array, validation: float | Sequence[int], seed: int) -> tuple[Array, Array]:
    """Numbers of the scans to learn from and of those held out."""
    if isinstance(validation, (int, float)):
        if not 0 <= validation < 1:
            raise InputError(f"validation must be a share in [0, 1) or numbers of scans, got {validation}.")
        return hold_out(T, float(validation), np.random.default_rng(seed))
    hold = np.unique(np.asarray(validation, dtype=np.int64))
    if len(hold) and (hold[0] < 0 or hold[-1] >= len(T)):
        raise InputError(f"validation names scan {hold[0] if hold[0] < 0 else hold[-1]}, but there are {len(T)} scans.")
    learn = np.setdiff1d(np.arange(len(T)), hold)
    if len(set(T[learn].tolist())) < 2:
        raise InputError("the scans that are not held out have one label only. Hold out fewer.")
    return learn, hold
