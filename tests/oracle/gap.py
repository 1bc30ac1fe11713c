"""The gap: what the variational posterior says, beside what the Gibbs oracle says, on one small problem."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.evidence import Evidence, sampled_evidence
from oracle.gibbs import draw_posterior, mean_and_error
from oracle.latent_model import LatentModel, model_of, prior_root
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import sigmoid, softplus
from psimil.inference.shards import Shard
from psimil.model.sparse_gp import KernelState, SparseGP, latent_moments
from psimil.paper.ascent import Pass, ascend
from psimil.paper.label_posteriors import RULES
from psimil.predictive.aggregates import NoisyOr
from psimil.predictive.moments import IDENTITY, instance_moments
from psimil.predictive.trained import joint_std

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


def settle(problem: Shard, gp: SparseGP, *, tolerance: float = 1e-11, most: int = 5000) -> Pass:
    """The variational posterior of a problem with its kernel fixed, iterated until the bound stands still.

    Parameters
    ----------
    tolerance : change of the bound in one pass, relative to its size, at which to stop.
    most : passes after which to give up.

    Examples
    --------
    >>> problem, gp = _example()
    >>> round(settle(problem, gp).bound.total, 3)
    -1.989
    """
    last = np.nan  # nothing is close to it
    for record in ascend(problem, KernelState.first(gp), accelerate=False):
        if abs(record.bound.total - last) <= tolerance * abs(last):
            return record
        if record.step >= most:
            raise InputError(f"fit (tolerance={tolerance:g}): it did not settle in {most} passes. Raise either.")
        last = record.bound.total
    raise AssertionError  # passes have no end


def bound_gap(
    problem: Shard, gp: SparseGP, rng: np.random.Generator, *, chains: int = 100, draws: int = 200
) -> tuple[dict[str, float], Evidence]:
    """The settled bounds by label posterior, and the log p(T) that they bound.

    Parameters
    ----------
    chains, draws : of the oracle, around whose draws log p(T) is estimated.

    Examples
    --------
    >>> bounds, evidence = bound_gap(*_example(), np.random.default_rng(0), chains=20)
    >>> bounds["mean_field"] < bounds["exact"] < evidence.log_p < bounds["exact"] + 1
    True
    """
    model, T = model_of(problem, gp), problem.labels.T
    w = draw_posterior(model, T, rng, chains=chains, draws=draws)
    bounds = {rule: settle(replace(problem, rule=RULES[rule]), gp).bound.total for rule in ("exact", "mean_field")}
    return bounds, sampled_evidence(model, T, w, rng)


def compare(
    problem: Shard,
    gp: SparseGP,
    X_new: Array,
    offsets_new: Array,
    rng: np.random.Generator,
    *,
    chains: int = 100,
    draws: int = 200,
) -> pd.DataFrame:
    """Quantities of the variational posterior beside those of the oracle.

    Latent values, probabilities and standard deviations are those of new bags, label probabilities those of the
    training instances. Nothing is recalibrated.

    Parameters
    ----------
    X_new : (N*, D) instances of new bags, in model coordinates.
    offsets_new : (B* + 1,) first instance of each new bag.
    chains, draws : of the oracle.

    Returns
    -------
    table : columns ``quantity``, ``item``, ``variational``, ``oracle``, ``error``, the Monte Carlo standard error of
        ``oracle``.

    Examples
    --------
    >>> problem, gp = _example()
    >>> table = compare(problem, gp, problem.X, problem.labels.offsets, np.random.default_rng(0), chains=20)
    >>> table.groupby("quantity", sort=False).size().to_dict()
    {'latent mean': 4, 'latent deviation': 4, 'instance probability': 4, 'bag probability': 2, 'bag deviation': 2,
     'joint bag deviation': 2, 'label probability': 4}
    """
    import pandas as pd

    ours = _variational(problem, gp, X_new, offsets_new, rng)
    model = model_of(problem, gp)
    joint = prior_root(gp, np.concatenate([problem.X, X_new]))
    both = LatentModel(joint[: len(problem.X)], model.offsets, model.log_H)
    w = draw_posterior(both, problem.labels.T, rng, chains=chains, draws=draws)
    theirs = _oracle(both, problem.labels.T, w, joint[len(problem.X) :], offsets_new)
    frames = [
        pd.DataFrame({"quantity": name, "item": np.arange(len(value)), "variational": value,
                      "oracle": theirs[name][0], "error": theirs[name][1]})
        for name, value in ours.items()
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def _variational(
    problem: Shard, gp: SparseGP, X_new: Array, offsets: Array, rng: np.random.Generator
) -> dict[str, Array]:
    record = settle(problem, gp)
    mean, variance = latent_moments(gp, record.posterior, X_new)
    instances = instance_moments(mean, variance)
    bags = NoisyOr().moments(instances, offsets)
    joint = joint_std(
        gp, record.posterior, X_new, offsets, aggregate="noisy_or", calibration=IDENTITY, rng=rng, samples=20_000
    )
    assert record.local is not None  # of data in memory
    return {
        "latent mean": mean,
        "latent deviation": np.sqrt(variance),
        "instance probability": instances.prob,
        "bag probability": bags.prob,
        "bag deviation": bags.std,
        "joint bag deviation": joint,
        "label probability": record.local.pi,
    }


def _oracle(model: LatentModel, T: Array, w: Array, W_new: Array, offsets: Array) -> dict[str, tuple[Array, Array]]:
    f = w @ W_new.T
    bag = -np.expm1(-np.add.reduceat(softplus(f), offsets[:-1], axis=-1))
    deviation = _deviation(bag)
    return {
        "latent mean": mean_and_error(f),
        "latent deviation": _deviation(f),
        "instance probability": mean_and_error(sigmoid(f)),
        "bag probability": mean_and_error(bag),
        "bag deviation": deviation,
        "joint bag deviation": deviation,
        "label probability": mean_and_error(model.label_probabilities(w @ model.W.T, T)),
    }


def _deviation(values: Array) -> tuple[Array, Array]:
    """Standard deviation over draws and chains, with its error by the delta method."""
    variance, error = mean_and_error(np.square(values - values.mean(axis=(0, 1))))
    deviation = np.sqrt(variance)
    return deviation, error / (2 * deviation)


def _example() -> tuple[Shard, SparseGP]:
    """Two bags of two instances, for the examples above."""
    from psimil.model.bag_likelihoods import Labels
    from psimil.model.densities import HyperbolicSecant
    from psimil.model.kernels import RBF

    X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    problem = Shard(X, Labels(np.array([0, 1]), np.array([0, 2, 4])), np.ones(2), HyperbolicSecant())
    return problem, SparseGP.build(RBF(2.0, 1.0), X[::2], bias=1.0)
