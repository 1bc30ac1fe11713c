"""AttentionMIL: the scikit-learn shell around the gated attention network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero, at_least
from psimil.model.bags import Bags
from psimil.paper.baselines.classifier import BagClassifier
from psimil.paper.baselines.network import GatedAttention, require_torch
from psimil.paper.baselines.network_training import train_network
from psimil.paper.baselines.smoothing import Smoothing

Array = NDArray[Any]


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
        found = self._bags(bags, bag_ids)
        if not isinstance(self.model_, GatedAttention):
            raise InputError("no attention was learned: the training bags all had the same label.")
        return found.split(self.model_.evaluate(found)[1])

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
