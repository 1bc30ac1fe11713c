"""The posterior and log p(T) after tilted steps, against quadrature of log p(T | v) and the prior on a grid of v."""

from functools import cache
from itertools import islice, pairwise

import numpy as np
import pytest

from problems import make, random_posterior
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.algorithm import BEFORE_TILTING, Variational
from psimil.inference.draws import Draws
from psimil.inference.options import Options
from psimil.inference.variational import Stage, climb, iterate_at, newton
from psimil.model.sparse_gp import KernelState, Posterior

SEEDS = {4: range(8), 8: range(4)}  # by the size of the largest bags
STEPS, DRAWS, LEFT = 40, 4096, 1e-5


def problem_of(seed, most=4, **options):
    """Ten bags of up to so many instances, three inducing points and a prior wide enough for q(v) to be no Gaussian."""
    sizes = np.random.default_rng(100 + seed).integers(1, most + 1, size=10)
    return make(seed, sizes, **{"M": 3, "residual": "projected", "variance": 16.0, **options})


def on_grid(problem, gp, prior=None):
    """Mean, deviations and log integral of p(T | v) p(v), by the trapezoid rule."""
    m0, P0 = (np.zeros(3), np.eye(3)) if prior is None else (prior.m, prior.R @ prior.R.T)
    V, labels = gp.features(problem.X), problem.labels
    axis = np.linspace(-5.5, 5.5, 48)
    v = np.stack([one.ravel() for one in np.meshgrid(axis, axis, axis)])
    gap = v - m0[:, None]
    log_w = -0.5 * (gap * (P0 @ gap)).sum(axis=0) + 0.5 * np.linalg.slogdet(P0 / (2 * np.pi))[1]
    for T, weight, (start, stop) in zip(labels.T, problem.weights, pairwise(labels.offsets), strict=True):
        none = -np.logaddexp(0.0, V[start:stop] @ v).sum(axis=0)
        log_w += weight * (none if T == 0 else np.log(-np.expm1(none)))
    top = log_w.max()
    w = np.exp(log_w - top)
    total = w.sum()
    mean, square = v @ w / total, (v * v) @ w / total
    return mean, np.sqrt(square - mean**2), top + np.log(total * (axis[1] - axis[0]) ** 3)


def climbed(problem, gp, *, tilted, draws=DRAWS, prior=None):
    """The last of the steps from the mode, or from the prior, until hardly anything is left."""
    noise = Draws.shared(antithetic_draws(3, draws, seed=0))
    stages = [Stage(noise, False, BEFORE_TILTING), Stage(noise, True, 0.0)] if tilted else [Stage(noise, False, 0.0)]
    start = newton(problem, gp, np.zeros(3)) if prior is None else prior
    for found in islice(climb(problem, gp, start, stages, prior=prior), STEPS):
        if not found.unfinished and found.change < LEFT:
            return found
    raise AssertionError("steps do not settle")


@cache
def compared(seed, most):
    """What a grid finds, and the last iterates of plain and of tilted steps on many draws."""
    problem, gp = problem_of(seed, most)
    return on_grid(problem, gp), *(climbed(problem, gp, tilted=tilted) for tilted in (False, True))


def all_compared():
    return zip(*(compared(seed, 4) for seed in SEEDS[4]), strict=True)


def errors(q, truth):
    """Errors of means in deviations, and of log deviations: root mean squares over directions."""
    mean, deviations, _ = truth
    found = (q.m - mean) / deviations, 0.5 * np.log(np.diag(q.S)) - np.log(deviations)
    return [np.sqrt(np.square(one).mean()) for one in found]


def test_tilted_steps_bring_mean_and_deviations_closer():
    """On the whole: of one problem the mean may be off by as much, for a Gaussian that is best has no exact moments."""
    truths, plain, tilted = all_compared()
    before = np.array([errors(one.posterior, truth) for one, truth in zip(plain, truths, strict=True)])
    after = np.array([errors(one.posterior, truth) for one, truth in zip(tilted, truths, strict=True)])
    assert (after < before + 1e-3).mean(axis=0).min() > 0.8
    of_means, of_deviations = np.stack([before.mean(axis=0), after.mean(axis=0)], axis=1)
    assert of_means[1] < 0.93 * of_means[0] < 0.02
    assert of_deviations[1] < 0.8 * of_deviations[0] < 0.04


