"""The authors' code where it differs from the paper: its label surrogate, clipped density, prior variance of one.

None of these has a bound that inference could raise; they are here to reproduce published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.logistic import sigmoid
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import GammaMixture, check_above_zero
from psimil.model.sparse_gp import SparseGP
from psimil.paper.label_posteriors import LabelPosterior, Rule, factorised


def largest_other(mu: Array, labels: Labels, previous: Array | None = None) -> LabelPosterior:
    """The authors' published surrogate: E[max of the others] replaced by their largest pi, all instances at once.

    Examples
    --------
    >>> labels = Labels(T=np.array([1]), offsets=np.array([0, 2]), log_H=np.log(100.0))
    >>> largest_other(np.zeros(2), labels, np.array([0.9, 0.1])).pi.round(3)
    array([0.984, 0.613])
    """
    pi = np.full(len(mu), 0.5) if previous is None else previous
    first = labels.spread(np.maximum.reduceat(pi, labels.offsets[:-1]))
    is_first = pi == first
    alone = labels.spread(labels.sum(is_first.astype(float))) == 1
    rest = np.where(is_first, -1.0, pi)
    second = labels.spread(np.maximum(np.maximum.reduceat(rest, labels.offsets[:-1]), 0.0))
    others = np.where(is_first & alone, second, first)
    others = np.where(labels.spread(np.diff(labels.offsets)) == 1, 0.0, others)
    updated = sigmoid(mu + labels.log_H * labels.spread(2.0 * labels.T - 1.0) * (1.0 - others))
    if labels.known is not None:
        updated = np.where(labels.known < 0, updated, labels.known)
    return factorised(mu, updated, labels)


SURROGATE = Rule(largest_other, ascends=False)


@dataclass(frozen=True)
class UnitSparseGP(SparseGP):
    """The prior with the full residual, but with 1 for k_nn in the E f_n^2 behind theta."""

    name: ClassVar[str] = "unit"

    def second_moment(self, X: Array, mu: Array, s2: Array) -> Array:
        """|mu^2 + s2 + 1 - k_nn| (n,), which is no second moment: before the absolute value it can be negative."""
        surplus = 1.0 - np.asarray(self.kernel.diagonal(X), dtype=np.float64)
        return np.abs(mu * mu + s2 + surplus)


@dataclass(frozen=True)
class ClippedGammaMixture(GammaMixture):
    """The Gamma mixture of the authors' code: x is clipped to [-clip, clip] inside psi but not in the 1 / x of theta.

    Not a density that inference can bound; only for preset "published".

    Examples
    --------
    >>> ClippedGammaMixture(1.0, 4.0).theta(np.array([10.0])).round(4)
    array([0.0353])
    """

    has_bound: ClassVar[bool] = False
    clip: float = 3.0

    def __post_init__(self) -> None:
        """Refuse parameters that give no density."""
        super().__post_init__()
        check_above_zero("clipped gamma density", clip=self.clip)

    def log_prob(self, x: Array) -> Array:
        """-alpha log(beta + clipped x^2 / 2)."""
        return super().log_prob(np.clip(x, -self.clip, self.clip))

    def theta(self, c: Array) -> Array:
        """Theta of the Gamma mixture at min(c, clip), times min(c, clip) / c."""
        c = np.abs(c)
        inside = np.minimum(c, self.clip)
        return super().theta(inside) * (inside / np.maximum(c, np.finfo(float).tiny))
