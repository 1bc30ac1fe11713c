"""Bags with a trap, a signal that tells the labels apart in training only, and whether a model is led into it.

The three tests of Raff and Holt (2023), "Reproducibility in Multiple Instance Learning: A Case For Algorithmic Unit
Tests". Training bags hold the trap; in the test bags it is turned round, while what makes a bag positive is the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.testing.expectations import demand
from psimil.testing.subject import demand_estimator, positive

Labelled = tuple[list[Array], Array]
Draw = Callable[[np.random.Generator, bool, bool, int], list[Array]]  # positive, turned, D -> parts of a bag

CONCEPTS = (2.0, 3.0)  # centre, in every feature, of two kinds of instances that matter together
BAIT = -10.0  # centre of the kind that marks negative bags in training and positive ones when turned
NARROW = 0.1  # standard deviation of concepts and bait


@dataclass(frozen=True)
class Trap:
    """Bags (n_i, D) and labels (B,), half of them positive: to learn from, alike to those, and with the trap turned."""

    train: Labelled
    alike: Labelled
    turned: Labelled


def single_concept(seed: int = 0, *, n_bags: int = 100, n_features: int = 16) -> Trap:
    """One positive instance makes a bag positive, the standard assumption; bait marks negative bags in training.

    Bags have one to ten ordinary instances, N(0, I). Positive ones have one to three more, N(0, 9 I) or N(1, I). One
    bait, N(-10, 0.01 I), lies in each negative training bag and, turned, in each positive bag. Who takes the lack of
    bait for a sign of a positive bag is wrong about all of them.

    Parameters
    ----------
    seed : the same gives the same bags.
    n_bags : in each of the three sets.
    n_features : D; with few of them the wide kind of positive instance is hard to see.

    Examples
    --------
    >>> bags, y = single_concept(n_bags=10).train
    >>> [bool((bag < -9).all(axis=1).any()) for bag in bags] == (y == 0).tolist()
    True
    """
    return _trap(_single_concept, seed, n_bags, n_features)


def two_concepts(seed: int = 0, *, n_bags: int = 100, n_features: int = 16) -> Trap:
    """Both of two kinds of instances make a bag positive; bait marks negative bags in training.

    As :func:`single_concept`, but positive bags have one to four instances each of N(2, 0.01 I) and N(3, 0.01 I), and
    negative bags one instance of either.

    Parameters
    ----------
    seed, n_bags, n_features : as of :func:`single_concept`.

    Examples
    --------
    >>> bags, y = two_concepts(n_bags=10).turned
    >>> [bool((bag < -9).all(axis=1).any()) for bag in bags] == (y == 1).tolist()
    True
    """
    return _trap(_two_concepts, seed, n_bags, n_features)


def false_frequency(seed: int = 0, *, n_bags: int = 100, n_features: int = 16) -> Trap:
    """Both of two kinds of instances make a bag positive; how many there are goes with the label in training.

    There is no bait. Positive bags have one or two instances of each kind of :func:`two_concepts`. Negative bags have
    one or two of one kind alone, and 35 to 45 of it when turned. Who counts instances is wrong about all of them.

    Parameters
    ----------
    seed, n_bags, n_features : as of :func:`single_concept`.

    Examples
    --------
    >>> bags, y = false_frequency(n_bags=10).turned
    >>> [len(bag) > 30 for bag in bags] == (y == 0).tolist()
    True
    """
    return _trap(_false_frequency, seed, n_bags, n_features)


TRAPS: dict[str, Callable[..., Trap]] = {
    "single_concept": single_concept,
    "two_concepts": two_concepts,
    "false_frequency": false_frequency,
}


@dataclass(frozen=True)
class TrapScores:
    """AUC of bags like those of training, and of bags in which the trap is turned round."""

    alike: float
    turned: float

    @property
    def passed(self) -> bool:
        """Whether the model learned the bags and was not led into the trap: it ranks both better than by chance."""
        return self.alike > 0.5 and self.turned > 0.5


def trap_scores(estimator: Any, trap: Trap) -> TrapScores:
    """Fit a copy of an estimator to the training bags of a trap, and rank the others.

    Parameters
    ----------
    estimator : classifier of bags with ``fit(bags, y)`` and ``predict_proba(bags)``; bags are ranked by
        ``decision_function`` where there is one, since probabilities near 1 tie.
    trap : as of :func:`single_concept`, :func:`two_concepts` or :func:`false_frequency`.

    Examples
    --------
    >>> from psimil.paper.baselines import MeanPooling
    >>> from psimil.testing import single_concept
    >>> scores = trap_scores(MeanPooling(), single_concept())
    >>> scores.alike > 0.9, scores.passed
    (True, False)
    """
    demand_estimator(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as all checks do
        model = clone(estimator).fit(*trap.train)
        return TrapScores(*(float(roc_auc_score(y, _ranks(model, bags))) for bags, y in (trap.alike, trap.turned)))


def check_mil_assumption(
    estimator: Any, traps: Sequence[str] = ("single_concept",), *, seed: int = 0, **sizes: int
) -> dict[str, TrapScores]:
    """Demand that an estimator learns bags with these traps and is not led into them.

    It sees the order of bags alone, above chance or not: not how far above, and not whether the right instances are
    found. An estimator that passes may be led into traps of another kind.

    Parameters
    ----------
    estimator : as of :func:`trap_scores`.
    traps : of "single_concept", which tests the standard assumption, that a bag is positive if at least one instance
        is, and "two_concepts" and "false_frequency", where a bag needs two kinds of instances to be positive.
    seed : of the bags.
    sizes : ``n_bags`` and ``n_features`` of the traps.

    Returns
    -------
    scores : by trap.

    Raises
    ------
    AssertionError
        At the first trap where its AUC is 1/2 or less, of bags like those of training or where the trap is turned.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> scores = check_mil_assumption(VGPMIL(n_inducing=20, random_state=0), n_bags=40)
    >>> scores["single_concept"].turned > 0.7
    True
    """
    unknown = [name for name in traps if name not in TRAPS]
    if unknown or isinstance(traps, str):
        raise InputError(f"traps must be a list of {', '.join(TRAPS)}, got {traps!r}.")
    scores = {}
    for name in traps:
        scores[name] = trap_scores(estimator, TRAPS[name](seed, **sizes))
        alike, turned = scores[name].alike, scores[name].turned
        words = f"check_mil_assumption: {name}: AUC is {alike:.3f} on bags like those of training"
        demand(alike > 0.5, f"{words}, which were not learned; nothing follows from {turned:.3f} with the trap turned")
        demand(
            scores[name].passed,
            f"{words}, but {turned:.3f} where the trap is turned round and positive instances are as they were",
        )
    return scores


def _ranks(model: Any, bags: list[Array]) -> Array:
    """(B,) numbers that grow with the probability of label 1."""
    return np.asarray(model.decision_function(bags)) if hasattr(model, "decision_function") else positive(model, bags)


def _trap(draw: Draw, seed: int, n_bags: int, n_features: int) -> Trap:
    at_least(0, whole=True, seed=seed)
    at_least(1, whole=True, n_features=n_features)
    at_least(2, whole=True, n_bags=n_bags)
    rng = np.random.default_rng(seed)
    return Trap(*(_labelled(draw, rng, turned, n_bags, n_features) for turned in (False, False, True)))


def _labelled(draw: Draw, rng: np.random.Generator, turned: bool, n_bags: int, D: int) -> Labelled:
    y = rng.permutation(np.arange(n_bags) % 2)
    bags = [[rng.standard_normal((rng.integers(1, 11), D)), *draw(rng, bool(label), turned, D)] for label in y]
    return [rng.permutation(np.concatenate(parts)) for parts in bags], y


def _single_concept(rng: np.random.Generator, positive: bool, turned: bool, D: int) -> list[Array]:
    count = int(rng.integers(1, 4)) if positive else 0
    mean = rng.integers(2, size=(count, 1))  # 0 for the wide kind, 1 for the narrow one
    return [rng.normal(mean, 3.0 - 2.0 * mean, (count, D)), *_bait(rng, positive == turned, D)]


def _two_concepts(rng: np.random.Generator, positive: bool, turned: bool, D: int) -> list[Array]:
    one, other = rng.permutation(CONCEPTS)
    count = int(rng.integers(1, 5))
    parts = [_near(rng, one, count, D), _near(rng, other, count, D)] if positive else [_near(rng, one, 1, D)]
    return parts + _bait(rng, positive == turned, D)


def _false_frequency(rng: np.random.Generator, positive: bool, turned: bool, D: int) -> list[Array]:
    one, other = rng.permutation(CONCEPTS)
    few, many = rng.integers(1, 3, size=2).tolist(), int(rng.integers(35, 46))
    if positive:
        return [_near(rng, one, few[0], D), _near(rng, other, few[1], D)]
    return [_near(rng, one, many if turned else few[0], D)]


def _bait(rng: np.random.Generator, present: bool, D: int) -> list[Array]:
    return [_near(rng, BAIT, 1, D)] if present else []


def _near(rng: np.random.Generator, centre: float, count: int, D: int) -> Array:
    return rng.normal(centre, NARROW, (count, D))
