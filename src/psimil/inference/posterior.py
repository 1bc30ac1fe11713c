"""q(v) = N(m, S) in whitened coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import cholesky, inverse_upper, solve_lower, solve_upper

Array = NDArray[Any]


@dataclass(frozen=True)
class Posterior:
    """q(v) = N(m, S) with S = (R R')^-1: Eqs. (8) and (23) with u = L v.

    Parameters
    ----------
    m : (M,) mean.
    R : (M, M) lower Cholesky factor of the precision.

    Examples
    --------
    >>> Posterior.prior(2).kl
    0.0
    """

    m: Array
    R: Array

    @classmethod
    def prior(cls, size: int) -> Posterior:
        """The prior N(0, I): Eq. (2) with u = L v."""
        return cls(np.zeros(size), np.eye(size))

    @classmethod
    def concentrated(cls, size: int, spread: float) -> Posterior:
        """N(0, spread^2 I): a start from which densities with two basins find the one near zero."""
        return cls(np.zeros(size), np.eye(size) / spread)

    @cached_property
    def U(self) -> Array:
        """R^-T (M, M), upper triangular: S = U U'."""
        return inverse_upper(self.R)

    @property
    def S(self) -> Array:
        """(M, M) covariance."""
        return self.U @ self.U.T

    @property
    def kl(self) -> float:
        """KL(q(v) || N(0, I))."""
        trace = np.square(self.U).sum()
        return float(0.5 * (trace + self.m @ self.m - len(self.m)) + np.log(np.diag(self.R)).sum())


def from_natural(precision: Array, linear: Array) -> Posterior:
    """q(v) from its natural parameters: R R' = precision (M, M), m = precision^-1 linear (M,).

    Examples
    --------
    >>> from_natural(np.array([[4.0]]), np.array([2.0])).m
    array([0.5])
    """
    R = cholesky(precision, scale=1.0).L
    return Posterior(solve_upper(R.T, solve_lower(R, linear)), R)


def global_update(V_theta_V: Array, V_kappa: Array) -> Posterior:
    """Eqs. (26) and (27), whitened: R R' = I + V' Theta V, m = (R R')^-1 V' kappa.

    They are Eqs. (12) and (13) for the hyperbolic secant; Eqs. (54), (55), (61) and (62) derive them.

    Parameters
    ----------
    V_theta_V : (M, M) symmetric.
    V_kappa : (M,).

    Examples
    --------
    >>> global_update(np.eye(1), np.ones(1)).m
    array([0.5])
    """
    precision = V_theta_V.copy()
    precision[np.diag_indices_from(precision)] += 1.0
    return from_natural(precision, V_kappa)
