"""One training of an AttCNN, epoch by epoch; it can be left after any of them and taken up again. Needs torch.

Every random number comes from the seed, the epoch and the scan, so nothing but weights and Adam's moments is carried
from one epoch to the next. A checkpoint has them in one file that is whole or absent: as ``weights/NAME`` and
``best/NAME``, weights and buffers of the model now and after the best epoch, and as ``first/NAME`` and ``second/NAME``,
Adam's moments of each parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from psimil.ct.network.attcnn import AttCNN, scan_features
from psimil.ct.network.augmentation import Augmentation, drawn_slices
from psimil.ct.network.torch_workers import OrderedMap
from psimil.ct.network.weights import check_tensors, layout, load_state, state_arrays
from psimil.files.sealed import read_tensors, write_tensors
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError, ModelFileError, NumericalFailure
from psimil.foundations.numbers import is_number
from psimil.foundations.phases import tell

KIND = "AttCNN checkpoint"
MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}  # of Adam, in a checkpoint and in torch


@dataclass(frozen=True)
class Epoch:
    """What one pass over the scans brought; the validation figures are None when no scans were held out.

    Parameters
    ----------
    epoch : 1, 2, ...
    loss : mean log-loss of the training scans, as augmented, while the weights moved.
    validation_loss, validation_auc : of the held-out scans, after the epoch.
    """

    epoch: int
    loss: float
    validation_loss: float | None = None
    validation_auc: float | None = None


@dataclass(frozen=True)
class Settings:
    """How a network is trained; see :func:`psimil.ct.network.cnn_training.train_cnn` for the meaning of each."""

    epochs: int
    patience: int
    learning_rate: float
    weight_decay: float
    batch_scans: int
    max_slices: int | None
    seed: int
    augmentation: Augmentation | None


class TrainingRun:
    """A training between two epochs."""

    def __init__(
        self, model: AttCNN, images: Sequence[Array], T: Array, learn: Array, hold: Array, settings: Settings,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.model, self.images, self.T, self.learn, self.hold = model, images, T, learn, hold
        self.settings, self.device = settings, device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=False
        )
        self.history: list[Epoch] = []
        self.best = state_arrays(model)
        self.steps = 0
        self.file: tuple[Path, str] | None = None

    @property
    def best_epoch(self) -> int:
        """The epoch with the lowest log-loss of the held-out scans, or the last where none are held out."""
        losses = [record.validation_loss for record in self.history]
        return len(losses) if not len(self.hold) else 1 + int(np.argmin(np.array(losses, dtype=np.float64)))

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or ``patience`` of them brought nothing better."""
        done = len(self.history)
        return done >= self.settings.epochs or (done > 0 and done - self.best_epoch >= self.settings.patience)

    def best_model(self) -> AttCNN:
        """The model with the weights of its best epoch, ready to predict."""
        load_state(self.model, self.best)
        return self.model.eval()

    def epoch(self, ordered: OrderedMap) -> Epoch:
        """One pass over the scans; its checkpoint is written when it returns."""
        number = len(self.history) + 1
        order = np.random.default_rng([self.settings.seed, number]).permutation(self.learn)
        self.model.train()
        size = self.settings.batch_scans
        losses = []
        for first in range(0, len(order), size):
            tell(f"scans of epoch {number}", first, len(order))
            losses.append(self._step(order[first : first + size], number, ordered))
        loss = float(_finite(np.concatenate(losses), number).mean())
        record = Epoch(number, loss, *self._validate(number, ordered))
        self.history.append(record)
        if self.best_epoch == number:
            self.best = state_arrays(self.model)
        if self.file is not None:
            self._save(*self.file)
        return record

    def _step(self, batch: Array, number: int, ordered: OrderedMap) -> Array:
        """One step of Adam on the mean loss of a batch; its (n,) losses."""
        results = list(ordered(lambda scan: self._gradients(int(scan), number), batch))
        for place, parameter in enumerate(self.parameters):
            parameter.grad = torch.stack([gradients[place] for _, gradients in results]).sum(0) / len(batch)
        total = self.settings.epochs * -(-len(self.learn) // self.settings.batch_scans)
        warm = min(1.0, (self.steps + 1) / max(1, total // 10))
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * warm * 0.5 * (1 + cos(pi * self.steps / total))
        self.optimiser.step()
        self.steps += 1
        return np.array([loss for loss, _ in results])

    def _gradients(self, scan: int, number: int) -> tuple[float, tuple[Tensor, ...]]:
        """Loss of one scan, as changed at random in this epoch, and its gradient."""
        rng = np.random.default_rng([self.settings.seed, number, scan])
        settings = self.settings
        slices = drawn_slices(self.images[scan], settings.max_slices, settings.augmentation, rng, self.device)
        if self.model.architecture["backbone"] == "custom":
            torch.manual_seed(int(rng.integers(2**31)))
        logit = self.model(slices).logit
        loss = binary_cross_entropy_with_logits(logit, torch.full_like(logit, float(self.T[scan])))
        return float(loss.detach()), torch.autograd.grad(loss, self.parameters)

    def _validate(self, number: int, ordered: OrderedMap) -> tuple[float | None, float | None]:
        if not len(self.hold):
            return None, None
        self.model.eval()
        logits = np.array(list(ordered(lambda scan: scan_logit(self.model, self.images[scan]), self.hold)))
        T = self.T[self.hold]
        loss = float(np.logaddexp(0.0, np.where(T == 1, -1, 1) * _finite(logits, number)).mean())
        return loss, float(roc_auc_score(T, logits)) if len(set(T.tolist())) == 2 else None

    def use_checkpoint(self, path: Path, training: str) -> None:
        """Continue from the checkpoint, if there is one, and write one after every epoch.

        Parameters
        ----------
        path : file.
        training : names data, settings and first weights.

        Raises
        ------
        InputError
            When the file is damaged, or belongs to another training.
        """
        self.file = (path, training)
        if path.exists():
            try:
                self._load(path, training)
            except InputError as error:
                raise InputError(f"{error} Delete it to start over.") from None

    def _load(self, path: Path, training: str) -> None:
        """Take weights, moments and history from a checkpoint."""
        tensors, header = read_tensors(path, KIND)
        if set(header) != {"training", "steps", "history"}:
            raise ModelFileError(f"{KIND}: the header's keys are incomplete or unknown.")
        if header["training"] != training:
            raise InputError(f"{KIND} {path.name} belongs to another training: data or settings differ.")
        state, parameters = self.model.state_dict(), dict(self.model.named_parameters())
        expected = layout(state, "weights/") | layout(state, "best/")
        expected |= layout(parameters, "first/") | layout(parameters, "second/")
        check_tensors(tensors, expected, KIND)
        steps, history = header["steps"], header["history"]
        if not isinstance(steps, int) or steps < 1 or not isinstance(history, list) or not history:
            raise ModelFileError(f"{KIND}: the counts are not right.")
        if not all(_is_epoch(record) for record in history):
            raise ModelFileError(f"{KIND}: the history is not right.")
        load_state(self.model, {name: tensors[f"weights/{name}"] for name in state})
        self.best = {name: tensors[f"best/{name}"] for name in state}
        self.history, self.steps = [Epoch(**record) for record in history], steps
        for name, parameter in parameters.items():
            if parameter.requires_grad:
                moments = {key: torch.from_numpy(np.array(tensors[f"{m}/{name}"])) for m, key in MOMENTS.items()}
                self.optimiser.state[parameter] = {"step": torch.tensor(float(steps))} | {
                    key: torch.empty_like(parameter).copy_(moment).detach() for key, moment in moments.items()
                }

    def _save(self, path: Path, training: str) -> None:
        """Write a checkpoint in one step; a kill at any moment leaves the one before or this one."""
        state = self.optimiser.state
        tensors = {f"weights/{name}": array for name, array in state_arrays(self.model).items()}
        tensors |= {f"best/{name}": array for name, array in self.best.items()}
        for name, parameter in self.model.named_parameters():
            for moment, key in MOMENTS.items():
                value = state[parameter][key] if parameter in state else torch.zeros_like(parameter)
                tensors[f"{moment}/{name}"] = np.array(value.detach().cpu().numpy(), order="C")
        history = [asdict(record) for record in self.history]
        write_tensors(path, KIND, tensors, {"training": training, "steps": self.steps, "history": history})


def _is_epoch(record: Any) -> bool:
    """Whether a record has the finite numbers of an epoch, or None in their place."""
    if not isinstance(record, dict) or set(record) != {field.name for field in fields(Epoch)}:
        return False
    return all(value is None or (is_number(value) and isfinite(value)) for value in record.values())


def _finite(values: Array, epoch: int) -> Array:
    if not np.isfinite(values).all():
        raise NumericalFailure(f"the CNN's loss is not finite in epoch {epoch}. Lower learning_rate.")
    return values


def scan_logit(model: AttCNN, images: Array) -> float:
    """Log-odds of one scan from its (S, C, H, W) slices."""
    features = scan_features(model, images)
    with torch.inference_mode():
        return float(model.pool(features).logit[0])
