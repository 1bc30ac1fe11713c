"""log p(T_b | f_b) of bags with the labels of their instances summed out: value, gradient and curvature.

With s = sigma(f_b), P0 = prod(1 - s) the probability that every instance is negative, and bag labels that hold for
certain (H = inf):

    T = 0:  log p = log P0          gradient -s      -Hessian  diag(s (1 - s))
    T = 1:  log p = log(1 - P0)     gradient  a s    -Hessian  a (1 + a) s s' - a diag(s (1 - s)),  a = P0 / (1 - P0)

The curvature is always diag(d) + sign r r' with one vector r for each bag. Value, gradient, d and r are all that Newton
steps, the variational posterior, bags left out, kernel learning and sampling ask of a model
(docs/mathematics/derivations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import log1mexp, log1p, softplus
from psimil.model.densities import (
    Density,
    HyperbolicSecant,
    is_logistic,
    log_ratio,
    log_ratio_curvature,
    log_ratio_slope,
)

Array = NDArray[Any]

LARGEST = {8: 700.0, 4: 80.0}  # log-odds whose exponential is a number, by bytes
TINY = -30.0  # log-odds below which 1 - P0 is the sum of e^f to thirteen digits


@dataclass(frozen=True)
class Labels:
    """What is known about the labels of some bags.

    Parameters
    ----------
    T : (B,) bag labels, 0 or 1.
    offsets : (B + 1,) first instance of each bag.
    log_H : log of the bag likelihood's H, Eq. (4); may be inf.
    known : (N,) instance labels 0 or 1, -1 for unknown; None when all are unknown.
    keys : (N,) a number made of each instance's features; breaks ties where the order of instances must not matter.
    links : (N,) J of the link from each instance to the next of its bag, 0 at the last; None where there are no links.
    sharing : rank correlation of the noise that instances of a bag share, 0 <= tau < 1; see
        :mod:`psimil.model.shared_labels`.
    """

    T: Array
    offsets: Array
    log_H: float = np.inf
    known: Array | None = None
    keys: Array | None = None
    links: Array | None = None
    sharing: float = 0.0

    def sum(self, values: Array) -> Array:
        """(..., B) sums of values (..., N) over the instances of each bag."""
        return np.asarray(np.add.reduceat(values, self.offsets[:-1], axis=-1))

    def spread(self, values: Array) -> Array:
        """(..., N) each bag's value of (..., B), for each of its instances."""
        return np.repeat(values, np.diff(self.offsets), axis=-1)

    def chunk(self, first: int, last: int) -> Labels:
        """The labels of bags first to last - 1."""
        a, b = self.offsets[first], self.offsets[last]
        known, keys, links = (None if one is None else one[a:b] for one in (self.known, self.keys, self.links))
        offsets = self.offsets[first : last + 1] - a
        return Labels(self.T[first:last], offsets, self.log_H, known, keys, links, self.sharing)

    def coupled(self, J: float) -> Labels:
        """The same with links J times as strong; independent labels for J = 0."""
        return replace(self, links=None if J == 0 or self.links is None else J * self.links)

    def certain(self) -> Labels:
        """The same with bag labels that are never wrong, or always where H < 1, and no instance known to say otherwise.

        Examples
        --------
        >>> Labels(np.ones(1), np.array([0, 2]), np.log(100.0)).certain().log_H
        inf
        """
        return replace(self, log_H=float(np.copysign(np.inf, self.log_H)), known=None)

    def order(self, scores: Array) -> Array:
        """(N,) instances by bag, the largest score first, ties by their keys."""
        bag = self.spread(np.arange(len(self.T)))
        keys = np.zeros(len(scores)) if self.keys is None else self.keys
        return np.asarray(np.lexsort((keys, -scores, bag)))


class Derivatives(NamedTuple):
    """log p(T_b | f_b) of B bags with N instances at S values of f.

    Parameters
    ----------
    value : (S, B) log p(T_b | f_b).
    gradient : (S, N) its gradient.
    diagonal, vector : (S, N) d and r of -Hessian = diag(d) + sign r r'.
    label : (S, N) P(y = 1 | f, T), the probability of each instance's label once the bag's is known.
    alone : (S, N) what each instance would add to the value were its bag negative.
    chains : pairs c and rho, each (S, N); off the diagonal -Hessian also has c_i rho_i ... rho_j-1 of each in row i and
        column j > i of a bag, and its mirror image. None for independent labels.
    """

    value: Array
    gradient: Array
    diagonal: Array
    vector: Array
    label: Array
    alone: Array
    chains: tuple[tuple[Array, Array], ...] = ()


