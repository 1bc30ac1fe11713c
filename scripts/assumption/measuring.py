"""Every model in every trap, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psimil import GVGPMIL, VGPMIL
from psimil.paper.baselines import AttentionMIL, BagForest, BagSVM, MeanPooling, Smoothing
from psimil.testing import TRAPS, trap_scores

Build = Callable[[int], Any]

OURS: dict[str, Build] = {
    "VGPMIL": lambda seed: VGPMIL(random_state=seed),
    "VGPMIL, sampled posterior, 50 inducing points": lambda seed: VGPMIL(
        posterior="sampled", n_inducing=50, random_state=seed
    ),
    "G-VGPMIL": lambda seed: GVGPMIL(random_state=seed),
    'VGPMIL, `aggregate="max"`': lambda seed: VGPMIL(aggregate="max", random_state=seed),
    'VGPMIL, `context="bag"`': lambda seed: VGPMIL(context="bag", random_state=seed),
}
BASELINES: dict[str, Build] = {
    "attention MIL": lambda seed: AttentionMIL(random_state=seed),
    "smooth attention MIL": lambda seed: AttentionMIL(smoothing=Smoothing(), random_state=seed),
    "logistic regression on bag means": lambda _: MeanPooling(),
    "SVM on bag statistics": lambda seed: BagSVM(random_state=seed),
    "random forest on bag statistics": lambda seed: BagForest(random_state=seed),
}
MODELS = OURS | BASELINES


@dataclass(frozen=True)
class AssumptionSettings:
    """Seeds of bags and models, and the size of the traps."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_bags: int = 100
    n_features: int = 16


def trap_rows(
    name: str, settings: AssumptionSettings, models: Mapping[str, Build] = MODELS
) -> Iterator[dict[str, Any]]:
    """A row for each model and seed of one trap."""
    for seed in settings.seeds:
        trap = TRAPS[name](seed, n_bags=settings.n_bags, n_features=settings.n_features)
        for label, build in models.items():
            scores = trap_scores(build(seed), trap)
            yield {"data": name, "model": label, "seed": seed, "alike": scores.alike, "turned": scores.turned}
