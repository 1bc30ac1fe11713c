"""Linear recursions along bags that have an order, each step over all bags at once.

A symmetric matrix with c_i rho_i ... rho_j-1 in row i and column j >= i of each bag, such as the covariance of a Markov
chain, is B diag(D) B' with D_i = c_i - rho_i-1^2 c_i-1 and B_ji = rho_i ... rho_j-1. So V' C V is sum_i D_i W_i W_i'
with the scan W_i = V_i + rho_i W_i+1, and no such matrix is ever made.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from psimil.foundations.arrays import Array


class Positions(NamedTuple):
    """Rows of all instances by position in their bags, the longest bag first: a step of a scan is a slice."""

    order: Array  # (N,) instance of each row
    inverse: Array  # (N,) row of each instance
    mirror: Array  # (N,) instance in place of each one where every bag is reversed
    steps: list[tuple[slice, slice]]  # by position: rows that have a next one in their bag, and these next ones


@lru_cache(maxsize=64)
def _positions(of_bags: bytes) -> Positions:
    offsets = np.frombuffer(of_bags, dtype=np.int64)
    sizes = np.diff(offsets)
    counts = len(sizes) - np.cumsum(np.bincount(sizes))[:-1]  # bags with a first, a second, ... instance
    starts = np.concatenate([[0], np.cumsum(counts)])
    bag = np.argsort(-sizes, kind="stable")[np.arange(starts[-1]) - np.repeat(starts[:-1], counts)]
    order = offsets[bag] + np.repeat(np.arange(len(counts)), counts)
    mirror = np.repeat(offsets[:-1] + offsets[1:] - 1, sizes) - np.arange(len(order))
    ends = starts.tolist()
    steps = [(slice(a, a + c - b), slice(b, c)) for a, b, c in zip(ends, ends[1:], ends[2:], strict=False)]
    return Positions(order, np.argsort(order), mirror, steps)


def positions(offsets: Array) -> Positions:
    """The rows of bags with these offsets (B + 1,) by position.

    Examples
    --------
    >>> positions(np.array([0, 1, 3])).order  # the longer bag first, then what is second in a bag
    array([1, 0, 2])
    """
    return _positions(offsets.astype(np.int64).tobytes())


def scan(values: Array, link: Array, offsets: Array, *, axis: int = -1, forward: bool = False) -> Array:
    """W_i = v_i + rho_i W_i+1 in each bag; ``forward`` W_i+1 = v_i+1 + rho_i W_i.

    Parameters
    ----------
    values : (S, N), or (N, M) with ``axis=0``.
    link : (N,) rho from each instance to the next, 0 at the last of a bag.
    offsets : (B + 1,) first instance of each bag.

    Examples
    --------
    >>> scan(np.ones((1, 4)), np.array([0.5, 0.5, 0.0, 0.0]), np.array([0, 3, 4]))
    array([[1.75, 1.5 , 1.  , 1.  ]])
    """
    place = positions(offsets)
    rows = (values if axis == 0 else np.ascontiguousarray(values.T)).take(place.order, axis=0)
    rho = link[place.order, None].astype(values.dtype, copy=False)
    for here, after in place.steps if forward else reversed(place.steps):
        to, source = (after, here) if forward else (here, after)
        rows[to] += rho[here] * rows[source]
    found = rows.take(place.inverse, axis=0)
    return np.asarray(found if axis == 0 else np.ascontiguousarray(found.T))


def innovations(c: Array, link: Array) -> Array:
    """(N,) D_i = c_i - rho_i-1^2 c_i-1 of a chain, the weights of V' C V = sum_i D_i W_i W_i' with W = scan(V).

    Examples
    --------
    >>> W = scan(np.eye(2), np.array([0.5, 0.0]), np.array([0, 2]), axis=0)
    >>> (W.T * innovations(np.array([1.0, 3.0]), np.array([0.5, 0.0]))) @ W
    array([[1. , 0.5],
           [0.5, 3. ]])
    """
    return np.asarray(c - np.roll(np.square(link) * c, 1))  # the last link is 0


def times(values: Array, c: Array, link: Array, offsets: Array) -> Array:
    """(S, N) C v for values v (S, N), with the matrix C of a chain c, rho (N,).

    Examples
    --------
    >>> times(np.ones((1, 2)), np.array([1.0, 3.0]), np.array([0.5, 0.0]), np.array([0, 2]))
    array([[1.5, 3.5]])
    """
    place = positions(offsets)
    rows = np.ascontiguousarray(values.T).take(place.order, axis=0)
    rho, D = (one[place.order, None].astype(values.dtype, copy=False) for one in (link, innovations(c, link)))
    for here, after in reversed(place.steps):
        rows[here] += rho[here] * rows[after]
    rows *= D
    for here, after in place.steps:
        rows[after] += rho[here] * rows[here]
    return np.ascontiguousarray(rows.take(place.inverse, axis=0).T)


def quadratic(values: Array, c: Array, link: Array, offsets: Array) -> Array:
    """(S, B) v' C v of each bag for values v (S, N), with the matrix C of a chain c, rho (N,).

    Examples
    --------
    >>> quadratic(np.ones((1, 2)), np.array([1.0, 3.0]), np.array([0.5, 0.0]), np.array([0, 2]))
    array([[5.]])
    """
    W = np.square(scan(values, link, offsets)) * innovations(c, link).astype(values.dtype, copy=False)
    return np.asarray(np.add.reduceat(W, offsets[:-1], axis=-1))
