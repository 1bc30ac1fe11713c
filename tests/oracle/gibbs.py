"""A Gibbs sampler of the true posterior: labels and Polya-Gamma variables given f, then f given both.

Given f the labels and the Polya-Gamma variables are independent, so a sweep has two blocks. Seen at w alone, the chain
of a two-block sampler is reversible; the ranks rest on that. Many chains run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.latent_model import LatentModel
from oracle.polya_gamma import draw_polya_gamma
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least, generator

Array = NDArray[Any]
Sweep = Callable[[LatentModel, Array, Array, np.random.Generator], Array]


def sweep(model: LatentModel, T: Array, w: Array, rng: np.random.Generator) -> Array:
    """One sweep: y | f, T and omega | f, then w | omega, y, all conditionals of Eqs. (5) to (7).

    Parameters
    ----------
    T : (B,) or (C, B) bag labels.
    w : (C, J) state of C chains.

    Returns
    -------
    w : (C, J) next state.

    Examples
    --------
    >>> model = LatentModel(np.ones((2, 1)), np.array([0, 2]))
    >>> sweep(model, np.array([1]), np.zeros((5, 1)), np.random.default_rng(0)).shape
    (5, 1)
    """
    f = w @ model.W.T
    y = model.draw_labels(f, np.broadcast_to(T, (len(w), len(model.offsets) - 1)), rng)
    return draw_weights(model.W, draw_polya_gamma(f, rng), y, rng)


def draw_weights(W: Array, omega: Array, y: Array, rng: np.random.Generator) -> Array:
    """w ~ N(P^-1 W'(y - 1/2), P^-1) with P = I + W' Omega W.

    A right-hand side drawn from N(W'(y - 1/2), P) and one solve give such a w; nothing is factorised twice.

    Parameters
    ----------
    W : (N, J).
    omega, y : (C, N).

    Returns
    -------
    w : (C, J).

    Examples
    --------
    >>> w = draw_weights(np.ones((1, 1)), np.ones((9000, 1)), np.ones((9000, 1)), np.random.default_rng(0))
    >>> bool(abs(w.mean() - 0.25) < 0.03), bool(abs(w.var() - 0.5) < 0.03)
    (True, True)
    """
    root = np.sqrt(omega)
    scaled = root[..., None] * W
    P = np.eye(W.shape[1]) + scaled.swapaxes(-1, -2) @ scaled
    noise = rng.standard_normal((*omega.shape[:-1], W.shape[1]))
    right = (y - 0.5 + root * rng.standard_normal(omega.shape)) @ W + noise
    return np.asarray(np.linalg.solve(P, right[..., None])[..., 0])


def draw_posterior(
    model: LatentModel,
    T: Array,
    rng: np.random.Generator,
    *,
    chains: int = 100,
    burn_in: int = 200,
    draws: int = 200,
    thin: int = 1,
    step: Sweep = sweep,
) -> Array:
    """Draws of w from p(w | T), from chains that start at independent draws of the prior.

    Parameters
    ----------
    T : (B,) bag labels, the same in every chain; or (chains, B), one data set per chain.
    burn_in : sweeps of each chain before the first draw.
    thin : sweeps from one draw to the next.
    step : a sweep of the sampler.

    Returns
    -------
    w : (draws, chains, J).

    Examples
    --------
    >>> model = LatentModel(np.ones((1, 1)), np.array([0, 1]))
    >>> w = draw_posterior(model, np.array([1]), np.random.default_rng(0), chains=50, draws=100)
    >>> bool(0.3 < w.mean() < 0.5)
    True
    """
    generator(rng)
    T = model.check_labels(T)
    at_least(0, whole=True, chains=chains, burn_in=burn_in, draws=draws, thin=thin)
    if min(chains, draws, thin) < 1:
        raise InputError(
            f"Gibbs sampler (chains={chains}, burn_in={burn_in}, draws={draws}, thin={thin}): "
            "there is nothing to draw. Use at least one of each."
        )
    w = rng.standard_normal((chains, model.W.shape[1]))
    kept = np.empty((draws, *w.shape))
    for _ in range(burn_in):
        w = step(model, T, w, rng)
    for i in range(draws):
        for _ in range(thin):
            w = step(model, T, w, rng)
        kept[i] = w
    return kept


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """Mean over draws and chains, and its standard error from the spread of the chains' own means.

    Parameters
    ----------
    values : (draws, chains, ...).

    Examples
    --------
    >>> mean, error = mean_and_error(np.array([[1.0, 3.0], [1.0, 3.0]]))
    >>> float(mean), float(error)
    (2.0, 1.0)
    """
    per_chain = values.mean(axis=0)
    return np.asarray(per_chain.mean(axis=0)), per_chain.std(axis=0, ddof=1) / np.sqrt(len(per_chain))


def scale_reduction(values: Array) -> Array:
    """R-hat: how much wider the pooled draws are than those of a chain; 1 when chains agree.

    Parameters
    ----------
    values : (draws, chains, ...).

    Examples
    --------
    >>> float(scale_reduction(np.array([[0.0, 0.0], [1.0, 1.0]])).round(3))
    0.707
    """
    within = values.var(axis=0, ddof=1).mean(axis=0)
    between = values.mean(axis=0).var(axis=0, ddof=1)
    return np.asarray(np.sqrt((len(values) - 1) / len(values) + between / within))
