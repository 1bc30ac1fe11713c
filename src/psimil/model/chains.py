"""Labels of ordered bags that agree with their neighbours: an Ising chain on y, with the labels summed out exactly.

For a bag in its order p(y | f) is proportional to prod e^(f_i y_i) prod e^(J_i [y_i = y_i+1]), and T = max y. Messages
from both sides are odds; with k_i = e^J_i, g(x, k) = (1 + k x) / (k + x) and x_i = e^f_i+1 right_i+1 they are

    left_1 = 1,  left_i+1 = g(e^f_i left_i, k_i)                   right_n = 1,  right_i = g(x_i, k_i)

With them, before the bag's label is known,

    e_i = P(y_i = 1)  has the odds e^f_i left_i right_i
    log P0 = log P(all y = 0) = -sum plus_i,  plus_i = log(1 + e^f_i left_i / k_i),  k_n = 1
    rho_i = p(y_i+1 = 1 | y_i = 1) - p(y_i+1 = 1 | y_i = 0) = x_i (k_i^2 - 1) / ((1 + k_i x_i) (k_i + x_i))
    C_ij = cov(y_i, y_j) = e_i (1 - e_i) rho_i ... rho_j-1,  i <= j

and log p(T | f) is that of :mod:`psimil.model.bag_likelihoods` with e for s and C for diag(s (1 - s)):

    T = 0:  gradient -e,  -Hessian C                T = 1:  gradient a e,  -Hessian  a (1 + a) e e' - a C

C is one of the matrices of :mod:`psimil.foundations.scans`. Where labels are known, -Hessian has C with e (1 - e) for
c, and a second such matrix, with c <= 0, of the chain which they cut. Loops go over positions, each step over all bags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.logistic import log1p, softplus
from psimil.foundations.scans import positions
from psimil.model import densities
from psimil.model.bag_likelihoods import (
    LARGEST,
    TINY,
    Derivatives,
    IndependentLabels,
    Labels,
    bag_terms,
    log_sum,
    with_density,
)

Array = NDArray[Any]
CERTAIN = 1e30  # log-odds of known labels


def mean_chain(c: Array, link: Array, w: Array | None = None) -> tuple[Array, Array]:
    """(N,) E c and E[c rho] / E c over draws (S, N), of weights w (S, N) if given.

    Variances and covariances of neighbours are then their means; and as E[c rho]^2 <= E c E[c rho^2], no D of a chain
    changes its sign.

    Examples
    --------
    >>> mean_chain(np.array([[1.0], [3.0]]), np.array([[1.0], [0.0]]))
    (array([2.]), array([0.25]))
    """
    if w is None:
        mean, along = c.mean(axis=0), np.einsum("sn,sn->n", c, link) / c.dtype.type(len(c))
    else:
        mean, along = np.einsum("sn,sn->n", w, c), np.einsum("sn,sn,sn->n", w, c, link)
    return mean, np.divide(along, mean, out=np.zeros_like(mean), where=mean != 0)


@dataclass(frozen=True)
class ChainLabels:
    """Labels that form a chain given f in bags with an order, and a bag label that is their maximum, Eq. (4).

    The links J (N,) >= 0 of ``labels.links`` go from each instance to the next one; 0 at gaps and at the last of a bag.
    Without links these are :class:`IndependentLabels`, whose words on H, known labels and densities hold here too. The
    probability of known labels is that of the chain. Single precision is good for links up to 10, double up to 100.

    Examples
    --------
    >>> labels = Labels(T=np.array([1]), offsets=np.array([0, 2]), links=np.array([np.log(2.0), 0.0]))
    >>> np.exp(ChainLabels().derivatives(np.zeros((1, 2)), labels).value)  # of weights 2, 1, 1, 2 the first is negative
    array([[0.66666667]])
    """

    density: densities.Density = densities.HyperbolicSecant()  # noqa: RUF009 - frozen

    def sign(self, labels: Labels) -> Array:
        """(B,) sign of r r' of each bag."""
        return IndependentLabels(self.density).sign(labels)

    def separate(self, labels: Labels) -> Array:
        """(N,) the instances of negative bags without links, where those are certain and nothing more is known."""
        apart, links = IndependentLabels(self.density).separate(labels), _links(labels)
        return apart if links is None else apart & (labels.spread(labels.sum(links)) == 0)

    def chains(self, labels: Labels) -> int:
        """One, and a second one where labels are known."""
        return 1 if labels.known is None else 2

    def derivatives(self, f: Array, labels: Labels) -> Derivatives:
        """Value, gradient and curvature at f (S, N)."""
        links = _links(labels)
        if links is None:
            found = IndependentLabels(self.density).derivatives(f, labels)
            return found._replace(chains=((np.zeros_like(f), np.zeros_like(f)),) * self.chains(labels))
        return with_density(_derivatives(f, labels, links, self.sign(labels)), f, labels, self.density)


def _links(labels: Labels) -> Array | None:
    """(N,) J of each link; None where there is none."""
    return labels.links if labels.links is not None and labels.links.any() else None


