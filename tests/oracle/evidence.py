"""log p(T) of small problems: the integral of the bag likelihoods over w, by quadrature or by importance sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from oracle.latent_model import LatentModel
from psimil.foundations.errors import InputError
from psimil.foundations.linalg import cholesky, solve_lower
from psimil.foundations.logistic import trapezoid
from psimil.foundations.numbers import at_least, generator

Array = NDArray[Any]

LARGEST_GRID = 2_000_000
ROWS = 20_000
FREEDOM = 8  # of the Student law that samples are drawn from: tails wider than those of any posterior here


@dataclass(frozen=True)
class Evidence:
    """log p(T), its standard error, and on how many effective samples it rests (inf for quadrature).

    Examples
    --------
    >>> Evidence(-1.0).error
    0.0
    """

    log_p: float
    error: float = 0.0
    effective_samples: float = np.inf


def quadrature_evidence(model: LatentModel, T: Array, order: int = 64) -> Evidence:
    """log p(T) on a grid over w, exact to rounding for one to three columns of W.

    Parameters
    ----------
    T : (B,) bag labels.
    order : points of the trapezoid rule along each column.

    Examples
    --------
    >>> model = LatentModel(np.ones((1, 1)), np.array([0, 1]))
    >>> round(quadrature_evidence(model, np.array([1])).log_p, 10) == round(float(np.log(0.5)), 10)
    True
    """
    at_least(2, whole=True, order=order)
    T = model.check_labels(T)
    columns = model.W.shape[1]
    if order**columns > LARGEST_GRID:
        raise InputError(
            f"quadrature (order={order}): {columns} columns need too many points. Use sampled_evidence or less."
        )
    x, weight = trapezoid(order)
    indices = np.indices((order,) * columns).reshape(columns, -1)
    parts = [
        np.log(weight[part]).sum(axis=0) + _log_likelihood(model, T, x[part].T)
        for part in np.array_split(indices, max(indices.shape[1] // ROWS, 1), axis=1)
    ]
    return Evidence(float(np.logaddexp.reduce(np.concatenate(parts))))


def sampled_evidence(
    model: LatentModel, T: Array, draws: Array, rng: np.random.Generator, samples: int = 100_000
) -> Evidence:
    """log p(T) by importance sampling from a Student law with the mean and covariance of posterior draws.

    Parameters
    ----------
    T : (B,) bag labels.
    draws : (..., J) draws of w from the posterior.

    Examples
    --------
    >>> from oracle.gibbs import draw_posterior
    >>> model, T, rng = LatentModel(np.ones((1, 1)), np.array([0, 1])), np.array([1]), np.random.default_rng(0)
    >>> found = sampled_evidence(model, T, draw_posterior(model, T, rng), rng)
    >>> abs(found.log_p - np.log(0.5)) < 5 * found.error < 0.02
    True
    """
    at_least(2, whole=True, samples=samples)
    generator(rng)
    T = model.check_labels(T)
    pooled = draws.reshape(-1, draws.shape[-1])
    mean = pooled.mean(axis=0)
    L = cholesky(np.atleast_2d(np.cov(pooled, rowvar=False))).L
    columns, log_weights = len(mean), []
    for start in range(0, samples, ROWS):
        size = min(ROWS, samples - start)
        normal = rng.standard_normal((size, columns))
        scale = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size))
        w = mean + (scale[:, None] * normal) @ L.T
        log_prior = -0.5 * np.square(w).sum(axis=1) - 0.5 * columns * np.log(2 * np.pi)
        log_weights.append(log_prior + _log_likelihood(model, T, w) - _log_student(w - mean, L))
    log_weight = np.concatenate(log_weights)
    top = log_weight.max()
    ratio = np.exp(log_weight - top)
    average = ratio.mean()
    error = ratio.std(ddof=1) / np.sqrt(samples) / average
    return Evidence(float(top + np.log(average)), float(error), float(ratio.sum() ** 2 / np.square(ratio).sum()))


def _log_likelihood(model: LatentModel, T: Array, w: Array) -> Array:
    return np.asarray(model.log_likelihood(w @ model.W.T, T).sum(axis=-1))


def _log_student(difference: Array, L: Array) -> Array:
    """Log density of the Student law with scale L L' at difference (n, J)."""
    columns = len(L)
    distance = np.square(solve_lower(L, difference.T)).sum(axis=0)
    constant = gammaln(0.5 * (FREEDOM + columns)) - gammaln(0.5 * FREEDOM) - 0.5 * columns * np.log(FREEDOM * np.pi)
    return np.asarray(constant - np.log(np.diag(L)).sum() - 0.5 * (FREEDOM + columns) * np.log1p(distance / FREEDOM))
