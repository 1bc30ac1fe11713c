"""AttentionMIL, the gated attention network: Adam on mini-batches of bags, stopped by the log-loss of held-out bags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero, at_least
from psimil.model.bags import Bags
from psimil.paper.baselines.classifier import BagClassifier
from psimil.paper.baselines.network import GatedAttention, Smoothing, as_tensors, require_torch


@dataclass(eq=False, repr=False)
class AttentionMIL(BagClassifier):
    """Gated attention of Ilse, Tomczak and Welling (2018), small, in float32 on the CPU. Needs torch.

    Parameters
    ----------
    hidden : int
        Width of the instance layer.
    attention : int
        Width of the gate that weighs instances.
    epochs : int
        Passes over the bags, at most.
    learning_rate, weight_decay : float
        Of Adam; the decay is a penalty on squared weights.
    dropout : float
        Share of the instance layer that is dropped while training.
    batch_size : int
        Bags per step.
    patience : int
        Epochs without a lower log-loss of the held-out bags before training stops.
    validation : float
        Share of the bags held out, by label, to stop training and to keep the best weights; 0 trains all epochs on all
        bags, as does a single bag of a label.
    restarts : int
        Networks trained from different starts; the one with the lowest held-out log-loss is kept.
    smoothing : Smoothing or None
        Smooth attention pooling (SmAP) of Castro-Macias et al. (2024): neighbours in the order of
        :meth:`psimil.Bags.in_order`, or else of rows, are attended to alike. None takes instances in any order.
    random_state : int, Generator or None
        Decides the split, the start, the order of bags and what is dropped; torch's own state is not touched.

    Attributes
    ----------
    validation_losses_ : list of float, log-loss of the held-out bags after each epoch.

    Examples
    --------
    >>> AttentionMIL(hidden=32, epochs=50).hidden
    32
    >>> AttentionMIL(smoothing=Smoothing("scores", alpha=0.8)).smoothing
    Smoothing(of='scores', alpha=0.8, steps=10)
    """

    hidden: int = 64
    attention: int = 32
    epochs: int = 200
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    dropout: float = 0.25
    batch_size: int = 32
    patience: int = 30
    validation: float = 0.2
    restarts: int = 1
    smoothing: Smoothing | None = None
    random_state: Any = None

    def attention_weights(self, bags: Any, *, bag_ids: Any = None) -> list[Array]:
        """Per bag the attention (n_i,) of its instances, with sum 1; it ranks instances, it is no probability."""
        scaled = self._bags(bags, bag_ids)
        if not isinstance(self.model_, GatedAttention):
            raise InputError("no attention was learned: the training bags all had the same label.")
        return scaled.split(self.model_.evaluate(scaled)[1])

    def _check_parameters(self) -> None:
        require_torch()
        at_least(1, whole=True, hidden=self.hidden, attention=self.attention, epochs=self.epochs)
        at_least(1, whole=True, batch_size=self.batch_size, patience=self.patience, restarts=self.restarts)
        at_least(0, weight_decay=self.weight_decay, dropout=self.dropout, validation=self.validation)
        above_zero(learning_rate=self.learning_rate)
        for name in ("dropout", "validation"):
            if getattr(self, name) >= 1:
                raise InputError(f"{name} must be a share below 1, got {getattr(self, name)}.")
        if not isinstance(self.smoothing, Smoothing | None):
            raise InputError(f"smoothing must be a Smoothing such as Smoothing() or None, got {self.smoothing!r}.")

    def _train(self, bags: Bags, T: Array, rng: np.random.Generator) -> GatedAttention:
        network, self.validation_losses_ = train_network(bags, T, self, rng)
        return network


class Run(NamedTuple):
    """A trained network and the log-loss of the held-out bags after each epoch; no losses when none were held out."""

    network: GatedAttention
    losses: list[float]


def train_network(bags: Bags, T: Array, schedule: AttentionMIL, rng: np.random.Generator) -> Run:
    """The best of ``schedule.restarts`` runs on the same held-out bags.

    Parameters
    ----------
    bags : B bags of standardised features.
    T : (B,) labels, 0 or 1.
    schedule : whose parameters say how to train.
    rng : draws the split, and the seed of each run.

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40)
    >>> len(train_network(bags, y, AttentionMIL(epochs=3), np.random.default_rng(0)).losses)
    3
    """
    bags = replace(bags, X=bags.X.astype(np.float32))
    learn, hold = hold_out(T, schedule.validation, rng)
    seeds = rng.integers(2**31, size=schedule.restarts)
    runs = [_run((bags[learn], T[learn]), (bags[hold], T[hold]), schedule, int(seed)) for seed in seeds]
    return min(runs, key=lambda run: min(run.losses, default=0.0))


def hold_out(T: Array, validation: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Bags to learn from and bags held out, each with both labels; none are held out where a label has a single bag.

    Parameters
    ----------
    T : (B,) labels, 0 or 1.
    validation : share of the bags that is held out, 0 for none.

    Examples
    --------
    >>> learn, hold = hold_out(np.array([0, 1] * 10), 0.2, np.random.default_rng(0))
    >>> len(learn), len(hold)
    (16, 4)
    """
    everything = np.arange(len(T))
    if validation == 0 or np.bincount(T, minlength=2).min() < 2:
        return everything, everything[:0]
    count = min(max(2, round(validation * len(T))), len(T) - 2)
    learn, hold = train_test_split(everything, test_size=count, stratify=T, random_state=int(rng.integers(2**31)))
    return learn, hold


def _run(learn: tuple[Bags, Array], hold: tuple[Bags, Array], schedule: AttentionMIL, seed: int) -> Run:
    """Train until ``patience`` epochs bring nothing better on the held-out bags; the best weights are kept."""
    best, lowest, losses = None, np.inf, list[float]()
    for network in _epochs(*learn, schedule, seed):
        if not len(hold[1]):
            best = network
            continue
        losses.append(log_loss(network, *hold))
        if losses[-1] < lowest or best is None:
            best, lowest = replace(network, theta=network.theta.clone()), losses[-1]
        elif len(losses) - int(np.argmin(losses)) > schedule.patience:
            break
    assert best is not None  # there is at least one epoch
    return Run(best, losses)


def _epochs(bags: Bags, T: Array, schedule: AttentionMIL, seed: int) -> Iterator[GatedAttention]:
    """The network after each epoch; its weights change as the iteration goes on."""
    torch = require_torch()
    generator = torch.Generator().manual_seed(seed)
    network = GatedAttention.initial(
        bags.n_features, schedule.hidden, schedule.attention, generator, schedule.smoothing
    )
    theta = network.theta.requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True)
    for _ in range(schedule.epochs):
        order = torch.randperm(len(bags), generator=generator).numpy()
        X, target, offsets, links = as_tensors(bags[order], T[order])
        for first in range(0, len(order), schedule.batch_size):
            starts = offsets[first : first + schedule.batch_size + 1]
            sizes = np.diff(starts)
            bag = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
            rows = slice(starts[0], starts[-1])
            logits, _ = network.forward(X[rows], bag, len(sizes), links[rows], schedule.dropout, generator)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target[first : first + len(sizes)])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        yield replace(network, theta=theta.detach())


def log_loss(network: GatedAttention, bags: Bags, T: Array) -> float:
    """Mean log-loss of the bags, without dropout."""
    torch = require_torch()
    X, target, _, links = as_tensors(bags, T)
    with torch.no_grad():
        logits, _ = network.forward(X, torch.from_numpy(bags.bag_index), len(bags), links)
        return float(torch.nn.functional.binary_cross_entropy_with_logits(logits, target))
