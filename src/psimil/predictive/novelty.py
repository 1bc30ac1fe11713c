"""How far an instance lies from all that the model has seen, and what becomes of a prediction there.

A projected prior has no variance far from its inducing points, and a linear trend goes on for ever: a model would be
surer of garbage than of its own training bags. The novelty of an instance is

    nu = 1 - 2^(-d^2 / d0^2),    d the distance to the nearest inducing point,

1/2 at d0, the distance that one new bag in a hundred is to have an instance beyond, by a limit that allows for how few
training bags it is learned from. Past it the latent value goes back to
what was known before any data: mean and variance are those of the posterior mixed with those of the prior in the
proportion w = max(2 nu - 1, 0), so that predictions for ordinary instances stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import chunk_rows, ordered_map
from psimil.predictive.aggregates import stretch

Array = NDArray[Any]

EXCEEDED = 0.01  # share of ordinary new bags with an instance beyond d0
NOVEL = 0.5  # novelty above which a bag is referred
ROUNDING = 1e-8  # of variances, whose root would not be small


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
    def learn(cls, Z: Array, X: Array, offsets: Array) -> Self:
        """d0 from training bags, each seen as if its own instances had not helped to place inducing points.

        Parameters
        ----------
        Z, X : (M, D) inducing points and (N, D) instances in model coordinates.
        offsets : (B + 1,) first instance of each bag.
        """
        highest = np.maximum.reduceat(squares_without_own_bag(Z, X, offsets), offsets[:-1])
        return cls(max(upper_limit(highest, EXCEEDED), float(np.finfo(float).tiny)))

    def of_squares(self, square: Array) -> Array:
        """(N,) novelty of squared distances (N,) to the nearest inducing point."""
        with np.errstate(over="ignore"):  # bags that are all at inducing points: anything else is novel
            return np.asarray(-np.expm1(-np.log(2.0) * square / self.square))

    def of(self, X: Array, Z: Array) -> Array:
        """(N,) novelty of instances X (N, D) for inducing points Z (M, D), both in model coordinates."""
        return self.of_squares(nearest_points(X, Z)[1])


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


def squares_without_own_bag(Z: Array, X: Array, offsets: Array) -> Array:
    """(N,) squared distance of each instance to the nearest inducing point, about as it were without its own bag.

    Inducing points are means of the instances next to them. Without the k of the bag among n, the mean would be further
    off by n / (n - k); where there is no other bag, the point would not be there. Nor would others of this bag alone.
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    nearest, square = nearest_points(X, Z)
    _, group, own = np.unique(bag * len(Z) + nearest, return_inverse=True, return_counts=True)
    n = np.bincount(nearest, minlength=len(Z))[nearest]
    rest = n - own[group]
    owner = np.full(len(Z), -1)  # the only bag of a point; -1 for none
    owner[nearest[rest == 0]] = bag[rest == 0]
    _, others = nearest_points(X, Z, hidden=(bag, owner, nearest))
    moved = np.where(rest > 0, square * np.square(n / np.maximum(rest, 1)), np.inf)
    found = np.minimum(moved, others)
    return np.where(np.isfinite(found), found, square)


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


def nearest_points(X: Array, Z: Array, hidden: tuple[Array, Array, Array] | None = None) -> tuple[Array, Array]:
    """(N,) index of the nearest of the points Z (M, D) to each row of X (N, D), and the squared distance to it.

    Parameters
    ----------
    hidden : (N,) bag of each row, (M,) bag of each point whose own rows shall not see it, and (N,) a point that the row
        shall not see; a row that sees none has an infinite distance.

    Examples
    --------
    >>> nearest_points(np.array([[0.0], [4.0]]), np.array([[1.0], [6.0]]))
    (array([0, 1]), array([1., 4.]))
    """
    index, square = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    step, lengths = chunk_rows(len(Z)), np.vecdot(Z, Z)

    def part(start: int) -> None:
        rows = slice(start, start + step)
        x = np.asarray(X[rows], dtype=np.float64)
        distances = lengths - 2.0 * (x @ Z.T)
        if hidden is not None:
            distances[hidden[0][rows, None] == hidden[1]] = np.inf
            distances[np.arange(len(x)), hidden[2][rows]] = np.inf
        index[rows] = best = distances.argmin(axis=1)
        square[rows] = np.maximum(distances[np.arange(len(x)), best] + np.vecdot(x, x), 0.0)

    for _ in ordered_map(part, range(0, len(X), step)):
        pass
    return index, square
