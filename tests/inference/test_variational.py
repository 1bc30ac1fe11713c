"""The variational Gaussian and the mode it starts from, against optimisers that share no code with them."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from problems import make, name, offsets_of, random_posterior
from psimil.compute.numpy_backend import available_threads, single_threaded_blas
from psimil.foundations.errors import NumericalFailure
from psimil.foundations.logistic import antithetic_draws
from psimil.inference import variational
from psimil.inference.bag_pass import BagSums, bag_pass_over, run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.shards import StreamedShards
from psimil.inference.variational import (
    FLOOR,
    LONGEST,
    SLACK,
    Stage,
    climb,
    iterate_at,
    mode,
    natural_step,
    newton,
    with_more_data,
)
from psimil.model.densities import HyperbolicSecant, SmoothLaplace
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import Posterior

SIZES = (1, 3, 2, 4, 2, 3, 1, 5)


def problem_of(seed=0, sizes=SIZES, M=4, **options):
    return make(seed, sizes, **{"M": M, "residual": "projected", "bias": 1.0, **options})


def stages(gp, draws=32, seed=0):
    """Steps on the bound alone, without end."""
    return [Stage(Draws.shared(antithetic_draws(gp.size, draws, seed)), tilted=False, enough=0.0)]


def climbed(shards, gp, steps, draws=32, start=None, **choices):
    """The iterates of so many steps from the mode."""
    start = newton(shards, gp, np.zeros(gp.size)) if start is None else start
    return list(islice(climb(shards, gp, start, stages(gp, draws), **choices), steps))


def log_likelihoods(V, offsets, T, weights, v):
    """(S,) log p(T | V v) for v (M, S), bag by bag."""
    total = np.zeros(v.shape[1])
    for b, (start, stop) in enumerate(pairwise(offsets)):
        negative = -np.logaddexp(0.0, V[start:stop] @ v).sum(axis=0)
        total += weights[b] * (negative if T[b] == 0 else np.log(-np.expm1(negative)))
    return total


def by_hand(problem, gp):
    return gp.features(problem.X), problem.labels.offsets, problem.labels.T, problem.weights


def bound_of(data, m, C, noise):
    """L of N(m, C C') with lower triangular C for fixed noise, from its definition."""
    kl = 0.5 * (np.square(C).sum() + m @ m - len(m)) - np.log(np.abs(np.diag(C))).sum()
    return log_likelihoods(*data, m[:, None] + C @ noise).mean() - kl


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] * (n > 2)) for n in range(6)])
@pytest.mark.parametrize("density", [HyperbolicSecant(), SmoothLaplace(0.4, 1.0)], ids=name)
def test_every_step_raises_the_bound_or_comes_closer(seed, density):
    known = np.full(sum(SIZES), -1)
    known[[1, 6]] = -1 if seed % 2 else 0  # some of the instances of their bags
    H = (np.inf, 20.0, 0.3)[seed % 3]
    problem, gp = problem_of(seed, density=density, known=known, H=H, variance=4.0)
    for start in (None, random_posterior(gp.size, seed, spread=3.0), Posterior(np.full(gp.size, 4.0), np.eye(gp.size))):
        found = climbed(problem, gp, 25, start=start)
        for a, b in pairwise(found):
            higher = b.bound.total >= a.bound.total
            assert higher or b.change < a.change or (a.posterior is b.posterior and b.weight == 0.0)
            assert b.bound.total >= a.bound.total - SLACK * a.bound.error
            root = np.linalg.solve(a.posterior.R, b.posterior.R)
            assert np.linalg.eigvalsh(root @ root.T).min() > FLOOR * (1 - 1e-9)
            moved = a.posterior.R.T @ (b.posterior.m - a.posterior.m)
            assert np.sqrt(np.mean(moved**2)) < LONGEST * (1 + 1e-9)
        assert found[-1].bound.total > found[0].bound.total - 3.0 * found[0].bound.error
        assert [one.step for one in found] == list(range(1, 26))
        assert not any(one.unfinished for one in found)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_what_its_definition_says(seed):
    problem, gp = problem_of(seed, weights=np.linspace(0.5, 2.0, 8))
    q, noise = random_posterior(gp.size, seed), antithetic_draws(gp.size, 16, seed=0)
    found = iterate_at(problem, gp, q, Draws.shared(noise))
    C = np.linalg.inv(q.R).T  # S = C C'; the bound on given draws depends on the root that makes them
    kl = 0.5 * (np.square(C).sum() + q.m @ q.m - gp.size - np.linalg.slogdet(C @ C.T)[1])
    V, *labels = by_hand(problem, gp)
    draws = V @ C @ noise
    draws *= np.sqrt(np.square(V @ C).sum(axis=1) / draws.var(axis=1))[:, None]  # of the variance that q(v) has
    expected = log_likelihoods(np.eye(len(V)), *labels, (V @ q.m)[:, None] + draws).mean() - kl
    assert found.bound.total == pytest.approx(expected, rel=1e-10)
    assert found.next_posterior is q


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_at_a_fixed_point(seed):
    """A whole step moves nothing, m = V' E g, and what says so is its divergence by direction that data tell of."""
    problem, gp = problem_of(seed)
    first, *_, last = climbed(problem, gp, 40)
    P = np.eye(gp.size) + first.sums.curvature
    m = first.posterior.m + np.linalg.solve(P, first.sums.gradient - first.posterior.m)
    np.testing.assert_allclose(first.whole_step.m, m, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(first.whole_step.R @ first.whole_step.R.T, P, rtol=1e-8, atol=1e-10)
    known = gp.size - np.trace(first.posterior.S)
    expected = divergence(first.whole_step, first.posterior) / max(known, 1.0)
    assert first.change == pytest.approx(expected, rel=1e-9)
    step, q = last.whole_step, last.posterior
    assert last.change < 1e-8
    assert (np.abs(step.m - q.m) / np.sqrt(np.diag(q.S))).max() < 1e-3
    np.testing.assert_allclose(np.diag(step.S), np.diag(q.S), rtol=1e-3)
    np.testing.assert_allclose(last.sums.gradient, q.m, atol=1e-3)


def divergence(p, q):
    """KL(p || q) of two normal distributions, by its textbook form."""
    P, gap = q.R @ q.R.T, p.m - q.m
    return 0.5 * (np.trace(P @ p.S) + gap @ P @ gap - len(gap) - np.linalg.slogdet(P @ p.S)[1])


@pytest.mark.parametrize("seed", range(4))
def test_it_comes_within_little_of_the_best_gaussian(seed):
    """All of m and a triangular root of S maximised by brute force, on many draws.

    The steps take the curvature as mean vector and variance, and their expectations are those of Stein's identity,
    which few draws satisfy only about: they are no gradient of the bound on these, but lead to the optimum on many.
    """
    problem, gp = problem_of(seed, M=2, bias=0.7, variance=3.0)
    data, noise = by_hand(problem, gp), antithetic_draws(gp.size, 2000, seed=9)
    lower = np.tril_indices(gp.size)

    def split(x):
        C = np.zeros((gp.size, gp.size))
        C[lower] = x[gp.size :]
        return x[: gp.size], C

    first = np.concatenate([np.zeros(gp.size), np.eye(gp.size)[lower]])
    best = minimize(lambda x: -bound_of(data, *split(x), noise), first, method="BFGS", options={"gtol": 1e-4})
    m, C = split(best.x)
    found = climbed(problem, gp, 30, draws=256)[-1].posterior
    near = bound_of(data, found.m, np.linalg.cholesky(found.S), noise)
    assert -best.fun - near < 5e-3
    scale = np.sqrt(np.diag(C @ C.T))
    np.testing.assert_allclose(found.m / scale, m / scale, atol=0.1)
    np.testing.assert_allclose(np.sqrt(np.diag(found.S)) / scale, 1.0, atol=0.06)


@pytest.mark.parametrize("seed", range(8))
def test_newton_finds_the_mode(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=12)
    problem, gp = problem_of(seed, sizes, M=5, variance=float(rng.uniform(0.5, 8.0)), weights=rng.uniform(0.2, 2, 12))
    data = by_hand(problem, gp)

    def log_posterior(v):
        return float(log_likelihoods(*data, v[:, None])[0] - 0.5 * v @ v)

    ends = [
        minimize(lambda v: -log_posterior(v), start, method="BFGS", options={"gtol": 1e-7})
        for start in (np.zeros(gp.size), rng.normal(size=gp.size))
    ]
    best = max(-end.fun for end in ends)
    found = newton(problem, gp, np.zeros(gp.size))
    assert log_posterior(found.m) > best - 2e-4 * len(sizes)
    value = [log_posterior(newton(problem, gp, rng.normal(size=gp.size)).m) for _ in range(2)]
    np.testing.assert_allclose(value, best, atol=2e-4 * len(sizes))


@pytest.mark.parametrize("H", [100.0, 20.0, 0.01])
def test_the_mode_of_large_bags_whose_labels_may_be_wrong_is_not_that_every_bag_is_positive(H):
    """At v = 0 a bag of 35 is positive but for 2^-35, and H alone says how much a negative label says to that."""
    problem, gp = problem_of(3, (35,) * 30, M=8, bias=3.0, H=H, variance=8.0, lengthscale=2.5)
    told = problem.labels.T if H > 1 else 1 - problem.labels.T
    positive = problem.labels.spread(told) == 1
    problem.X[positive] += np.where(np.arange(positive.sum()) % 35 < 5, 2.5, 0.0)[:, None]
    V = gp.features(problem.X)
    log_none = -problem.labels.sum(np.logaddexp(0.0, V @ mode(problem, gp).m))
    assert ((log_none < np.log(0.5)) == (told == 1)).mean() > 0.9
    stuck = -problem.labels.sum(np.logaddexp(0.0, V @ newton(problem, gp, np.zeros(gp.size)).m))
    assert (stuck < np.log(0.5)).all()


def test_bags_of_one_are_laplaces_approximation_of_logistic_regression():
    """Newton for bags of one: m = V'(T - sigma(V m)), S^-1 = I + V' diag(s (1 - s)) V."""
    problem, gp = problem_of(1, (1,) * 40, M=8)
    V, T = gp.features(problem.X), problem.labels.T
    m = np.zeros(gp.size)
    for _ in range(50):
        s = expit(V @ m)
        P = np.eye(gp.size) + (V * (s * (1 - s))[:, None]).T @ V
        m = m + np.linalg.solve(P, V.T @ (T - s) - m)
    found = newton(problem, gp, np.zeros(gp.size))
    np.testing.assert_allclose(found.m, m, atol=1e-3)
    s = expit(V @ found.m)
    P = np.eye(gp.size) + (V * (s * (1 - s))[:, None]).T @ V
    np.testing.assert_allclose(found.R @ found.R.T, P, rtol=1e-8)


def test_a_precision_is_kept_positive_definite():
    """One bag of many like instances that is positive bends the wrong way nearly everywhere."""
    problem, gp = problem_of(2, (6,), T=[1], M=6, variance=9.0, lengthscale=0.8, weights=[30.0])
    q = Posterior(np.append(np.zeros(6), -3.0), np.eye(7))  # each instance is thought to be negative
    _, sums = run_bag_pass(problem, gp, Draws.shared(q.m[:, None]))
    assert np.linalg.eigvalsh(sums.curvature + np.eye(gp.size)).min() < FLOOR
    for rho in (1.0, 0.5):
        step = natural_step(q, sums, rho)
        assert np.linalg.eigvalsh(step.R @ step.R.T).min() >= FLOOR * (1 - 1e-9)
    more = climbed(problem, gp, 10, draws=16, start=q, prior=q)
    for one in (*more, *climbed(problem, gp, 10)):
        for R in (one.posterior.R, one.whole_step.R):
            assert np.linalg.eigvalsh(R @ R.T).min() >= FLOOR * (1 - 1e-9)
    with pytest.raises(NumericalFailure, match="non-finite"):
        natural_step(q, BagSums(np.full((gp.size,) * 2, np.nan), sums.gradient, np.zeros((1, 1)), 0.0), 1.0)


def test_a_step_that_makes_things_worse_is_taken_back_and_halved(monkeypatch):
    asked, true_step = [], variational.half_way

    def wild(q, C, slope, weight):
        asked.append(weight)
        step = true_step(q, C, slope, weight)
        return Posterior(step.m + 1e3, step.R) if weight > 0.3 else step

    problem, gp = problem_of(0)
    start = Posterior.prior(gp.size)
    _, right = climbed(problem, gp, 2, start=start)
    monkeypatch.setattr(variational, "half_way", wild)
    first, second, _ = climbed(problem, gp, 3, start=start)
    assert first.weight == 1.0
    assert asked[:3] == [1.0, 0.5, 0.25]
    assert asked[3] == second.weight in (0.125, 0.25, 0.5)  # of the step that was taken, or half or twice as much
    assert first.bound.total < second.bound.total < right.bound.total
    monkeypatch.setattr(variational, "half_way", lambda q, C, slope, weight: Posterior(q.m + 1e3, q.R))
    still = climbed(problem, gp, 4, start=start)
    assert all(one.posterior is still[0].posterior for one in still)
    assert [one.change == 0.0 for one in still] == [False, True, True, True]  # no step helps
    assert [one.step for one in still] == [1, 2, 3, 4]


def test_where_the_data_are_and_how_they_are_cut_does_not_matter():
    sizes = np.random.default_rng(0).integers(1, 8, size=50)
    problem, gp = problem_of(10, sizes, M=8)
    first = climbed(problem, gp, 6)[-1]
    streamed = StreamedShards(problem.X, problem.labels, problem.weights, Scaling.identity(2), problem.density, rows=40)
    others = [replace(problem, rows=r, keep=False, whole=w) for r, w in ((17, True), (17, False), (10**6, False))]
    for other in (*others, streamed):
        last = climbed(other, gp, 6)[-1]
        assert last.bound.total == pytest.approx(first.bound.total, rel=1e-7)
        np.testing.assert_allclose(last.posterior.m, first.posterior.m, atol=1e-5)
        assert (last.local is None) == (other is streamed)


def test_number_of_threads_does_not_change_a_bit():
    sizes = np.random.default_rng(0).integers(1, 8, size=400)
    problem, gp = problem_of(11, sizes, M=8, rows=20)
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            if available_threads() != threads:
                pytest.skip(f"BLAS does not run {threads} threads here")
            with single_threaded_blas():
                found.append(climbed(problem, gp, 4, draws=128)[-1])
    for one in found[1:]:
        np.testing.assert_array_equal(one.posterior.m, found[0].posterior.m)
        np.testing.assert_array_equal(one.posterior.R, found[0].posterior.R)
        assert one.bound == found[0].bound


def test_a_climb_goes_on_from_an_iterate_to_the_same_bits():
    problem, gp = problem_of(3)
    whole = climbed(problem, gp, 6)
    other = gp.rebuilt(gp.kernel.with_log_parameters(gp.kernel.log_parameters + 1.0))  # the iterate knows its kernel
    for i, begun in enumerate(whole[:-1]):
        again = list(islice(climb(problem, other, Posterior.prior(gp.size), stages(gp), begun), 5 - i))
        np.testing.assert_array_equal(again[-1].posterior.m, whole[-1].posterior.m)
        assert [one.step for one in again] == list(range(i + 2, 7))


def test_more_data_say_more_at_the_same_mean():
    q = random_posterior(3, seed=1)
    found, P = with_more_data(q, 3.0), q.R @ q.R.T
    np.testing.assert_array_equal(found.m, q.m)
    np.testing.assert_allclose(found.R @ found.R.T, np.eye(3) + 3.0 * (P - np.eye(3)), rtol=1e-10, atol=1e-12)
    weak = with_more_data(Posterior(q.m, np.eye(3) * np.sqrt(0.2)), 100.0)
    assert np.linalg.eigvalsh(weak.R @ weak.R.T).min() >= FLOOR


def test_doubled_weights_are_doubled_bags():
    problem, gp = problem_of(4)
    twice = replace(
        problem,
        X=np.concatenate([problem.X, problem.X]),
        labels=replace(problem.labels, T=np.tile(problem.labels.T, 2), offsets=offsets_of(SIZES * 2)),
        weights=np.ones(16),
    )
    one, other = (climbed(p, gp, 8)[-1] for p in (replace(problem, weights=np.full(8, 2.0)), twice))
    assert one.bound.total == pytest.approx(other.bound.total, rel=1e-8)
    np.testing.assert_allclose(one.posterior.m, other.posterior.m, atol=1e-6)
    noise = Draws.shared(antithetic_draws(gp.size, 8, seed=1))
    assert bag_pass_over(twice, gp, noise.of(one.posterior))[0].likelihood.shape == (1, 8)