def test_a_bound_is_too_sure_and_tilted_steps_widen_it():
    truths, plain, tilted = all_compared()
    gaps = [
        np.mean(
            [0.5 * np.log(np.diag(one.posterior.S)) - np.log(truth[1]) for one, truth in zip(q, truths, strict=True)]
        )
        for q in (plain, tilted)
    ]
    assert gaps[0] < -0.01
    assert gaps[0] < gaps[1] < 0.0


@pytest.mark.parametrize("most", [4, 8])
def test_the_estimate_of_the_evidence_is_closer_than_the_bound(most):
    evidence, bound = [], []
    for seed in SEEDS[most]:
        truth, plain, tilted = compared(seed, most)
        evidence.append(tilted.log_evidence - truth[2])
        bound.append(plain.bound.total - truth[2])
        assert plain.bound.total < truth[2] + 3 * plain.bound.error  # a lower bound, but for its draws
    assert np.abs(evidence).max() < 0.05
    assert np.abs(evidence).mean() < 0.6 * np.abs(bound).mean()
    assert np.mean(bound) < -0.02


def test_the_evidence_of_no_data_is_one_and_weights_count_in_it():
    problem, gp = problem_of(0, weights=np.zeros(10))
    noise = Draws.shared(antithetic_draws(3, 64, seed=0))
    none = iterate_at(problem, gp, Posterior.prior(3), noise, tilted=True)
    assert none.log_evidence == pytest.approx(0.0, abs=1e-12)
    problem, gp = problem_of(1, weights=np.linspace(0.5, 2.0, 10), variance=4.0)
    found = climbed(problem, gp, tilted=True)
    assert found.log_evidence == pytest.approx(on_grid(problem, gp)[2], abs=0.03)


@pytest.mark.parametrize("own", [False, True])
def test_far_from_the_fixed_point_the_evidence_is_what_q_expects_of_prior_and_sites(own):
    """log Z_s - KL(q || q_s) is -KL(q || prior) - tr(curvature S) / 2: log s_b at the mean of q(v) is zero."""
    problem, gp = problem_of(2, variance=4.0)
    prior = random_posterior(3, seed=5) if own else Posterior.prior(3)
    q, noise = random_posterior(3, seed=4), Draws.shared(antithetic_draws(3, 64, seed=0))
    found = iterate_at(problem, gp, q, noise, tilted=True, prior=prior)
    assert found.change > 0.1
    S, P0, gap = np.linalg.inv(q.R @ q.R.T), prior.R @ prior.R.T, q.m - prior.m
    kl = 0.5 * (np.trace(P0 @ S) + gap @ P0 @ gap - 3 - np.linalg.slogdet(P0 @ S)[1])
    expected = found.sums.tilted - kl - 0.5 * np.trace(found.sums.curvature @ S)
    assert found.log_evidence == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", range(2))
def test_posterior_and_evidence_under_another_prior(seed):
    """As for bags that come later, whose prior is the posterior so far."""
    problem, gp = problem_of(seed, variance=4.0)
    prior = random_posterior(3, seed)
    found, truth = climbed(problem, gp, tilted=True, prior=prior), on_grid(problem, gp, prior)
    assert found.log_evidence == pytest.approx(truth[2], abs=0.03)
    assert max(errors(found.posterior, truth)) < 0.03
    assert max(errors(prior, truth)) > 0.2


def test_the_variational_algorithm_ends_with_tilted_steps():
    """With the 512 draws that it takes itself, against the optimum of the bound on the same ones."""
    before, after = [], []
    for seed in SEEDS[4]:
        problem, gp = problem_of(seed)
        algorithm, truth = Variational(Options(), seed=0), compared(seed, 4)[0]
        start = algorithm.begin(gp, None, problem, problem, None, whole=True)
        records = list(islice(algorithm.passes(problem, KernelState(gp, start)), STEPS))
        stages = [one.stage for one in records]
        assert stages == sorted(stages) and set(stages) == {0, 1}
        assert [one.unfinished for one in records] == [stage == 0 for stage in stages]
        before.append(errors(climbed(problem, gp, tilted=False, draws=512).posterior, truth))
        after.append(errors(records[-1].posterior, truth))
        assert abs(records[-1].log_evidence - truth[2]) < 0.06
    assert np.mean(after, axis=0)[1] < 0.85 * np.mean(before, axis=0)[1]
    assert np.max(after) < 0.06
