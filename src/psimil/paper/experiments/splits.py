"""Which bags teach, which stop the training, and which are measured: the heart of each protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

Array = NDArray[Any]

FOLDS = 5
VALIDATION = 0.1  # share of the training bags that stops the training under the paper's protocol
HELD_OUT, TRAINING, STOPPING = "held-out bags", "training bags", "stopping bags"


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of bags.

    Parameters
    ----------
    train : bags the model learns from.
    stop : bags that decide when training ends, or None.
    test : bags the scores are measured on.
    features : bags that learned features may use.
    measured_on : what the measured bags were to the model, in words.
    """

    train: Array
    stop: Array | None
    test: Array
    features: Array
    measured_on: str


def nested_split(y: Array, split: int, repeat: int = 0, *, stopping: bool = False) -> Split:
    """A stratified fold held out; with ``stopping``, a tenth of the other bags stops the training.

    Examples
    --------
    >>> found = nested_split(np.arange(100) % 2, split=0)
    >>> len(found.train), len(found.test), found.measured_on
    (80, 20, 'held-out bags')
    """
    train, test = _fold(y, split, repeat)
    return with_validation(y, train, test) if stopping else Split(train, None, test, train, HELD_OUT)


def paper_split(y: Array, split: int) -> Split:
    """The paper's text: a stratified test fold, and a validation subset of the other bags that stops the training."""
    return nested_split(y, split, stopping=True)


def published_split(y: Array, split: int, *, stop_on_training: bool) -> Split:
    """What the authors' code does: folds in file order; the bags it measures are those that stop the training.

    Its tuple (train, test, validation) is unpacked as (train, validation, test). On MUSK validation and training bags
    are the same, so training bags are measured; on MNIST the tenth of the training bags that stops the training is.
    The test fold is never looked at, and features are learned on all bags.

    Parameters
    ----------
    stop_on_training : MUSK (True) or MNIST (False).

    Examples
    --------
    >>> y = np.arange(100) % 2
    >>> found = published_split(y, 0, stop_on_training=True)
    >>> found.measured_on, np.array_equal(found.train, found.test)
    ('training bags', True)
    """
    train, _ = list(StratifiedKFold(FOLDS).split(np.zeros(len(y)), y))[split]
    everything = np.arange(len(y))
    if stop_on_training:
        return Split(train, train, train, everything, TRAINING)
    learn, stop = train_test_split(train, train_size=1 - VALIDATION, stratify=y[train], random_state=42)
    return Split(learn, stop, stop, everything, STOPPING)


def _fold(y: Array, split: int, repeat: int) -> tuple[Array, Array]:
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(np.zeros(len(y)), y)
    train, test = list(folds)[split]
    return np.asarray(train), np.asarray(test)


def with_validation(y: Array, train: Array, test: Array) -> Split:
    """A tenth of the training bags stops the training; the test bags are measured."""
    learn, stop = train_test_split(train, test_size=VALIDATION, stratify=y[train], random_state=0)
    return Split(learn, stop, test, learn, HELD_OUT)
