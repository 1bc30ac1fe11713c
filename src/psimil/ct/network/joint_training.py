"""Joint training, beyond the paper: the CNN is tuned through the bound of the Gaussian process. Needs torch.

Each epoch alternates two ascents of the same bound. With the CNN fixed, a few closed-form passes update q(v); with q(v)
fixed, gradient steps on batches of scans move the CNN through the features' part in K_xz. Inducing points, kernel and
scaling stay; when the epochs are over the Gaussian process is fitted anew on the new features. The bound is that of the
paper, in which labels of slices are independent; links between them come with that last fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.ct.network.attcnn import AttCNN, scan_features
from psimil.ct.network.augmentation import Augmentation, drawn_slices
from psimil.ct.network.torch_workers import OrderedMap, torch_workers
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero, at_least
from psimil.foundations.phases import tell
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import ascend
from psimil.predictive.calibration import LatentBags, bag_log_likelihoods
from psimil.predictive.moments import IDENTITY
from psimil.predictive.torch_gp import TorchGP, bag_bound
from psimil.predictive.trained import TrainedModel

PASSES = 5  # closed-form updates of q(v) per epoch


@dataclass(frozen=True)
class JointEpoch:
    """What one epoch brought.

    Parameters
    ----------
    epoch : 0 for the start, then 1, 2, ...
    bound : of the training scans per scan, before the CNN moved.
    validation : mean log-likelihood of the held-out scans' labels; None when none are held out.
    """

    epoch: int
    bound: float
    validation: float | None


@dataclass(frozen=True, eq=False)
class JointTraining:
    """The CNN with the weights of its best epoch (0: the CNN it started from), and how it got there."""

    model: AttCNN
    history: tuple[JointEpoch, ...]
    best_epoch: int


def train_jointly(
    model: AttCNN,
    gp: TrainedModel,
    images: Sequence[Array],
    y: Any,
    *,
    hold: Sequence[int] = (),
    epochs: int = 10,
    learning_rate: float = 1e-4,
    weight_decay: float = 1e-2,
    batch_scans: int = 8,
    max_slices: int | None = 64,
    augment: bool = True,
    seed: int = 0,
    callback: Callable[[JointEpoch], object] | None = None,
) -> JointTraining:
    """Tune a trained AttCNN so that its features raise the bound of the Gaussian process that was fitted on them.

    Parameters
    ----------
    model : trained network; it is copied.
    gp : VGPMIL model fitted on the features of the same scans, with independent labels.
    images : for each scan its (S, C, H, W) slices, as :func:`psimil.ct.network.cnn_training.train_cnn` takes them.
    y : (B,) labels, 0 or 1.
    hold : numbers of scans that are not learned from; the epoch that suits them best is kept, the start included.
    epochs, learning_rate, weight_decay, batch_scans, max_slices, augment, seed : as of ``train_cnn``.
    callback : called after every epoch.

    Returns
    -------
    trained : JointTraining.
    """
    at_least(1, whole=True, epochs=epochs, batch_scans=batch_scans)
    above_zero(learning_rate=learning_rate)
    if gp.context:
        raise InputError("joint training needs context=None: it tunes the features of single slices.")
    if gp.coupling or gp.sharing:
        raise InputError(
            'joint training needs labels="independent", as its bound does. Tie slices together afterwards.'
        )
    T = np.asarray(y).astype(np.int64)
    if T.shape != (len(images),):
        raise InputError(f"{len(images)} scans but labels of shape {T.shape}.")
    held = np.asarray(hold, dtype=np.int64)
    learn = np.setdiff1d(np.arange(len(T)), held)
    network = deepcopy(model)
    optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=weight_decay, foreach=False)
    augmentation = Augmentation() if augment else None
    history: list[JointEpoch] = []
    best, best_epoch, best_state = -np.inf, 0, deepcopy(network.state_dict())

    def gradients(current: TorchGP, scan: int, epoch: int) -> tuple[Tensor, ...]:
        rng = np.random.default_rng([seed, epoch, scan])
        slices = drawn_slices(images[scan], max_slices, augmentation, rng)
        loss = -bag_bound(*current.moments(network.features(slices)), int(T[scan]))
        return torch.autograd.grad(loss, list(network.backbone.parameters()))

    def climb(current: TorchGP, epoch: int, ordered: OrderedMap) -> None:
        order = np.random.default_rng([seed, epoch]).permutation(learn)
        for first in range(0, len(order), batch_scans):
            tell(f"scans of joint epoch {epoch}", first, len(order))
            batch = order[first : first + batch_scans]
            moves = list(ordered(lambda scan: gradients(current, int(scan), epoch), batch))
            for place, parameter in enumerate(network.backbone.parameters()):
                parameter.grad = torch.stack([one[place] for one in moves]).sum(0) / len(batch)
            optimiser.step()

    with single_threaded_blas(), torch_workers() as ordered:
        for epoch in range(epochs + 1):
            features = list(
                ordered(lambda scan: scan_features(network, images[scan]).double().numpy(), range(len(images)))
            )
            gp, bound = settle(gp, [features[scan] for scan in learn], T[learn])
            score = _likelihood(gp, [features[scan] for scan in held], T[held]) if len(held) else None
            history.append(JointEpoch(epoch, bound / len(learn), score))
            if (value := history[-1].bound if score is None else score) > best:
                best, best_epoch, best_state = value, epoch, deepcopy(network.state_dict())
            if callback is not None:
                callback(history[-1])
            if epoch < epochs:
                climb(TorchGP.of(gp), epoch + 1, ordered)
    network.load_state_dict(best_state)
    return JointTraining(network.eval(), tuple(history), best_epoch)


def settle(gp: TrainedModel, features: Sequence[Array], T: Array) -> tuple[TrainedModel, float]:
    """The model after a few closed-form passes over (S_b, D) features of each scan, and the bound it reached."""
    offsets = np.concatenate([[0], np.cumsum([len(scan) for scan in features])])
    X = gp.scaling.apply(np.concatenate(features))
    shard = Shard(X, Labels(T, offsets), np.ones(len(T)), HyperbolicSecant(), keep=True)
    *_, record = islice(ascend(shard, KernelState(gp.gp, gp.posterior)), PASSES + 1)
    return replace(gp, posterior=record.posterior), record.bound.total


def _likelihood(gp: TrainedModel, features: Sequence[Array], T: Array) -> float:
    offsets = np.concatenate([[0], np.cumsum([len(scan) for scan in features])])
    mean, variance = gp.latent(np.concatenate(features), raw=True)
    return float(
        bag_log_likelihoods(LatentBags(mean, variance, offsets, T, np.ones(len(T))), IDENTITY.parameters)[0].mean()
    )
