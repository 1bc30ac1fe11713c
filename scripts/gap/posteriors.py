"""The posteriors of a fit with its kernel fixed, and what each says of the latent values of new instances."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from psimil.estimators.parameters import OF_AUGMENTED, OF_VARIATIONAL
from psimil.foundations import hamiltonian
from psimil.foundations.hamiltonian import Chains, sample
from psimil.foundations.logistic import sigmoid
from psimil.inference.algorithm import Variational
from psimil.inference.history import Convergence
from psimil.inference.options import Options, Parameters
from psimil.inference.sampled import log_posterior
from psimil.inference.shards import Shard
from psimil.inference.variational import newton
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP, latent_moments
from psimil.paper.ascent import ascend
from psimil.predictive.moments import instance_moments

Array = NDArray[Any]

ROWS = 512  # new instances whose draws are looked at together


@dataclass(frozen=True)
class Answer:
    """What a posterior says of N new instances: latent mean, latent deviation, P(y = 1), each (N,).

    ``place`` (N,) is where given true values stand in it, uniform between 0 and 1 for a calibrated posterior.
    """

    mean: Array
    deviation: Array
    probability: Array
    place: Array | None = None

    def inside(self, level: float) -> Array:
        """(N,) whether central intervals of this mass hold the true values."""
        assert self.place is not None  # asked only where truth is known
        return np.abs(self.place - 0.5) < 0.5 * level


def augmented(shard: Shard, gp: SparseGP) -> Posterior:
    """q(v) of the paper's algorithm, with the rule by which a fit stops."""
    settled = Convergence(OF_AUGMENTED["tol"], len(shard.weights))
    for record in ascend(shard, KernelState.first(gp)):
        if settled(record) or record.step >= Parameters.max_iter:
            return record.next_posterior
    raise AssertionError  # passes have no end


def variational(shard: Shard, gp: SparseGP, seed: int) -> Posterior:
    """q(v) of a default fit, with its draws and the rule by which it stops."""
    settled = Convergence(OF_VARIATIONAL["tol"], len(shard.weights))
    start = KernelState(gp, newton(shard, gp, np.zeros(gp.size)))
    for record in Variational(Options(tol=OF_VARIATIONAL["tol"]), seed).passes(shard, start):
        if settled(record) or record.step >= Parameters.max_iter:
            return record.posterior
    raise AssertionError  # steps have no end


@contextmanager
def every_draw() -> Iterator[None]:
    """While it lasts, sampling hands on all draws and not 512 of them."""
    kept, hamiltonian.KEPT = hamiltonian.KEPT, np.iinfo(np.int64).max
    try:
        yield
    finally:
        hamiltonian.KEPT = kept


def long_chains(
    shard: Shard, gp: SparseGP, start: Posterior, rng: np.random.Generator, chains: int, draws: int
) -> tuple[Chains, float]:
    """All draws of long sampling, which stand for the exact posterior, and the seconds that they took."""
    began = time.perf_counter()
    with every_draw():
        found = sample(log_posterior(shard, gp), start, rng, chains=chains, draws=draws)
    return found, time.perf_counter() - began


def gaussian_answer(gp: SparseGP, posterior: Posterior, X: Array, truth: Array | None = None) -> Answer:
    """What q(v) = N(m, S) says of instances X (N, D) whose true latent values may be given."""
    mean, variance = latent_moments(gp, posterior, X)
    deviation = np.sqrt(variance)
    place = None if truth is None else ndtr((truth - mean) / deviation)
    return Answer(mean, deviation, instance_moments(mean, variance).prob, place)


def drawn_answer(f: Array, truth: Array | None = None, rng: np.random.Generator | None = None) -> Answer:
    """What draws f (S, N) of latent values say.

    The place of a true value above k of S draws is (k + u) / (S + 1) with u uniform: uniform for independent draws,
    however few they are.

    Examples
    --------
    >>> drawn_answer(np.array([[0.0], [2.0]]), np.array([9.0]), np.random.default_rng(0)).place > 2 / 3
    array([ True])
    """
    place = None
    if truth is not None and rng is not None:
        place = ((f < truth).sum(axis=0) + rng.random(f.shape[1])) / (len(f) + 1)
    return Answer(f.mean(axis=0), f.std(axis=0), sigmoid(f).mean(axis=0), place)


def chain_answer(gp: SparseGP, v: Array, X: Array) -> Answer:
    """What draws v (S, M) say of instances X (N, D), some instances at a time."""
    parts = [drawn_answer(v @ gp.features(X[a : a + ROWS]).T) for a in range(0, len(X), ROWS)]
    return Answer(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("mean", "deviation", "probability")))


def distance(found: Answer, exact: Answer) -> dict[str, float]:
    """Ratio of latent deviations, median and both tenths, and mean absolute errors, against the exact posterior."""
    low, ratio, high = np.quantile(found.deviation / exact.deviation, [0.1, 0.5, 0.9])
    return {
        "ratio": float(ratio),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "probability_error": float(np.abs(found.probability - exact.probability).mean()),
        "mean_error": float(np.abs(found.mean - exact.mean).mean()),
    }
