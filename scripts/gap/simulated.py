"""Data drawn from the model: coverage of intervals and distance from the exact posterior, by size and number."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gap.posteriors import (
    Answer,
    augmented,
    chain_answer,
    distance,
    drawn_answer,
    gaussian_answer,
    long_chains,
    variational,
)
from oracle import bound_gap, draw_posterior, mixed_sweep, model_of, simulate
from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.hamiltonian import mixing, sample
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.draws import Draws
from psimil.inference.preparation import MEAN_SCALE
from psimil.inference.sampled import log_posterior
from psimil.inference.shards import Shard
from psimil.inference.variational import iterate_at
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import SparseGP
from psimil.paper.label_posteriors import RULES

Array = NDArray[Any]

METHODS = ("augmented", "variational", "sampled", "oracle")
BOUND_DRAWS = 20_000  # that the variational bound is worked out on
LEVELS = (0.5, 0.8, 0.95)
CHANGES_SIZE, CHANGES_COUNT = "bag size", "number of bags"
PROBLEMS = {  # H, prior deviation of the constant mean, residual, label posterior
    "default": (np.inf, MEAN_SCALE, "projected", "exact"),
    "full residual": (np.inf, MEAN_SCALE, "full", "exact"),
    "paper": (100.0, 0.0, "full", "mean_field"),
}


@dataclass(frozen=True)
class Simulation:
    """What is drawn from the model, and how long it is sampled.

    Parameters
    ----------
    layouts, data_sets : sets of instances and inducing points, and data sets drawn for each.
    compared : data sets of each layout on which posteriors are held against long sampling.
    bags, new_bags, largest_bag : training bags, new bags, and the largest of them; sizes are uniform from 1.
    long_chains, long_draws : chains of long sampling, and draws of each.
    oracle_chains, oracle_burn_in, oracle_draws, oracle_thin : of the Gibbs oracle on each data set.
    """

    layouts: int = 9
    data_sets: int = 12
    compared: int = 3
    bags: int = 20
    new_bags: int = 10
    largest_bag: int = 5
    features: int = 2
    inducing: int = 8
    variance: float = 3.0
    lengthscale: float = 1.2
    long_chains: int = 64
    long_draws: int = 160
    oracle_chains: int = 4
    oracle_burn_in: int = 80
    oracle_draws: int = 80
    oracle_thin: int = 4
    seed: int = 2026


def layout(
    settings: Simulation, number: int, problem: tuple[float, float, str, str] = PROBLEMS["default"]
) -> tuple[Shard, SparseGP, Array, Array]:
    """A shard of training bags without labels, its sparse GP, and instances and offsets of new bags."""
    H, bias, residual, rule = problem
    rng = np.random.default_rng([settings.seed, settings.bags, settings.largest_bag, number])
    Z = 1.5 * rng.normal(size=(settings.inducing, settings.features))
    gp = SparseGP.build(RBF(settings.variance, settings.lengthscale), Z, bias=bias, residual=residual)

    def instances(count: int) -> tuple[Array, Array]:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(1, settings.largest_bag + 1, count))])
        return rng.normal(size=(int(offsets[-1]), settings.features)), offsets

    X, offsets = instances(settings.bags)
    labels = Labels(np.arange(settings.bags) % 2, offsets, float(np.log(H)))
    shard = Shard(X, labels, np.ones(settings.bags), HyperbolicSecant(), RULES[rule], keep=True)
    return shard, gp, *instances(settings.new_bags)


@single_threaded_blas()
def simulated_rows(settings: Simulation, varied: str) -> list[dict[str, Any]]:
    """A row for each data set and posterior.

    Parameters
    ----------
    varied : what the experiment that these settings belong to changes.
    """
    rows = []
    for number in range(settings.layouts):
        shard, gp, X_new, _ = layout(settings, number)
        rng = np.random.default_rng([settings.seed, settings.bags, settings.largest_bag, number, 1])
        model, V = model_of(shard, gp), gp.features(X_new)
        v, _, T = simulate(model, settings.data_sets, rng)
        began = time.perf_counter()
        chains = settings.oracle_chains
        w = draw_posterior(
            model, np.repeat(T, chains, axis=0), rng, chains=len(T) * chains, burn_in=settings.oracle_burn_in,
            draws=settings.oracle_draws, thin=settings.oracle_thin, step=mixed_sweep,
        )  # fmt: skip
        seconds = (time.perf_counter() - began) / len(T)
        for i in range(len(T)):
            problem, truth = replace(shard, labels=replace(shard.labels, T=T[i])), V @ v[i]
            common = {"varied": varied, "bags": settings.bags, "largest_bag": settings.largest_bag, "layout": number,
                      "data_set": i, "positive": float(T[i].mean())}  # fmt: skip
            found = answers(problem, gp, X_new, truth, rng)
            f = w[:, i * chains : (i + 1) * chains] @ V.T
            r_hat, size = mixing(f)
            mixed = {"r_hat": float(r_hat.max()), "effective": float(size.min()), "seconds": seconds}
            found["oracle"] = (drawn_answer(f.reshape(-1, len(V)), truth, rng), mixed)
            exact = exact_answer(problem, gp, X_new, rng, settings) if i < settings.compared else None
            rows += [{**common, "posterior": name, **score(answer, exact), **how}
                     for name, (answer, how) in found.items()]  # fmt: skip
        print(f"{settings.bags} bags of up to {settings.largest_bag}: layout {number + 1} of {settings.layouts}")
    return rows


def answers(
    problem: Shard, gp: SparseGP, X: Array, truth: Array, rng: np.random.Generator
) -> dict[str, tuple[Answer, dict[str, float]]]:
    """What each posterior of a fit says of new instances X (N, D) whose latent values are known, and how it came."""
    seed, found, clock = int(rng.integers(2**31)), {}, time.perf_counter
    began = clock()
    q = augmented(problem, gp)
    found["augmented"] = (gaussian_answer(gp, q, X, truth), {"seconds": clock() - began})
    began = clock()
    q = variational(problem, gp, seed)
    found["variational"] = (gaussian_answer(gp, q, X, truth), {"seconds": clock() - began})
    began = clock()
    chains = sample(log_posterior(problem, gp), q, np.random.default_rng(seed))
    how = {"r_hat": chains.r_hat, "effective": chains.effective_sample_size, "seconds": clock() - began}
    found["sampled"] = (drawn_answer(chains.v @ gp.features(X).T, truth, rng), how)
    return found


def exact_answer(problem: Shard, gp: SparseGP, X: Array, rng: np.random.Generator, settings: Simulation) -> Answer:
    """What long sampling says of new instances X (N, D)."""
    start = variational(problem, gp, int(rng.integers(2**31)))
    chains, _ = long_chains(problem, gp, start, rng, settings.long_chains, settings.long_draws)
    return chain_answer(gp, chains.v, X)


def score(found: Answer, exact: Answer | None) -> dict[str, float]:
    """Shares of true values inside central intervals and, where it is known, the distance from the exact posterior."""
    shares = {f"inside_{100 * level:.0f}": float(found.inside(level).mean()) for level in LEVELS}
    return shares if exact is None else {**shares, **distance(found, exact)}


def coverage_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over data sets by experiment, size, number and posterior, with errors; medians of ratios and seconds.

    ``difference`` is the coverage of 95 % intervals less the oracle's on the same data sets, with its own error.
    """
    keys = ["varied", "largest_bag", "bags", "posterior"]
    shares = [f"inside_{100 * level:.0f}" for level in LEVELS]
    oracle = rows[rows["posterior"] == "oracle"].set_index([*keys[:3], "layout", "data_set"])[shares[-1]]
    reference = oracle.loc[pd.MultiIndex.from_frame(rows[[*keys[:3], "layout", "data_set"]])].to_numpy()
    rows = rows.assign(difference=rows[shares[-1]] - reference)
    grouped = rows.groupby(keys, sort=False)
    found = grouped[[*shares, "difference", "probability_error"]].mean()
    found["ratio"], found["seconds"] = grouped["ratio"].median(), grouped["seconds"].median()
    for name in (*shares, "difference"):
        found[f"{name}_error"] = grouped[name].std(ddof=1) / np.sqrt(grouped.size())
    found["r_hat"], found["effective"] = grouped["r_hat"].quantile(0.95), grouped["effective"].quantile(0.05)
    found["data_sets"], found["compared"] = grouped.size(), grouped["ratio"].count()
    return found.reset_index()


@single_threaded_blas()
def bound_rows(settings: Simulation, seeds: int, chains: int, draws: int) -> list[dict[str, Any]]:
    """Bounds of small problems with both labels, by posterior, and the log p(T) that they bound."""
    rows = []
    for number, (name, problem) in enumerate(PROBLEMS.items()):
        for seed in range(seeds):
            shard, gp, _, _ = layout(settings, seed, problem)
            rng = np.random.default_rng([settings.seed, number, seed])
            T = next(T for T in simulate(model_of(shard, gp), 1000, rng)[2] if 0 < T.mean() < 1)
            shard = replace(shard, labels=replace(shard.labels, T=T))
            bounds, evidence = bound_gap(shard, gp, rng, chains=chains, draws=draws)
            if gp.residual == "projected":
                noise = Draws.shared(antithetic_draws(gp.size, BOUND_DRAWS, seed + 1))  # those of the fit flatter it
                bounds["variational"] = iterate_at(shard, gp, variational(shard, gp, seed), noise).bound.total
            rows.append({"problem": name, "seed": seed, "bags": settings.bags, "instances": len(shard.X), **bounds,
                         "log_p": evidence.log_p, "error": evidence.error,
                         "effective_samples": evidence.effective_samples})  # fmt: skip
    return rows
