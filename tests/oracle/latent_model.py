"""The hyperbolic-secant model on a small problem, with every latent value written as f = W w, w ~ N(0, I).

For this density the model is plain: y_n is 1 with probability sigma(f_n), and T_b equals max y_b with odds H. Given f,
the labels of a bag are summed or drawn exactly, for finite H and for H = inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.linalg import cholesky
from psimil.foundations.logistic import log1mexp, sigmoid, softplus
from psimil.foundations.numbers import at_least, generator
from psimil.inference.shards import Shard
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class LatentModel:
    """f = W w, y_n ~ Bernoulli(sigma(f_n)), T_b = max y_b with odds H.

    Arrays may have leading axes: w (..., J), f and y (..., N), T (..., B).

    Parameters
    ----------
    W : (N, J) root of the prior covariance of the training instances.
    offsets : (B + 1,) first instance of each bag.
    log_H : log H, may be inf.

    Examples
    --------
    >>> model = LatentModel(np.ones((2, 1)), np.array([0, 2]))
    >>> model.log_likelihood(np.zeros(2), np.array([1])).round(4)
    array([-0.2877])
    """

    W: Array
    offsets: Array
    log_H: float = np.inf  # noqa: N815  the letter of the paper

    def __post_init__(self) -> None:
        if not isinstance(self.W, np.ndarray) or self.W.ndim != 2 or self.W.dtype.kind not in "iuf":
            raise InputError(f"W must be an array of numbers (N, J), got {_shown(self.W)}.")
        offsets = self.offsets
        if not isinstance(offsets, np.ndarray) or offsets.ndim != 1 or offsets.dtype.kind not in "iu":
            raise InputError(f"offsets must be an array of whole numbers (B + 1,), got {_shown(offsets)}.")
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(self.W) or (np.diff(offsets) < 1).any():
            raise InputError(
                f"offsets must rise from 0 to the number of instances, {len(self.W)}, got {offsets.tolist()}."
            )
        if not isinstance(self.log_H, Real) or np.isnan(self.log_H):
            raise InputError(f"log_H must be a number or inf, got {self.log_H!r}.")

    def check_labels(self, T: Any) -> Array:
        """T (..., B) as an array, refused unless it holds 0 and 1, one for each bag.

        Examples
        --------
        >>> LatentModel(np.ones((2, 1)), np.array([0, 2])).check_labels([2])
        Traceback (most recent call last):
        psimil.foundations.errors.InputError: T must hold 0 or 1 for each of 1 bags, got 2.
        """
        labels = np.asarray(T)
        count = len(self.offsets) - 1
        if labels.ndim < 1 or labels.shape[-1] != count or labels.dtype.kind not in "biuf":
            raise InputError(f"T must hold 0 or 1 for each of {count} bags, got {_shown(labels)}.")
        wrong = labels[~np.isin(labels, (0, 1))]
        if len(wrong):
            raise InputError(f"T must hold 0 or 1 for each of {count} bags, got {wrong[0]}.")
        return labels

    @cached_property
    def bag(self) -> Array:
        """(N,) the bag of each instance."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def position(self) -> Array:
        """(N,) the place of each instance in its bag."""
        return np.arange(self.offsets[-1]) - self.offsets[self.bag]

    def log_survival(self, f: Array) -> Array:
        """(..., B, n) log of the probability that none of the first 1, 2, ... labels of a bag is positive."""
        shape = (*f.shape[:-1], len(self.offsets) - 1, int(np.diff(self.offsets).max()))
        each = np.zeros(shape)
        each[..., self.bag, self.position] = -softplus(f)
        return np.asarray(each.cumsum(axis=-1))

    def _log_odds_of_none(self, log_none: Array, T: Array) -> Array:
        """(..., B) log-odds that all labels of a bag are 0, given f and T."""
        return np.asarray(log_none - log1mexp(log_none) + np.where(T == 1, -self.log_H, self.log_H))

    def log_likelihood(self, f: Array, T: Array) -> Array:
        """(..., B) log p(T_b | f_b), the labels summed out."""
        log_none = self.log_survival(f)[..., -1]
        log_some = log1mexp(log_none)
        right, wrong = np.where(T == 1, log_some, log_none), np.where(T == 1, log_none, log_some)
        return np.asarray(np.logaddexp(right, wrong - self.log_H) - softplus(np.array(-self.log_H)))

    def label_probabilities(self, f: Array, T: Array) -> Array:
        """(..., N) P(y_n = 1 | f, T)."""
        log_none = self.log_survival(f)[..., -1]
        log_any = -softplus(self._log_odds_of_none(log_none, T)) - log1mexp(log_none)
        return np.asarray(np.exp(np.minimum(log_any[..., self.bag] - softplus(-f), 0.0)))

    def draw_labels(self, f: Array, T: Array, rng: np.random.Generator) -> Array:
        """(..., N) y ~ p(y | f, T): none positive, or the first positive one and then the others freely."""
        survival = self.log_survival(f)
        log_none = survival[..., -1]
        none = rng.random(log_none.shape) < sigmoid(self._log_odds_of_none(log_none, T))
        level = rng.random(log_none.shape) * -np.expm1(log_none)
        first = (level[..., None] < -np.expm1(survival)).argmax(axis=-1)[..., self.bag]
        free = rng.random(f.shape) < sigmoid(f)
        y = np.where(self.position == first, True, (self.position > first) & free)
        return np.asarray(y & ~none[..., self.bag]).astype(np.int64)


