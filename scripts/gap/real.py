"""Real data at the kernel that a default fit learns: augmented and variational posterior against long sampling.

Labels are independent given f, for the augmented posterior knows no others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gap.posteriors import augmented, chain_answer, distance, gaussian_answer, long_chains
from psimil import VGPMIL
from psimil.compute.numpy_backend import single_threaded_blas
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant
from psimil.paper.experiments.cohorts import Cohort, load_cohort
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

COHORTS = {"musk1": "MUSK1", "rsna": "RSNA, CNN 0", "cq500": "CQ500, CNN 0", "mnist-pca": "MNIST, PCA"}
EMBEDDED = ("musk1",)


@dataclass(frozen=True)
class RealSettings:
    """How a data set is split, fitted and sampled.

    Parameters
    ----------
    held_out : share of the bags that are not trained on, at random.
    instances : of the held-out bags that are looked at, at most, at random.
    chains, draws : of long sampling; ``few`` draws per chain where there are more than ``large`` instances.
    seeds : of the fit, from ``seed`` on: the first learns the kernel, the others fit q(v) again with it.
    """

    inducing: int = 200
    held_out: float = 0.2
    instances: int = 2000
    chains: int = 16
    draws: int = 1280
    few: int = 640
    large: int = 40_000
    seeds: int = 5
    seed: int = 2026


@single_threaded_blas()
def real_rows(name: str, directory: str | None, settings: RealSettings, quick: bool = False) -> list[dict[str, Any]]:
    """A row for each posterior of a data set and, for the variational one, each seed; one sampling for all."""
    cohort = load_cohort(name, directory, quick=quick)
    rng = np.random.default_rng(settings.seed)
    train, X_new, bags = split(cohort, settings, rng)
    began = time.perf_counter()
    default = VGPMIL(n_inducing=settings.inducing, labels="independent", random_state=settings.seed)
    fitted = default.fit(bags, cohort.y[train])
    seconds, model = {"variational": time.perf_counter() - began}, fitted.model_
    X, gp = model.scaling.apply(bags.X), model.gp
    shard = Shard(X, Labels(cohort.y[train], bags.offsets), np.ones(len(train)), HyperbolicSecant(), keep=True)
    began = time.perf_counter()
    q = augmented(shard, gp)
    seconds["augmented"] = time.perf_counter() - began
    draws = settings.draws if len(X) <= settings.large else settings.few
    chains, seconds["exact"] = long_chains(shard, gp, model.posterior, rng, settings.chains, draws)
    X_new = model.scaling.apply(X_new)
    exact = chain_answer(gp, chains.v, X_new)
    common = {"data": COHORTS[name], "training_bags": len(train), "training_instances": len(X),
              "held_out_instances": len(X_new), "inducing": len(gp.Z), "kernel": repr(gp.kernel).replace(",", ";"),
              "draws": len(chains.v), "r_hat": chains.r_hat, "effective": chains.effective_sample_size,
              "divergences": chains.divergences, "sampling_seconds": seconds["exact"]}  # fmt: skip
    noise = sampling_error(chain_answer(gp, chains.v[::2], X_new).probability, exact.probability)
    found = [("augmented", settings.seed, gaussian_answer(gp, q, X_new))]
    for seed in range(settings.seed, settings.seed + settings.seeds):
        one = model if seed == settings.seed else fitted_again(fitted, bags, cohort.y[train], seed)
        found.append(("variational", seed, gaussian_answer(one.gp, one.posterior, X_new)))
    print(f"{COHORTS[name]}: {draws} draws of {settings.chains} chains in {seconds['exact']:.0f} s")
    return [{**common, "posterior": key, "seed": seed, **distance(answer, exact), "sampling_error": noise,
             "seconds": seconds[key]} for key, seed, answer in found]  # fmt: skip


def fitted_again(fitted: VGPMIL, bags: Bags, y: Array, seed: int) -> TrainedModel:
    """The model of a fit with the same kernel and inducing points and another seed: only the draws differ."""
    again = VGPMIL(kernel=fitted.kernel_, hyperparameters=None, inducing_points=fitted.inducing_points_,
                   random_state=seed)  # fmt: skip
    return again.fit(bags, y).model_


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds by data and posterior; lowest and highest ratio and error of probabilities, and seeds."""
    grouped = table.groupby(["data", "posterior"], sort=False)
    found = grouped.mean(numeric_only=True)
    for name in ("ratio", "probability_error"):
        found[f"{name}_least"], found[f"{name}_most"] = grouped[name].min(), grouped[name].max()
    found["seeds"] = grouped.size()
    return found.reset_index()


def sampling_error(half: Array, whole: Array) -> float:
    """Mean absolute Monte Carlo error of probabilities: about their distance from those of every second draw."""
    return float(np.abs(half - whole).mean())


def split(cohort: Cohort, settings: RealSettings, rng: np.random.Generator) -> tuple[Array, Array, Any]:
    """Training bags (indices), held-out instances (n, D), and the training bags themselves."""
    order = rng.permutation(len(cohort.y))
    held = round(settings.held_out * len(order))
    train, new = np.sort(order[held:]), np.sort(order[:held])
    bags = cohort.features(train)
    X = bags[new].X
    chosen = np.sort(rng.choice(len(X), min(settings.instances, len(X)), replace=False))
    return train, X[chosen], bags[train]
