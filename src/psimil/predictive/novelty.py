"""How far an instance lies from all that the model has seen, and what becomes of a prediction there.

A projected prior has no variance far from its inducing points, and a linear trend goes on for ever: a model would be
surer of garbage than of its own training bags. The novelty of an instance is

    nu = 1 - 2^(-d^2 / d0^2),    d the distance to the nearest inducing point,

1/2 at d0, the distance that one new bag in a hundred is to have an instance beyond, by a limit that allows for how few
training bags it is learned from. Each half of them is new to scaling and inducing points that the other half makes.
Past d0 the latent value goes back to what was known before any data: mean and variance are those of the posterior mixed
with those of the prior in the proportion w = max(2 nu - 1, 0), so that predictions for ordinary instances stay as they
are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import chunk_rows, ordered_map
from psimil.foundations.linalg import stretch

Array = NDArray[Any]

EXCEEDED = 0.01  # share of ordinary new bags with an instance beyond d0
NOVEL = 0.5  # novelty above which a bag is referred
ROUNDING = 1e-8  # of variances, whose root would not be small
COINCIDENT = 1e-13  # squared distance, by squared length, below which rounding alone may keep two points apart


@dataclass(frozen=True)
class Novelty:
    """The distance d0 at which an instance counts as unlike the training data, squared, in model coordinates.

    Examples
    --------
    >>> Novelty(4.0).of_squares(np.array([0.0, 4.0, 400.0])).round(3)
    array([0. , 0.5, 1. ])
    """

    square: float

    @classmethod
    def learn(cls, offsets: Array, half: Array, placed: Callable[[Array], tuple[Array, Array]]) -> Self:
        """d0 from training bags: how far those of one half lie from the inducing points of the other.

        A bag helps to place the points and to scale the features, and so lies nearer to them than a new bag would.

        Parameters
        ----------
        offsets : (B + 1,) first instance of each bag.
        half : (B,) whether a bag is in the first half.
        placed : inducing points (M, D) and all instances (N, D), both as they would be if the chosen instances (N,)
            were all there are.
        """
        highest, one = np.empty(len(half)), half.all() or not half.any()
        for bags in (half, ~half):
            if bags.any():
                Z, X = placed(np.repeat(bags if one else ~bags, np.diff(offsets)))
                highest[bags] = np.maximum.reduceat(nearest_squares(X, Z), offsets[:-1])[bags]
        return cls(max(upper_limit(highest, EXCEEDED), float(np.finfo(float).tiny)))

    def of_squares(self, square: Array) -> Array:
        """(N,) novelty of squared distances (N,) to the nearest inducing point."""
        with np.errstate(over="ignore"):  # bags that are all at inducing points: anything else is novel
            return np.asarray(-np.expm1(-np.log(2.0) * square / self.square))

    def of(self, X: Array, Z: Array) -> Array:
        """(N,) novelty of instances X (N, D) for inducing points Z (M, D), both in model coordinates."""
        return self.of_squares(nearest_squares(X, Z))


def upper_limit(values: Array, exceeded: float) -> float:
    """What a new value, drawn as the given ones (B,) were, exceeds with the given probability.

    The ceil((B + 1)(1 - exceeded))-th smallest does, whatever the distribution. Where there are too few for that, the
    tail from the m-th largest on, m = 2 sqrt(B), is taken as exponential: a new value is beyond u, the next one below
    it, with probability (m + 1) / (B + 1), and beyond u + c S with (1 + c)^-m of that, S the sum of the m excesses.

    Examples
    --------
    >>> upper_limit(np.arange(1.0, 200.0), 0.01), bool(upper_limit(np.array([1.0, 2.0, 3.0]), 0.01) > 3.0)
    (198.0, True)
    """
    ordered, B = np.sort(values), len(values)
    place = int(np.ceil((B + 1) * (1.0 - exceeded) - 1e-9))
    if place <= B:
        return float(ordered[place - 1])
    m = min(int(np.ceil(2.0 * np.sqrt(B))), B)
    u = float(ordered[-m - 1]) if m < B else 0.0
    c = float(((m + 1) / ((B + 1) * exceeded)) ** (1.0 / m)) - 1.0
    return u + c * float((ordered[-m:] - u).sum())


def reverted(latent: tuple[Array, Array], prior: tuple[float, Array], novelty: Array) -> tuple[Array, Array]:
    """Latent mean and variance (N,), those of novel instances drawn back to those of the prior.

    Examples
    --------
    >>> reverted((np.array([3.0]), np.array([1.0])), (0.0, np.array([5.0])), np.array([0.75]))
    (array([1.5]), array([3.]))
    """
    w = np.maximum(2.0 * novelty - 1.0, 0.0)
    if not w.any():
        return latent
    return (1.0 - w) * latent[0] + w * prior[0], (1.0 - w) * latent[1] + w * prior[1]


def widened(deviations: Array, own: Array, wanted: Array, shared: Array) -> Array:
    """(S, N) deviations of variance ``own`` (N,) with the variance ``wanted`` (N,).

    What they lack comes from numbers (S,) that all instances share: what is not known of one novel instance is not
    known of the next one either, and many of them are not many chances of a positive one.

    Examples
    --------
    >>> widened(np.array([[2.0, 0.0]]), np.array([4.0, 1.0]), np.array([1.0, 5.0]), np.array([1.0]))
    array([[1., 2.]])
    """
    lacking = np.where(wanted > (1.0 + ROUNDING) * own, wanted - own, 0.0)
    more = shared[:, None] * np.sqrt(lacking)
    return np.asarray(deviations * np.minimum(stretch(own, wanted), 1.0) + more)


def nearest_squares(X: Array, Z: Array) -> Array:
    """(N,) squared distance of each row of X (N, D) to the nearest of the points Z (M, D).

    Examples
    --------
    >>> nearest_squares(np.array([[0.0], [4.0]]), np.array([[1.0], [6.0]]))
    array([1., 4.])
    """
    square, step, lengths = np.empty(len(X)), chunk_rows(len(Z)), np.vecdot(Z, Z)

    def part(start: int) -> None:
        rows = slice(start, start + step)
        x = np.asarray(X[rows], dtype=np.float64)
        nearest = (lengths - 2.0 * (x @ Z.T)).min(axis=1)
        own = np.vecdot(x, x)
        nearest += own
        square[rows] = np.where(nearest > COINCIDENT * own, nearest, 0.0)

    for _ in ordered_map(part, range(0, len(X), step)):
        pass
    return square