def _shown(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def prior_root(gp: SparseGP, X: Array) -> Array:
    """W (N, J) with f(X) = W w, w ~ N(0, I); its first columns are V.

    The projected residual has nothing more. The full one adds a root of K_xx - V V' without the constant mean.

    Parameters
    ----------
    X : (N, D) instances in model coordinates; few, since W has N more columns for the full residual.

    Examples
    --------
    >>> from psimil.model.kernels import RBF
    >>> gp = SparseGP.build(RBF(2.0, 1.0), np.zeros((1, 1)), residual="full")
    >>> W = prior_root(gp, np.array([[0.0], [3.0]]))
    >>> np.round(W @ W.T, 3)
    array([[2.   , 0.022],
           [0.022, 2.   ]])
    """
    if type(gp) is not SparseGP:
        raise InputError(f'oracle (residual of {type(gp).__name__}): it is no model. Use "full" or "projected".')
    X = np.asarray(X, dtype=np.float64)
    V = gp.features(X)
    if gp.residual == "projected":
        return V
    covariance = gp.kernel.gram(X, X)
    explained = V[:, : len(gp.Z)]
    scale = float(np.mean(np.diag(covariance)))
    return np.hstack([V, cholesky(covariance - explained @ explained.T, scale=scale).L])


def model_of(problem: Shard, gp: SparseGP) -> LatentModel:
    """The model of a training problem.

    Parameters
    ----------
    problem : unweighted, with the hyperbolic secant and no known instance labels.
    gp : sparse GP prior; a constant mean is one more column.

    Examples
    --------
    >>> from psimil.model.kernels import RBF
    >>> from psimil.model.bag_likelihoods import Labels
    >>> labels = Labels(np.array([1]), np.array([0, 2]))
    >>> problem = Shard(np.array([[0.0], [1.0]]), labels, np.ones(1), HyperbolicSecant())
    >>> model_of(problem, SparseGP.build(RBF(1.0, 1.0), np.zeros((1, 1)), bias=3.0)).W.round(3)
    array([[1.   , 3.   ],
           [0.607, 3.   ]])
    """
    if not isinstance(problem, Shard) or not isinstance(gp, SparseGP):
        kinds = f"{type(problem).__name__} and {type(gp).__name__}"
        raise InputError(f"oracle (problem, gp): they must be a Shard and a SparseGP, got {kinds}.")
    if not isinstance(problem.density, HyperbolicSecant):
        raise InputError("oracle (density): only the hyperbolic secant has a Gibbs sampler here. Use HyperbolicSecant.")
    if (problem.weights != 1).any():
        raise InputError("oracle (weights): weighted bags are no model. Use weights of one.")
    if problem.labels.known is not None:
        raise InputError("oracle (known labels): known instance labels are not supported. Leave them out.")
    return LatentModel(prior_root(gp, problem.X), problem.labels.offsets, problem.labels.log_H)


def simulate(model: LatentModel, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Draws from the model before any data: w (count, J), y (count, N), T (count, B).

    Examples
    --------
    >>> model = LatentModel(np.ones((3, 1)), np.array([0, 2, 3]))
    >>> _, y, T = simulate(model, 4, np.random.default_rng(0))
    >>> bool((T == np.stack([y[:, :2].max(axis=1), y[:, 2]], axis=1)).all())
    True
    """
    at_least(1, whole=True, count=count)
    w = generator(rng).standard_normal((count, model.W.shape[1]))
    y = (rng.random((count, len(model.W))) < sigmoid(w @ model.W.T)).astype(np.int64)
    largest = np.maximum.reduceat(y, model.offsets[:-1], axis=1)
    flipped = rng.random(largest.shape) < sigmoid(np.array(-model.log_H))
    return w, y, np.where(flipped, 1 - largest, largest)
