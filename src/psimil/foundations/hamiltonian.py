"""Hamiltonian Monte Carlo: draws from any smooth density that a Gaussian comes close to, many chains at once.

With v = m + U x and U U' = S of an approximation q(v) = N(m, S), the density pi of x is close to N(0, I).
Momenta p ~ N(0, I) are drawn anew for each trajectory. The energy of x and p is a quadratic part and a remainder,

    H = |x|^2 / 2 + |p|^2 / 2 - r(x),      r(x) = log pi(x) + |x|^2 / 2.

The quadratic part alone would turn (x, p) by an angle, the remainder alone kick p. So one step by the angle e is

    p <- p + (e / 2) r'(x),     (x, p) <- (x cos e + p sin e, p cos e - x sin e),     p <- p + (e / 2) r'(x)

(Shahbaba et al. 2014; Casas et al. 2022). Like a leapfrog step it is reversible and keeps volumes, so pi stays as it is
when the end of a trajectory is accepted with probability min(1, exp(H_start - H_end)). Were q exact, no step would be
rejected however large, and a quarter turn would make draws independent. Trajectories turn by a quarter, more or less
at random, lest one width of pi be in step with them. Warm-up finds the largest step that is accepted often enough
(dual averaging; Hoffman and Gelman 2014), then mean and scales of x, then the step that goes with these.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning, NumericalFailure
from psimil.foundations.numbers import at_least
from psimil.foundations.phases import tell

LogPosterior = Callable[[Array], tuple[Array, Array]]  # v (M, C) of C chains -> log density (C,) and gradient (M, C)

KEPT = 512  # draws that are handed on, about
QUARTER, JITTER, MOST_STEPS = 0.5 * np.pi, 0.3, 8  # a trajectory turns by QUARTER (1 +- JITTER) if MOST_STEPS allow it
SMALLEST, FIRST, LARGEST = 1e-6, 0.5, QUARTER * (1.0 + JITTER)  # steps
ACCEPTANCE, GAIN, DELAY, FORGETTING = 0.85, 20.0, 10.0, 0.75  # of dual averaging: delta, 1 / gamma, t_0 and kappa
DIVERGENT = 1000.0  # gain of H along a trajectory, in nats
HIGHEST_R_HAT, FEWEST_EFFECTIVE = 1.01, 400.0  # Vehtari et al. (2021)


class Gaussian(Protocol):
    """N(m, U U'), the approximation that chains begin with."""

    @property
    def m(self) -> Array:
        """(M,) mean."""

    @property
    def U(self) -> Array:
        """(M, M) root of the covariance."""


@dataclass(frozen=True)
class Chains:
    """Draws from the posterior of v, and what tells whether to trust them.

    Parameters
    ----------
    v : (S, M) draws of all chains, about 512 that are evenly spaced.
    r_hat : the largest of the coordinates x and the log density; 1 when all chains agree.
    effective_sample_size : how many independent draws the chains are worth, the smallest of the same.
    divergences : how many trajectories lost their energy; they were rejected.
    acceptance : mean probability with which a trajectory was accepted.
    """

    v: Array
    r_hat: float
    effective_sample_size: float
    divergences: int
    acceptance: float


def sample(
    log_posterior: LogPosterior,
    start: Gaussian,
    rng: np.random.Generator,
    *,
    chains: int = 16,
    draws: int = 288,
    warmup: int = 96,
) -> Chains:
    """Draws from the posterior of v by chains that begin with draws from q(v).

    Parameters
    ----------
    log_posterior : log density (C,), up to a constant, and its gradient (M, C) at v (M, C), all chains at once.
    start : q(v), an approximation.
    draws, warmup : trajectories of each chain that count, and before them; each takes two to four calls as a rule.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> wide = SimpleNamespace(m=np.zeros(2), U=np.eye(2))
    >>> found = sample(lambda v: (-2 * (v * v).sum(axis=0), -4 * v), wide, np.random.default_rng(0))
    >>> found.v.shape, found.v.std(axis=0).round(1), found.divergences
    ((512, 2), array([0.5, 0.5]), 0)
    """
    at_least(1, whole=True, chains=chains)
    at_least(8, whole=True, draws=draws, warmup=warmup)
    M, total = len(start.m), warmup + draws
    frame, step, seen = _Frame(log_posterior, start.m, start.U), _Step(FIRST, FIRST, FIRST), []
    state = frame.at(rng.standard_normal((M, chains)))
    state = state.where(np.isfinite(state.value), frame.at(np.zeros((M, chains))))  # not where the density is zero
    if not np.isfinite(state.value).all():
        raise NumericalFailure("the log posterior is not finite at the mean of its approximation.")
    for done in range(1, warmup + 1):
        state, acceptance, _ = _trajectory(frame, state, step.now, rng)
        step = step.after(float(acceptance.mean()))
        seen.append(state.x)
        if done == 3 * warmup // 4:
            frame, state = frame.fitted(np.concatenate(seen[warmup // 4 :], axis=1), state)
            step = _Step(step.mean, step.mean, step.mean)
        tell("sampling", done, total)
    found, accepted, diverged = np.empty((draws, chains, M + 1)), 0.0, 0
    for i in range(draws):
        state, acceptance, lost = _trajectory(frame, state, step.mean, rng)
        found[i, :, :M], found[i, :, M] = state.x.T, state.value
        accepted, diverged = accepted + float(acceptance.mean()), diverged + int(lost.sum())
        tell("sampling", warmup + i + 1, total)
    every = min(draws, -(-draws * chains // KEPT))
    v = frame.m + found[every - 1 :: every, :, :M].reshape(-1, M) @ frame.U.T
    r_hat, size = mixing(found)
    return Chains(v, float(r_hat.max()), float(size.min()), diverged, accepted / draws)


def warn_if_bad(chains: Chains) -> None:
    """Warn when chains disagree, are worth too few draws, or diverged, with the numbers and a remedy.

    Examples
    --------
    >>> warn_if_bad(Chains(np.zeros((512, 1)), r_hat=1.002, effective_sample_size=900.0, divergences=0, acceptance=0.8))
    """
    size, bad = chains.effective_sample_size, []
    if not chains.r_hat <= HIGHEST_R_HAT:
        bad.append(f"R-hat is {chains.r_hat:.3f}, above {HIGHEST_R_HAT}")
    if not size >= FEWEST_EFFECTIVE:
        bad.append(f"the smallest effective sample size is {size:.0f}, below {FEWEST_EFFECTIVE:.0f}")
    if chains.divergences:
        bad.append(f"{chains.divergences} trajectories diverged")
    if bad:
        cure = "Fit again with another random_state, or use the variational posterior."
        warnings.warn(f"draws may not represent the posterior: {'; '.join(bad)}. {cure}", DataWarning, stacklevel=2)


class _State(NamedTuple):
    """Where C chains are: x (M, C), log pi(x) (C,) up to a constant, and its gradient (M, C)."""

    x: Array
    value: Array
    gradient: Array

    def energy(self, p: Array) -> Array:
        return np.asarray(0.5 * np.square(p).sum(axis=0) - self.value)

    def where(self, condition: Array, other: _State) -> _State:
        """Own chains where the condition (C,) holds, and the other's elsewhere."""
        return _State(*(np.where(condition, *pair) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True)
class _Frame:
    """Coordinates x with v = m + U x."""

    log_posterior: LogPosterior
    m: Array
    U: Array

    def at(self, x: Array) -> _State:
        value, gradient = self.log_posterior(self.m[:, None] + self.U @ x)
        return _State(x, value, self.U.T @ gradient)

    def fitted(self, x: Array, state: _State) -> tuple[_Frame, _State]:
        """Coordinates in which draws x (M, n) have mean 0 and variance 1, nearly; and the state in them."""
        n, centre = x.shape[1], x.mean(axis=1)
        scale = np.sqrt((n * x.var(axis=1) + 1.0) / (n + 1.0))  # as if one draw more had the variance of q
        there = _State((state.x - centre[:, None]) / scale[:, None], state.value, state.gradient * scale[:, None])
        return _Frame(self.log_posterior, self.m + self.U @ centre, self.U * scale), there


class _Step(NamedTuple):
    """Dual averaging of log step sizes: the step to take now, and the weighted mean so far."""

    now: float
    mean: float
    centre: float
    shortfall: float = 0.0
    trials: int = 0

    def after(self, acceptance: float) -> _Step:
        """The next step: smaller while trajectories are accepted less than ACCEPTANCE, larger while more."""
        t = self.trials + 1
        shortfall = self.shortfall + (ACCEPTANCE - acceptance - self.shortfall) / (t + DELAY)
        now = float(np.clip(self.centre * np.exp(-GAIN * np.sqrt(t) * shortfall), SMALLEST, LARGEST))
        weight = t**-FORGETTING
        return _Step(now, now**weight * self.mean ** (1.0 - weight), self.centre, shortfall, t)


def _trajectory(frame: _Frame, start: _State, size: float, rng: np.random.Generator) -> tuple[_State, Array, Array]:
    """Where the chains are after a trajectory in steps of this size, its acceptance (C,), whether it diverged (C,)."""
    angle = QUARTER * rng.uniform(1.0 - JITTER, 1.0 + JITTER)
    steps = min(int(np.ceil(angle / size)), MOST_STEPS)
    e = min(size, angle / steps)
    p = first_p = rng.standard_normal(start.x.shape)
    state, begin, lost = start, start.energy(p), np.zeros(start.x.shape[1], dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            p = p + 0.5 * e * (state.gradient + state.x)
            x, p = np.cos(e) * state.x + np.sin(e) * p, np.cos(e) * p - np.sin(e) * state.x
            state = frame.at(x)
            p = p + 0.5 * e * (state.gradient + state.x)
            H = state.energy(p)
            lost |= ~(H - begin <= DIVERGENT)
            state, p = start.where(lost, state), np.where(lost, first_p, p)  # lest they run off to infinity
        acceptance = np.where(lost, 0.0, np.exp(np.minimum(begin - H, 0.0)))
    return state.where(rng.random(len(lost)) < acceptance, start), acceptance, lost


def mixing(draws: Array) -> tuple[Array, Array]:
    """R-hat and effective sample size (K,) of draws (n, C, K) of C chains, by ranks (Vehtari et al. 2021).

    R-hat is the larger one of two: of the draws, and of their distances from the median, which tell of scales. The
    size, for the bulk, is n C / (1 + 2 sum of autocorrelations), summed up to where noise begins (Geyer 1992).

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((500, 4, 3))
    >>> draws[:, 0] = draws[:, 0] * [1, 1, 4] + [0, 2, 0]
    >>> mixing(draws)[0].round(1), (mixing(draws)[1] > 1500)
    (array([1. , 1.3, 1.2]), array([ True, False,  True]))
    """
    z, ratios = _scores(draws), []
    for scores in (z, _scores(np.abs(draws - np.median(draws, axis=(0, 1))))):
        within, between = scores.var(axis=0).mean(axis=0), scores.mean(axis=0).var(axis=0, ddof=1)
        ratios.append(np.divide(between, within, out=np.full_like(within, np.inf), where=within > 0))
    n, chains, K = z.shape
    spectrum = np.square(np.abs(np.fft.rfft(z - z.mean(axis=0), 2 * n, axis=0))).mean(axis=1)
    covariance = np.fft.irfft(spectrum, axis=0)[:n] / n
    total = covariance[0] + z.mean(axis=0).var(axis=0, ddof=1)
    correlation = 1.0 - (covariance[0] * n / (n - 1) - covariance) / np.where(total > 0, total, 1.0)
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(-1, 2, K).sum(axis=1)
    pairs = np.minimum.accumulate(np.where(np.logical_and.accumulate(pairs > 0, axis=0), pairs, 0.0), axis=0)
    tau = np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(n * chains))
    r_hat = np.sqrt((n - 1) / n * (1.0 + np.maximum(*ratios)))
    return np.asarray(r_hat), np.where(total > 0, n * chains / tau, 0.0)


def _scores(draws: Array) -> Array:
    """(n / 2, 2 C, K) normal quantiles of the ranks of draws (n, C, K), both halves of a chain as chains."""
    n = len(draws) // 2
    halves = np.concatenate([draws[:n], draws[-n:]], axis=1)
    ranks = rankdata(halves.reshape(-1, draws.shape[2]), axis=0)
    return np.asarray(ndtri((ranks - 0.375) / (len(ranks) + 0.25))).reshape(halves.shape)
