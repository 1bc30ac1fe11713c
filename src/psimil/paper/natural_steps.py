"""q(v) of the augmented posterior by its natural parameters: whole updates, steps of minibatches, and growth.

The natural parameters of q(v) are linear in the statistics: precision I + V' Theta V and V' kappa. A step of size rho
from a batch whose bags carry the share w of all weight is

    precision <- (1 - rho) precision + rho (I + V' Theta V / w),    linear <- (1 - rho) linear + rho V' kappa / w,

which for w = 1 and rho = 1 is a whole pass. The step sizes rho_t = max((1 + t / 4r)^-0.7, w), r being the instances of
a batch per inducing point, fall slowly, sum to infinity, and never fall below the share of the batch, at which every
bag of a pass counts about once. After two steps the mean goes 1.8 times as far: directions in which labels are
uncertain converge slowly, and factors below 2 keep a step stable (docs/results/scaling.md).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from psimil.foundations.arrays import Array
from psimil.foundations.linalg import cholesky
from psimil.model.sparse_gp import Posterior
from psimil.paper.passes import Statistics

DELAY, FORGETTING = 4.0, 0.7
RELAXED_AFTER, RELAXATION = 2, 1.8  # steps before the mean goes further, and how far


def from_natural(precision: Array, linear: Array) -> Posterior:
    """q(v) from its natural parameters: R R' = precision (M, M), m = precision^-1 linear (M,).

    Examples
    --------
    >>> from_natural(np.array([[4.0]]), np.array([2.0])).m
    array([0.5])
    """
    R = cholesky(precision, scale=1.0).L
    return Posterior(cho_solve((R, True), linear, check_finite=False), R)


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


def grown(posterior: Posterior, factor: float) -> Posterior:
    """q(v) after ``factor`` times as much of the same data.

    Examples
    --------
    >>> grown(Posterior(np.array([0.5]), np.array([[np.sqrt(2.0)]])), 3.0).m  # 1 = 2 x 0.5 becomes 3 = 4 x 0.75
    array([0.75])
    """
    identity = np.eye(len(posterior.m))
    precision = posterior.R @ posterior.R.T
    return from_natural(identity + factor * (precision - identity), factor * (precision @ posterior.m))


def natural_step(posterior: Posterior, statistics: Statistics, rho: float) -> Posterior:
    """q(v) after a step of size rho towards the global update of these statistics.

    Examples
    --------
    >>> q = natural_step(Posterior.prior(1), Statistics(np.ones((1, 1)), np.ones(1), 0.0, 0.0, 0.0, 0.0), 1.0)
    >>> q.m
    array([0.5])
    """
    before = posterior.R @ posterior.R.T
    target = statistics.V_theta_V + np.eye(len(posterior.m))
    precision = (1.0 - rho) * before + rho * target
    linear = (1.0 - rho) * (before @ posterior.m) + rho * statistics.V_kappa
    return from_natural(precision, linear)


def step_size(t: int, share: float, per_point: float = 1.0) -> float:
    """rho_t of step t = 0, 1, ... with batches of this share of the data and so many instances per inducing point.

    Examples
    --------
    >>> step_size(0, 0.01), round(step_size(10, 0.01), 3), round(step_size(10, 0.01, 5.0), 3)
    (1.0, 0.416, 0.753)
    """
    return max(float((1.0 + t / (DELAY * max(per_point, 1.0))) ** -FORGETTING), share)


def relaxed(before: Posterior, after: Posterior, t: int) -> Posterior:
    """q(v) after step t with the mean moved further, once the first steps are done.

    Examples
    --------
    >>> relaxed(Posterior.prior(1), Posterior(np.ones(1), np.eye(1)), 2).m
    array([1.8])
    """
    if t < RELAXED_AFTER:
        return after
    return Posterior(before.m + RELAXATION * (after.m - before.m), after.R)