class BagLikelihood(Protocol):
    """What inference asks of the model between latent values and bag labels."""

    def derivatives(self, f: Array, labels: Labels) -> Derivatives:
        """Value, gradient and curvature at f (S, N)."""

    def sign(self, labels: Labels) -> Array:
        """(B,) sign of r r' in the curvature of each bag."""

    def separate(self, labels: Labels) -> Array:
        """(N,) whether an instance is a factor of the likelihood by itself, apart from the others of its bag."""

    def chains(self, labels: Labels) -> int:
        """How many chains the curvature has."""


@dataclass(frozen=True)
class IndependentLabels:
    """Labels that are independent given f, Eq. (1), and a bag label that is their maximum, Eq. (4).

    With a finite H, p(T = 1) = (H (1 - P0) + P0) / (H + 1). Instances whose labels are known have a factor sigma(+-f)
    of their own and leave the rest of the bag as it is; a known positive explains its bag. A density other than the
    hyperbolic secant adds log(2 cosh(f / 2) psi(f)) for each instance.

    Examples
    --------
    >>> labels = Labels(T=np.array([1, 0]), offsets=np.array([0, 2, 3]))
    >>> found = IndependentLabels().derivatives(np.zeros((1, 3)), labels)
    >>> np.exp(found.value), found.gradient.round(4)
    (array([[0.75, 0.5 ]]), array([[ 0.1667,  0.1667, -0.5   ]]))
    """

    density: Density = HyperbolicSecant()  # noqa: RUF009 - frozen

    def sign(self, labels: Labels) -> Array:
        """+1 for positive bags, -1 for negative ones, whose r is zero unless H is finite."""
        return 2.0 * _told(labels)[0] - 1.0

    def separate(self, labels: Labels) -> Array:
        """The instances of negative bags, where those are certain and nothing more is known."""
        apart = (labels.T == 0) & (labels.log_H == np.inf) & (labels.known is None)
        return labels.spread(apart)

    def chains(self, labels: Labels) -> int:
        """None."""
        return 0

    def derivatives(self, f: Array, labels: Labels) -> Derivatives:
        """Value, gradient and curvature at f (S, N)."""
        number, largest = f.dtype.type, f.dtype.type(LARGEST[f.itemsize])
        odds = np.exp(np.minimum(f, largest))
        q = number(1.0) / (number(1.0) + odds)
        s, plus = odds * q, log1p(odds)  # sigma(f) and -log q, exact in both tails; q is 1 - sigma(f)
        if f.max(initial=0.0) > largest:
            plus += np.maximum(f - largest, number(0.0))
        if labels.known is None:
            value, log_a, log_root = bag_terms(labels.sum(plus), lambda: log_sum(f, labels), labels)
            sign = self.sign(labels)
            if log_a.max(initial=-np.inf) < -TINY:
                gradient = labels.spread((sign * np.exp(log_a)).astype(number)) * s
                vector = labels.spread(np.exp(log_root).astype(number)) * s
            else:  # some bag has e^30 times the weight of an s that may be as small
                log_s = -softplus(-f)
                gradient = (labels.spread(sign) * np.exp(labels.spread(log_a) + log_s)).astype(number)
                vector = np.exp(labels.spread(log_root) + log_s).astype(number)
            diagonal = np.multiply(gradient, q)
            np.negative(diagonal, out=diagonal)
            label = np.clip(gradient + s, number(0.0), number(1.0))
            found = Derivatives(value, gradient, diagonal, vector, label, np.negative(plus, out=plus))
        else:
            found = self._with_known(f, -softplus(-f), plus, q, labels, labels.known)
        return with_density(found, f, labels, self.density)

    def _with_known(self, f: Array, log_s: Array, plus: Array, q: Array, labels: Labels, known: Array) -> Derivatives:
        """The same where the labels of some instances are known."""
        free, one = known < 0, known == 1
        explained = np.where(one, np.inf, 0.0)  # a known positive leaves no mass on all negative
        hazard = labels.sum(np.where(free, plus, explained))
        value, log_a, log_root = bag_terms(hazard, lambda: log_sum(np.where(free, f, -np.inf), labels), labels)
        own = np.where(free, log_s, -np.inf)  # a is the free instances' and may be e^1000
        gradient = labels.spread(self.sign(labels)) * np.exp(labels.spread(log_a) + own)
        vector, label = np.exp(labels.spread(log_root) + own), np.clip(gradient + 1.0 - q, 0.0, 1.0)
        of_rest = Derivatives(value, gradient, -gradient * q, vector, label, -plus)
        return beside_known(of_rest, log_s, q, labels, known)


