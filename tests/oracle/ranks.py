"""Simulation-based ranks: whether a sampler draws from the posterior of the model that made the data.

Data are simulated from the prior (Talts et al. 2018), so the true w is itself a draw from its posterior. It is put at a
random place of a reversible chain that runs on both sides of it (Gandy and Scott 2020). For a right sampler its
rank among the others is then exactly uniform, without burn-in or thinning. Thinning lets wrong samplers move away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from oracle.gibbs import Sweep, sweep
from oracle.latent_model import LatentModel, simulate
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import sigmoid
from psimil.foundations.numbers import at_least, generator

Array = NDArray[Any]

# Statistics that look at the data find samplers that ignore them, which others cannot.
STATISTICS: dict[str, Callable[[LatentModel, Array, Array], Array]] = {
    "first latent": lambda model, T, w: w @ model.W[0],
    "largest latent": lambda model, T, w: (w @ model.W.T).max(axis=1),
    "squared norm": lambda model, T, w: np.square(w).sum(axis=1),
    "mean probability": lambda model, T, w: sigmoid(w @ model.W.T).mean(axis=1),
    "log-likelihood": lambda model, T, w: model.log_likelihood(w @ model.W.T, T).sum(axis=1),
    "label probability": lambda model, T, w: model.label_probabilities(w @ model.W.T, T).sum(axis=1),
}


@dataclass(frozen=True)
class Ranks:
    """Ranks of the true values among draws of a sampler.

    Parameters
    ----------
    ranks : by statistic, (R,) numbers from 0 to ``draws``.
    draws : how many draws each true value was ranked among.

    Examples
    --------
    >>> ranks = Ranks({"even": np.arange(100) % 4, "heaped": np.zeros(100, dtype=int)}, draws=3)
    >>> ranks.p_values(bins=4)["even"], ranks.p_values(bins=4)["heaped"] < 1e-6
    (1.0, True)
    >>> ranks.ecdf_distances()["heaped"] > ranks.ecdf_band() > ranks.ecdf_distances()["even"]
    True
    """

    ranks: dict[str, Array]
    draws: int

    @property
    def repeats(self) -> int:
        """How many data sets were simulated."""
        return len(next(iter(self.ranks.values())))

    def counts(self, bins: int) -> dict[str, Array]:
        """By statistic, (bins,) how many ranks fall into each bin of equal width."""
        if bins < 2 or (self.draws + 1) % bins:
            raise InputError(f"ranks (bins={bins}): {self.draws + 1} ranks do not divide evenly. Use a divisor.")
        width = (self.draws + 1) // bins
        return {name: np.bincount(r // width, minlength=bins) for name, r in self.ranks.items()}

    def p_values(self, bins: int = 10) -> dict[str, float]:
        """By statistic, the p-value of the chi-square test that all bins are equally likely."""
        expected = self.repeats / bins
        found = self.counts(bins)
        return {name: float(chi2.sf(((n - expected) ** 2).sum() / expected, bins - 1)) for name, n in found.items()}

    def ecdf_distances(self) -> dict[str, float]:
        """By statistic, the largest distance between the distribution of the ranks and the uniform one."""
        uniform = np.arange(1, self.draws + 2) / (self.draws + 1)
        found = {name: np.bincount(r, minlength=self.draws + 1).cumsum() for name, r in self.ranks.items()}
        return {name: float(np.abs(n / self.repeats - uniform).max()) for name, n in found.items()}

    def ecdf_band(self, level: float = 0.99) -> float:
        """Half width of a band that holds the whole distribution of uniform ranks with at least this probability.

        It is the bound of Dvoretzky, Kiefer and Wolfowitz with Massart's constant; for discrete ranks it is too wide.
        """
        return float(np.sqrt(np.log(2 / (1 - level)) / (2 * self.repeats)))


def simulated_ranks(
    model: LatentModel,
    rng: np.random.Generator,
    *,
    repeats: int = 1000,
    draws: int = 19,
    thin: int = 5,
    step: Sweep = sweep,
) -> Ranks:
    """Ranks of simulated true values in chains of a sampler.

    Parameters
    ----------
    model : the model that makes the data and that the sampler claims to sample.
    repeats : data sets, each with its own chain; all run at once.
    draws : draws to rank the true value among.
    thin : sweeps from one draw to the next.
    step : a sweep of the sampler, reversible at w.

    Examples
    --------
    >>> model = LatentModel(np.ones((2, 1)), np.array([0, 2]))
    >>> ranks = simulated_ranks(model, np.random.default_rng(0), repeats=200, draws=9)
    >>> min(ranks.p_values(bins=5).values()) > 1e-3
    True
    """
    generator(rng)
    at_least(0, whole=True, repeats=repeats, draws=draws, thin=thin)
    if min(repeats, draws, thin) < 1:
        raise InputError(f"ranks (repeats={repeats}, draws={draws}, thin={thin}): each must be at least one.")
    truth, _, T = simulate(model, repeats, rng)
    target = {name: statistic(model, T, truth) for name, statistic in STATISTICS.items()}
    below = {name: np.zeros(repeats, dtype=np.int64) for name in STATISTICS}
    equal = {name: np.zeros(repeats, dtype=np.int64) for name in STATISTICS}
    place, w = rng.integers(0, draws + 1, repeats), truth
    for i in range(draws):
        w = np.where((place == i)[:, None], truth, w)  # one side of the truth is done, the other begins
        for _ in range(thin):
            w = step(model, T, w, rng)
        for name, statistic in STATISTICS.items():
            value = statistic(model, T, w)
            below[name] += value < target[name]
            equal[name] += value == target[name]
    return Ranks({name: below[name] + rng.integers(0, equal[name] + 1) for name in STATISTICS}, draws)
