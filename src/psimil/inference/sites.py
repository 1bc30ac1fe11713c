"""Sites: what each factor of the likelihood says about its latent values, put as a Gaussian would put it.

A factor p(T_b | f_b), f_b ~ q with mean mu, becomes the site

    log s_b(f) = g'(f - mu) - (f - mu)' Lambda (f - mu) / 2,    Lambda = diag(d) + sign r r' + chains,

with expectations of gradient and curvature over draws of f_b: g = E gradient, and of the vectors r their mean, with
their variance on the diagonal. At the fixed point of the variational bound q(v) is the prior times all sites. That
leaves out how p_b / s_b bends. The tilted density of a factor, q(f_b) p_b / s_b, knows it: with expectations over it in
place of those over q, mean and covariance of q(v) are nearly those that expectation propagation matches. And with q_s,
the prior times all sites over their integral Z_s,

    log p(T) = log Z_s - KL(q || q_s) + sum_b log E_q[p_b / s_b], nearly,

where the bound has E_q log p_b / s_b, which Jensen's inequality makes smaller. Weights p_b / s_b of the draws are
nearly equal, for one bag alone changes little; so the same draws serve for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from psimil.compute.backend import Backend
from psimil.foundations.scans import innovations, times
from psimil.model.bag_likelihoods import BagLikelihood, Derivatives, Labels
from psimil.model.chains import mean_chain

Array = NDArray[Any]
Chains = tuple[tuple[Array, Array], ...]  # c and rho (n,) of every chain in the curvature; none for independent labels

MOST_SPREAD = 1.0  # standard deviation of the log weights of a factor's draws; wider ones are drawn together


@dataclass(frozen=True)
class Curvature:
    """Lambda of bags: d and r (n,), and chains, off whose diagonals Lambda has what they have."""

    diagonal: Array
    vector: Array
    chains: Chains

    def times(self, values: Array, labels: Labels, sign: Array) -> Array:
        """(S, n) Lambda v for values v (S, n).

        Examples
        --------
        >>> labels = Labels(np.ones(1), np.array([0, 2]))
        >>> Curvature(np.ones(2), np.array([1.0, 2.0]), ()).times(np.ones((1, 2)), labels, np.ones(1))
        array([[4., 7.]])
        """
        found = labels.spread(sign * labels.sum(self.vector * values))
        found *= self.vector
        rest = self.diagonal
        for c, rho in self.chains:
            found += times(values, c, rho, labels.offsets)
            rest = rest - c
        found += rest * values
        return np.asarray(found)

    def sums(self, V: Any, w: Array, linear: Array, labels: Labels, sign: Array, backend: Backend) -> list[Array]:
        """V' diag(w) Lambda V (M, M) and V' diag(w) linear (M,) of rows V, w (n,) being the same throughout a bag."""
        rest = self.diagonal
        for c, _ in self.chains:
            rest = rest - c
        total, gradient = backend.weighted_sums(V, w * rest, w * linear)
        total += backend.bag_gram(V, np.sqrt(w) * self.vector, labels.offsets, sign)
        for c, rho in self.chains:
            W = backend.scanned(V, rho, labels.offsets)
            total += backend.weighted_sums(W, w * innovations(c, rho), 0.0 * w)[0]
        return [total, gradient]


@dataclass(frozen=True)
class GaussianSites:
    """Per instance (n,): g, d, r, and pi = P(y = 1 | T), before bags are weighted; and the chains of the curvature."""

    gradient: Array
    diagonal: Array
    vector: Array
    pi: Array
    chains: Chains = ()

    @classmethod
    def empty(cls, instances: int, chains: int = 0) -> Self:
        """Room for so many instances, and chains of them."""
        return cls._of(list(np.empty((4 + 2 * chains, instances))))

    @classmethod
    def _of(cls, arrays: list[Array]) -> Self:
        g, d, r, pi, *rest = arrays
        return cls(g, d, r, pi, tuple(zip(rest[::2], rest[1::2], strict=True)))

    @property
    def curvature(self) -> Curvature:
        """Lambda."""
        return Curvature(self.diagonal, self.vector, self.chains)

    @property
    def _arrays(self) -> list[Array]:
        return [self.gradient, self.diagonal, self.vector, self.pi, *(one for pair in self.chains for one in pair)]

    def put(self, rows: slice, part: GaussianSites) -> None:
        """Write the sites of some instances."""
        for values, some in zip(self._arrays, part._arrays, strict=True):
            values[rows] = some

    def taken(self, rows: slice, precision: Any = np.float64) -> GaussianSites:
        """The sites of some instances."""
        return self._of([values[rows].astype(precision, copy=False) for values in self._arrays])

    def gradient_at(self, mu: Array, rows: slice | Array) -> Array:
        """The expected gradient of some instances, wherever their means mu are."""
        return np.asarray(self.gradient[rows])


def sites_of(found: Derivatives, sign: Array, w: Array | None = None) -> GaussianSites:
    """Expectations over draws, of weights w (S, n) if given.

    Parameters
    ----------
    sign : (n,) of r r' in the curvature of each instance's bag.

    Examples
    --------
    >>> draws = Derivatives(*(np.array([[1.0], [3.0]]) for _ in range(6)))
    >>> sites_of(draws, np.ones(1)).diagonal  # 2, and the variance of the vector
    array([3.])
    """

    def mean(values: Array) -> Array:
        return np.asarray(values.mean(axis=0) if w is None else np.einsum("sn,sn->n", w, values))

    r, squares, pi = mean(found.vector), mean(np.square(found.vector)), np.minimum(mean(found.label), 1.0)
    chains = tuple(mean_chain(c, rho, w) for c, rho in found.chains)
    return GaussianSites(mean(found.gradient), mean(found.diagonal) + sign * (squares - r * r), r, pi, chains)


@dataclass(frozen=True)
class Tilt:
    """Weights of draws for the tilted densities of factors.

    Parameters
    ----------
    weights : (S, n) of the draws of each instance's factor, which sum to one.
    log_means : (n,) log E_q[p_b / s_b], at the first instance of each factor; 0 elsewhere.
    """

    weights: Array
    log_means: Array


def tilt(
    found: Derivatives, sites: GaussianSites, df: Array, curved: Array, labels: Labels, likelihood: BagLikelihood
) -> Tilt:
    """How much each draw counts where a factor itself is put in place of its site.

    Parameters
    ----------
    found : derivatives at draws f.
    sites : of these instances, by expectations over q.
    df, curved : (S, n) draws f less their means, and Lambda times that.

    Weights that differ by so much that few draws count are drawn together.
    """
    each = (sites.gradient - df.dtype.type(0.5) * curved) * df
    of_bags = found.value - labels.sum(each)
    separate = likelihood.separate(labels)
    first = separate.copy()  # of each factor
    first[labels.offsets[:-1]] = True
    log_w = np.where(separate, found.alone - each, labels.spread(of_bags.astype(df.dtype)))
    log_w -= (top := log_w.max(axis=0))
    spread = np.sqrt(np.einsum("sn,sn->n", log_w, log_w) / len(log_w) - np.square(log_w.mean(axis=0)))
    weights = np.exp(log_w)
    log_means = np.where(first, top + np.log(weights.mean(axis=0)), 0.0)
    if (wide := spread > MOST_SPREAD).any():  # so that more than a few draws count
        weights[:, wide] = np.exp(log_w[:, wide] * (MOST_SPREAD / spread[wide]))
    weights /= weights.sum(axis=0)
    return Tilt(weights, log_means)


def tilted_sites(
    found: Derivatives, sites: GaussianSites, df: Array, labels: Labels, likelihood: BagLikelihood
) -> tuple[GaussianSites, Tilt]:
    """Sites by expectations over tilted densities, and the weights behind them.

    Matching their covariance takes away from the expected curvature what the gradient of log p_b / s_b varies by; of
    that matrix only the diagonal is kept.
    """
    sign = likelihood.sign(labels).astype(df.dtype)
    bend = sites.curvature.times(df, labels, sign)
    tilted = tilt(found, sites, df, bend, labels, likelihood)
    new = sites_of(found, labels.spread(sign), tilted.weights)
    bend += found.gradient
    bend -= new.gradient
    lost = np.einsum("sn,sn,sn->n", tilted.weights, bend, bend)
    return replace(new, diagonal=new.diagonal - lost), tilted
