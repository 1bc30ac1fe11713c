"""Labels of a bag that share noise: what makes one instance look positive by chance may do so to all of them.

Given f, an instance is positive with probability sigma(f_i), as ever. But copies of an instance are no independent
witnesses, and a scan cut into twice as many slices does not hold twice as many chances of a false alarm. So labels of
a bag are joined by a Gumbel copula. With hazards a_i = -log P(y_i = 0) = softplus(f_i),

    -log P0 = A = (sum a_i^eta)^(1 / eta),    eta = 1 / (1 - tau),

where tau, 0 <= tau < 1, is Kendall's rank correlation of the noise of two instances. For tau = 0 labels are independent
and A is the sum; for tau near 1 it is the largest hazard, and a bag as positive as its most positive instance. The same
is a frailty W that the instances of a bag share: given W, which has the Laplace transform exp(-t^(1 / eta)), labels
are independent with hazards W a_i^eta. With shares p_i = (a_i / A)^eta, which sum to 1, and h_i = p_i s_i / a_i,

    gradient of A:  A h           Hessian of A:  diag(A h ((eta - 1) s / a + 1 - s)) - (eta - 1) A h h'
    dA / d tau = A sum_i p_i log p_i

and log p(T | f) depends on f through A alone, so that -Hessian is a diagonal and one vector along h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from psimil.model.bag_likelihoods import (
    LARGEST,
    Derivatives,
    IndependentLabels,
    Labels,
    bag_terms,
    beside_known,
    with_density,
)
from psimil.model.densities import Density, HyperbolicSecant

Array = NDArray[Any]

MOST_SHARING = 0.8  # the largest tau of a model; with more, estimates of log p(T) are wrong by more than .1 nats a bag


class _Hazards(NamedTuple):
    """What the hazards of instances (S, N) and bags (S, B) are made of; shares of known instances are 0.

    Parameters
    ----------
    s, q, plus : sigma(f), 1 - sigma(f) and the hazard a of each instance.
    part, share : a over the largest one of the bag, and p.
    log_top, log_total : log of the largest a, and log A.
    """

    s: Array
    q: Array
    plus: Array
    part: Array
    share: Array
    log_top: Array
    log_total: Array

    @classmethod
    def of(cls, f: Array, labels: Labels) -> Self:
        """Those of latent values f (S, N)."""
        number, eta = f.dtype.type, 1.0 / (1.0 - labels.sharing)
        e = np.exp(-np.abs(f))
        larger = number(1.0) / (number(1.0) + e)
        smaller, positive = e * larger, f >= 0
        plus = np.maximum(f, number(0.0)) + np.log1p(e)
        free = plus if labels.known is None else np.where(labels.known < 0, plus, number(0.0))
        top = np.maximum(np.maximum.reduceat(free, labels.offsets[:-1], axis=-1), np.finfo(f.dtype).tiny)
        part = free / labels.spread(top)
        share = np.power(part, number(eta))
        total = labels.sum(share)
        share /= labels.spread(np.maximum(total, number(1e-30)))  # 0 where all labels are known
        log_top = np.log(top.astype(np.float64))
        with np.errstate(divide="ignore"):
            log_total = log_top + np.log(total.astype(np.float64)) / eta
        s, q = np.where(positive, larger, smaller), np.where(positive, smaller, larger)
        return cls(s, q, plus, part, share, log_top, log_total)

    def bag_terms(self, labels: Labels) -> tuple[Array, Array, Array]:
        """(S, B) log p(T | f), log a and log root of the rest of each bag, as if it had one hazard A."""
        hazard = np.exp(self.log_total)
        if labels.known is not None:  # a known positive explains its bag
            hazard = np.where(labels.sum((labels.known == 1).astype(np.int64)) > 0, np.inf, hazard)
        return bag_terms(hazard, lambda: self.log_total, labels)


@dataclass(frozen=True)
class SharedLabels:
    """Labels of a bag that share noise, as ``labels.sharing`` says, and a bag label that is their maximum, Eq. (4).

    Without sharing these are :class:`IndependentLabels`, whose words on H and densities hold here, too. Instances
    whose labels are known have noise of their own.

    Examples
    --------
    >>> labels = Labels(T=np.array([1]), offsets=np.array([0, 2]), sharing=0.5)  # A = sqrt(a_1^2 + a_2^2)
    >>> np.exp(SharedLabels().derivatives(np.zeros((1, 2)), labels).value).round(4)  # 1 - 2^-sqrt(2)
    array([[0.6248]])
    """

    density: Density = HyperbolicSecant()  # noqa: RUF009 - frozen

    def sign(self, labels: Labels) -> Array:
        """+1 for positive bags, -1 for negative ones."""
        return IndependentLabels(self.density).sign(labels)

    def separate(self, labels: Labels) -> Array:
        """(N,) the instances of negative bags, where labels are independent, certain, and nothing more is known."""
        apart = IndependentLabels(self.density).separate(labels)
        return apart if labels.sharing == 0 else apart & (labels.spread(np.diff(labels.offsets)) == 1)

    def chains(self, labels: Labels) -> int:
        """None."""
        return 0

    def derivatives(self, f: Array, labels: Labels) -> Derivatives:
        """Value, gradient and curvature at f (S, N)."""
        if labels.sharing == 0:
            return IndependentLabels(self.density).derivatives(f, labels)
        f = _within_range(f)
        number, more = f.dtype.type, labels.sharing / (1.0 - labels.sharing)  # eta - 1
        found, sign = _Hazards.of(f, labels), self.sign(labels)
        value, log_a, log_root = found.bag_terms(labels)
        of_A = np.exp(log_a + found.log_total)  # a A
        weight = np.sqrt(np.exp(2.0 * (log_root + found.log_total)) + more * of_A)
        ratio = found.s / found.plus
        along = found.share * ratio
        gradient = labels.spread((sign * of_A).astype(number)) * along
        curved = found.q + number(more) * ratio
        vector = labels.spread(weight.astype(number)) * along
        told = labels.spread((sign * np.exp(log_a + found.log_top)).astype(number))
        label = np.clip(found.s + told * ratio * found.part, number(0.0), number(1.0))
        rest = Derivatives(value, gradient, -gradient * curved, vector, label, -found.plus)
        if labels.known is not None:
            log_s = np.minimum(f, number(0.0)) - np.log1p(np.exp(-np.abs(f)))
            rest = beside_known(rest, log_s, found.q, labels, labels.known)
        return with_density(rest, f, labels, self.density)

    def slope(self, f: Array, labels: Labels) -> Array:
        """(S, B) derivative of log p(T | f) by tau."""
        found = _Hazards.of(_within_range(f), labels)
        _, log_a, _ = found.bag_terms(labels)
        entropy = -labels.sum(found.share * np.log(np.maximum(found.share, np.finfo(f.dtype).tiny)))
        return np.asarray(-self.sign(labels) * np.exp(log_a + found.log_total) * entropy)


def _within_range(f: Array) -> Array:
    """Latent values whose hazards are numbers: double precision where single has none."""
    if f.itemsize == 4 and f.min(initial=0.0) < -LARGEST[4]:
        f = f.astype(np.float64)
    return np.asarray(np.maximum(f, f.dtype.type(-LARGEST[f.itemsize])))


def total_hazard(hazards: Array, offsets: Array, sharing: float) -> Array:
    """(S, B) A = -log P(all y = 0) of bags whose instances have these hazards (S, N), their sum without sharing.

    Examples
    --------
    >>> total_hazard(np.array([[3.0, 4.0]]), np.array([0, 2]), sharing=0.5)
    array([[5.]])
    """
    starts = offsets[:-1]
    if sharing == 0:
        return np.asarray(np.add.reduceat(hazards, starts, axis=-1))
    top = np.maximum(np.maximum.reduceat(hazards, starts, axis=-1), np.finfo(hazards.dtype).tiny)
    parts = np.power(hazards / np.repeat(top, np.diff(offsets), axis=-1), 1.0 / (1.0 - sharing))
    return np.asarray(top * np.power(np.add.reduceat(parts, starts, axis=-1), 1.0 - sharing))