class _Chain(NamedTuple):
    """Messages and marginals (S, N) of chains: the odds e^f left, messages from the right, rho, e and 1 - e."""

    odds: Array
    right: Array
    rho: Array
    e: Array
    q: Array

    @classmethod
    def of(cls, odds: Array, J: Array, offsets: Array) -> _Chain:
        """The chains of bags with odds e^f (S, N) and links J (N,), 0 at the last of a bag."""
        k, place = np.exp(J), positions(offsets)
        both = np.stack([place.order, place.mirror[place.order]], axis=1)  # from the left and the right in one scan
        A = np.ascontiguousarray(odds.T).take(both, axis=0)
        ks = k[both - [0, 1]].repeat(len(odds)).reshape(A.shape)
        for here, after in place.steps:
            x, links = A[here], ks[here]
            top = x * links
            top += 1.0
            top /= x + links
            A[after] *= top
        A = A.reshape(-1, len(odds))
        left, x = np.ascontiguousarray(A.take(2 * place.inverse, axis=0).T), np.ones_like(odds)
        x[:, :-1] = A.take(2 * place.inverse[place.mirror[1:]] + 1, axis=0).T
        top, below = k * x, x + k
        top += 1.0
        right = top / below
        x /= below  # at most 1; the product of both may be no number
        x /= top
        x *= np.expm1(2.0 * J)
        np.multiply(left, right, out=top)
        np.divide(1.0, np.add(top, 1.0, out=below), out=below)
        return cls(left, right, x, np.multiply(top, below, out=top), below)

    def log_left(self, J: Array) -> Array:
        """(S, N) log of the messages from the left."""
        x, k = self.odds[:, :-1], np.exp(J[:-1])
        return np.pad(np.log((1.0 + k * x) / (k + x)), ((0, 0), (1, 0)))


def _derivatives(f: Array, labels: Labels, links: Array, sign: Array) -> Derivatives:
    """What the chain says, for the hyperbolic secant."""
    number, J, known = f.dtype.type, links.astype(f.dtype), labels.known
    largest = number(LARGEST[f.itemsize] - 2.0 * J.max())

    def chain_of(f: Array) -> tuple[_Chain, Array]:
        chain = _Chain.of(np.exp(np.minimum(f, largest)), J, labels.offsets)
        plus = log1p(chain.odds * np.exp(-J))
        return chain, plus + np.maximum(f - largest, 0.0) if f.max(initial=0.0) > largest else plus

    chain, plus = own, own_plus = chain_of(f)
    own_f = f if known is None else np.where(known < 0, f, np.where(known == 1, CERTAIN, -CERTAIN).astype(number))
    if known is not None:  # what is left of the chain between known labels
        own, own_plus = chain_of(own_f)
    value, log_a, log_root = bag_terms(
        labels.sum(own_plus), lambda: log_sum(own_f + own.log_left(J) - J, labels), labels
    )
    if log_a.max(initial=-np.inf) < -TINY:
        push = labels.spread((sign * np.exp(log_a)).astype(number)) * own.e
        vector = labels.spread(np.exp(log_root).astype(number)) * own.e
    else:  # some bag has e^30 times the weight of an e that may be as small
        log_e = -softplus(-(own_f + own.log_left(J) + np.log(own.right)))
        push = (labels.spread(sign) * np.exp(labels.spread(log_a) + log_e)).astype(number)
        vector = np.exp(labels.spread(log_root) + log_e).astype(number)
    label, pushed, alone = np.clip(push + own.e, 0.0, 1.0), push * -own.q, np.negative(plus, out=plus)
    if known is None:
        return Derivatives(value, push, pushed, vector, label, alone, ((pushed, chain.rho),))
    log_odds = f + own.log_left(J) + np.log(chain.right)  # of each known label given those before it
    log_p = np.where(known < 0, 0.0, -softplus(np.where(known == 1, -log_odds, log_odds)))
    v, own_v = chain.e * chain.q, own.e * own.q
    gradient, cut = np.where(known == 1, chain.q, push + (own.e - chain.e)), pushed - own_v
    diagonal, label = (v - own_v) + pushed, np.where(known < 0, label, known.astype(number))
    value = value + labels.sum(log_p)
    return Derivatives(value, gradient, diagonal, vector, label, alone, ((v, chain.rho), (cut, own.rho)))


def log_odds(f: Array, links: Array, offsets: Array) -> tuple[Array, Array]:
    """(S, N) log-odds of each label given f, its neighbours summed out, and (S, B) log P(all y = 0), for f (S, N).

    Examples
    --------
    >>> marginal, log_negative = log_odds(np.zeros((1, 2)), np.array([np.log(2.0), 0.0]), np.array([0, 2]))
    >>> marginal, np.exp(log_negative)
    (array([[0., 0.]]), array([[0.33333333]]))
    """
    labels = Labels(np.zeros(len(offsets) - 1, dtype=np.int64), offsets, links=links)
    if _links(labels) is None:
        return f, -labels.sum(softplus(f))
    largest = LARGEST[8] - 2.0 * links.max()
    chain = _Chain.of(np.exp(np.minimum(f, largest)), links, offsets)
    plus = log1p(chain.odds * np.exp(-links)) + np.maximum(f - largest, 0.0)
    return f + chain.log_left(links) + np.log(chain.right), -labels.sum(plus)
