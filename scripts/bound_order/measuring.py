"""A grid of kernels, each kept as it is by a fit: log p(T) on fresh draws, and what held-out bags say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bound_order.problems import PROBLEMS, Fold
from psimil import VGPMIL
from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.evidence import tilted_sums
from psimil.inference.out_of_bag import log_predictive
from psimil.inference.shards import Shard
from psimil.inference.variational import iterate_at
from psimil.model.bag_likelihoods import Labels
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF, Linear
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]


@dataclass(frozen=True)
class OrderSettings:
    """The grid, and how a kernel is fitted and judged.

    Parameters
    ----------
    variances : of the RBF.
    lengthscales : in units of the default one, the square root of the number of features.
    draws : fresh antithetic draws that scores are worked out on at the q(v) of the fit.
    halvings : of held-out bags, to tell how far their own order can be trusted.
    """

    variances: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)
    lengthscales: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    inducing: int = 200
    draws: int = 512
    halvings: int = 200
    compared: tuple[str, ...] = ("musk1",)  # data sets on which the augmented posterior is looked at, too
    seed: int = 2026

    @property
    def kernels(self) -> list[tuple[float, float]]:
        """Variance and length scale of every kernel of the grid."""
        return [(v, scale) for v in self.variances for scale in self.lengthscales]


@dataclass(frozen=True)
class FreshScores:
    """What q(v) says of log p(T) in nats per bag, on draws that the fit has not seen.

    ``evidence`` is the estimate that the kernel is learned on, ``bound`` the variational bound with its standard
    ``error``. ``importance`` is the log mean of p(T, v) / q(v) over the same draws, which comes the nearer to log p(T)
    the less q(v) misses.
    """

    evidence: float
    bound: float
    error: float
    importance: float


def fresh_scores(model: TrainedModel, bags: Bags, y: Array, draws: int, seed: int) -> FreshScores:
    """The scores of a fitted model on its training bags."""
    X, q = model.scaling.apply(bags.X), model.posterior
    shard = Shard(X, Labels(y, bags.offsets), np.ones(len(y)), HyperbolicSecant(), keep=True)
    noise = Draws.shared(antithetic_draws(model.gp.size, draws, seed))
    found, v = iterate_at(shard, model.gp, q, noise), noise.of(q)
    assert found.local is not None  # one shard in memory
    tilted, _ = tilted_sums(shard, model.gp, v, found.local)
    evidence = replace(found, sums=replace(found.sums, tilted=tilted)).log_evidence
    prior, own = np.square(v.blocks[0]).sum(axis=0), np.square(noise.blocks[0]).sum(axis=0)
    _, as_drawn = run_bag_pass(shard, model.gp, v._replace(root=None))  # not stretched: the weights are of these draws
    log_weights = as_drawn.likelihood[0] - 0.5 * (prior - own) - np.log(np.diag(q.R)).sum()
    importance = float(logsumexp(log_weights) - np.log(draws))
    bags_count = len(y)
    return FreshScores(evidence / bags_count, found.bound.total / bags_count, found.bound.error / bags_count,
                       importance / bags_count)  # fmt: skip


@single_threaded_blas()
def order_rows(name: str, directory: str | None, settings: OrderSettings) -> Iterator[list[dict[str, Any]]]:
    """Fold by fold, a row for each posterior and kernel."""
    for fold, found in enumerate(PROBLEMS[name].folds(directory, settings.seed)):
        posteriors = ("variational", "augmented") if name in settings.compared else ("variational",)
        rows = [row for posterior in posteriors for row in fold_rows(found, posterior, settings)]
        yield [{"data": name, "fold": fold, **row} for row in rows]


def fold_rows(fold: Fold, posterior: str, settings: OrderSettings) -> Iterator[dict[str, Any]]:
    """A row for each kernel, all with the same inducing points."""
    bags, y, new, y_new = fold
    D, points = bags.n_features, None
    for variance, scale in settings.kernels:
        kernel = Linear(1.0 / D) + RBF(variance, scale * float(np.sqrt(D)))
        began = time.perf_counter()
        fitted = VGPMIL(kernel=kernel, hyperparameters=None, posterior=posterior, calibrate=False,
                        n_inducing=settings.inducing, inducing_points=points,
                        random_state=settings.seed).fit(bags, y)  # fmt: skip
        seconds, points, model = time.perf_counter() - began, fitted.inducing_points_, fitted.model_
        own = fitted.elbo_ / len(y)
        scores = FreshScores(own, own, 0.0, np.nan)
        if posterior == "variational":
            scores = fresh_scores(model, bags, y, settings.draws, model.seed + 1)
        held = log_predictive(model.predict(new).log_odds, y_new)
        plain = log_predictive(replace(model, novelty=None).predict(new).log_odds, y_new)
        yield {"posterior": posterior, "variance": variance, "lengthscale": scale, "training_bags": len(y),
               "held_out_bags": len(y_new), "score": scores.evidence, "bound": scores.bound,
               "bound_error": scores.error, "importance": scores.importance, "own_bound": own,
               "held_out": float(held.mean()), "held_out_plain": float(plain.mean()),
               **half_scores(held, settings), "passes": fitted.n_iter_, "converged": fitted.converged_,
               "seconds": seconds}  # fmt: skip


def half_scores(scores: Array, settings: OrderSettings) -> dict[str, float]:
    """Means of the log predictive over random halves of the held-out bags, the same halves for every kernel."""
    rng, found = np.random.default_rng(settings.seed), {}
    for number in range(settings.halvings):
        first = rng.permutation(len(scores)) < len(scores) // 2
        found[f"half_{number}_a"], found[f"half_{number}_b"] = scores[first].mean(), scores[~first].mean()
    return found