def _told(labels: Labels) -> tuple[Array, float]:
    """T and log H >= 0: what H < 1 says of T, 1 / H says of 1 - T."""
    return (labels.T, labels.log_H) if labels.log_H >= 0 else (1 - labels.T, -labels.log_H)


def with_density(found: Derivatives, f: Array, labels: Labels, density: Density) -> Derivatives:
    """The same with log(2 cosh(f / 2) psi(f)) for each instance; nothing is added for the hyperbolic secant."""
    if is_logistic(density):
        return found
    ratio = log_ratio(density, f)
    return found._replace(
        value=found.value + labels.sum(ratio),
        alone=found.alone + ratio,
        gradient=found.gradient + log_ratio_slope(density, f),
        diagonal=found.diagonal - log_ratio_curvature(density, f),
    )


def beside_known(of_rest: Derivatives, log_s: Array, q: Array, labels: Labels, known: Array) -> Derivatives:
    """The factors sigma(+-f) of known instances beside what the rest of their bags says, whose vector is 0 for them.

    Parameters
    ----------
    log_s, q : (S, N) log sigma(f) and 1 - sigma(f).
    known : (N,) labels, -1 for unknown.
    """
    free = known < 0
    return of_rest._replace(
        value=of_rest.value + labels.sum(np.where(free, 0.0, np.where(known == 1, log_s, of_rest.alone))),
        gradient=np.where(free, of_rest.gradient, known - 1.0 + q),
        diagonal=np.where(free, of_rest.diagonal, q * (1.0 - q)),
        label=np.where(free, of_rest.label, known),
    )


def bag_terms(hazard: Array, log_hazard: Callable[[], Array], labels: Labels) -> tuple[Array, Array, Array]:
    """(S, B) log p(T | f), log a and log of the root of the weight of s s': gradient +-a s, r = root s.

    Parameters
    ----------
    hazard : (S, B) -log P0, of the instances whose labels are unknown.
    log_hazard : gives its logarithm, of hazards so small that 1 - P0 is the same.
    """
    T, log_H = _told(labels)
    log_less = float(log1mexp(np.array(-log_H))) if log_H < np.inf else 0.0  # log(1 - 1 / H)
    log_P0 = -hazard.astype(np.float64)
    # T = 1: p = (1 - e^z) H / (H + 1) with e^z = (1 - 1 / H) P0, a = e^z / (1 - e^z), root^2 = a (1 + a)
    z = log_P0 + log_less
    log_W = log1mexp(z)
    if log_H == np.inf and (tiny := z > -np.exp(TINY)).any():
        log_W = np.where(tiny, log_hazard(), log_W)
    value, log_a, log_root = log_W - softplus(np.array(-log_H)), z - log_W, 0.5 * z - log_W
    if log_H == np.inf:
        negative = (log_P0, np.zeros_like(z), np.full_like(z, -np.inf))
    else:  # p = (1 + e^t) / (H + 1) with e^t = (H - 1) P0, a = e^t / (1 + e^t), root^2 = a (1 - a)
        t = z + log_H
        log_one_minus_a = -softplus(t)
        negative = (-log_one_minus_a - softplus(np.array(log_H)), -softplus(-t), 0.5 * (t + 2.0 * log_one_minus_a))
    found = [np.where(T == 1, *pair) for pair in zip((value, log_a, log_root), negative, strict=True)]
    return found[0], found[1], found[2]


def log_sum(f: Array, labels: Labels) -> Array:
    """(S, B) log of the sum of e^f over each bag, in double precision."""
    f = f.astype(np.float64)
    top = np.maximum(np.maximum.reduceat(f, labels.offsets[:-1], axis=-1), -1e300)
    with np.errstate(divide="ignore"):  # every instance of a negative bag is known
        return np.asarray(top + np.log(labels.sum(np.exp(f - labels.spread(top)))))
