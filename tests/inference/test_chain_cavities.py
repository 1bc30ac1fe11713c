"""Bags left out where labels form chains: against dense formulas, and draws with enumerated labels."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from chained import dense_curvature, joint, links_for, make_chained, sign_of
from problems import labellings, offsets_of
from psimil.foundations.logistic import antithetic_draws
from psimil.inference import out_of_bag as module
from psimil.inference.draws import Draws
from psimil.inference.out_of_bag import FLOOR, leave_out
from psimil.inference.variational import Stage, climb, newton

SIZES, T = (1, 3, 2, 7, 4, 1, 8, 5), (0, 1, 0, 1, 0, 1, 1, 0)  # smaller and larger than M = 6
OFFSETS = offsets_of(SIZES)
WEIGHTS = (1.0, 2.0, 0.0, 0.5, 3.0, 1.0, 1.0, 2.0)
FOLDS = np.array([0, 1, 2, 3, 0, 4, 5, 1])  # some bags together, some by themselves
LINKS = links_for(SIZES, seed=3)
KNOWN = np.full(sum(SIZES), -1)
KNOWN[[2, 5, 7, 10, 18, 20, 24]] = [0, 0, 0, 1, 0, 1, 0]


def fitted(steps=8, **options):
    """A problem, its sparse GP, and an iterate after some steps on the bound."""
    options = {"M": 5, "bias": 1.0, "residual": "projected", "T": T, "links": LINKS} | options
    problem, gp = make_chained(3, SIZES, **options)
    stages = [Stage(Draws.shared(antithetic_draws(gp.size, 64, seed=0)), tilted=False, enough=0.0)]
    *_, record = islice(climb(problem, gp, newton(problem, gp, np.zeros(gp.size)), stages), steps)
    return problem, gp, record


def cavities(problem, gp, record, H=np.inf):
    """Rows, means (n,) and covariances (n, n) of the latent values of every bag without its fold, by dense algebra."""
    q, sites, V = record.posterior, record.local, gp.features(problem.X)
    Lambda, w = dense_curvature(sites, OFFSETS, sign_of(T, H)), problem.instance_weights
    for bag, (start, stop) in enumerate(pairwise(OFFSETS)):
        out, rows = np.flatnonzero(np.repeat(FOLDS, SIZES) == FOLDS[bag]), slice(start, stop)
        P = q.R @ q.R.T - V[out].T @ (w[out, None] * Lambda[np.ix_(out, out)]) @ V[out]
        assert np.linalg.eigvalsh(P).min() > FLOOR
        m = q.m - np.linalg.solve(P, V[out].T @ (w[out] * sites.gradient[out]))
        yield rows, V[rows] @ m, V[rows] @ np.linalg.solve(P, V[rows].T)


@pytest.mark.parametrize("H", [np.inf, 20.0])
@pytest.mark.parametrize("known", [None, KNOWN], ids=["unknown", "known"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_the_curvature_of_chains_is_taken_away_with_the_bag(weights, known, H):
    """Links of hardly any strength leave the latent values themselves, whose means antithetic draws have exactly."""
    problem, gp, record = fitted(weights=weights, known=known, H=H)
    assert len(record.local.chains) == (1 if known is None else 2)
    bare = replace(problem, labels=replace(problem.labels, links=1e-13 * LINKS))
    mean, variance, _ = leave_out(record, bare, FOLDS)
    for rows, expected, C in cavities(problem, gp, record, H):
        np.testing.assert_allclose(mean[rows], expected, rtol=1e-9, atol=1e-9)
        trusted = np.minimum(np.diag(C), np.square(gp.features(problem.X[rows])).sum(axis=1))
        np.testing.assert_allclose(variance[rows] / trusted, 1.0, atol=0.45)  # of 128 draws


def enumerated(f, J):
    """(S, n) log-odds of every label and (S,) log P(all y = 0), by enumeration."""
    p, Y = np.exp(joint(f, J)), labellings(f.shape[1])
    return np.log(p @ Y) - np.log(p @ (1 - Y)), joint(f, J)[:, 0]


def test_means_variances_and_dependence_are_those_of_draws_with_labels_summed_out(monkeypatch):
    """Of 8192 draws on either side: within five standard errors."""
    monkeypatch.setattr(module, "DRAWS", 1 << 13)
    problem, gp, record = fitted()
    found, S, rng = leave_out(record, problem, FOLDS), 1 << 13, np.random.default_rng(0)
    prior = np.square(gp.features(problem.X)).sum(axis=1)
    for b, (rows, expected, C) in enumerate(cavities(problem, gp, record)):
        values, vectors = np.linalg.eigh(C)
        spread = (vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.normal(size=(len(C), S))
        stretch = np.sqrt(np.minimum(np.diag(C), prior[rows]) / np.diag(C))
        log_odds, log_negative = enumerated(expected + spread.T * stretch, LINKS[rows])
        deviation = log_odds.std(axis=0)
        assert (np.abs(found.mean[rows] - log_odds.mean(axis=0)) < 5 * np.sqrt(2 / S) * deviation).all()
        np.testing.assert_allclose(np.sqrt(found.variance[rows]) / deviation, 1.0, atol=0.06)
        q = np.exp(log_negative)
        error = 5 * np.sqrt(2 / S) * q.std() / q.mean()
        assert found.dependence.log_negative[b] == pytest.approx(np.log(q.mean()), abs=error)
        apart = np.log((1 / (1 + np.exp(log_odds))).mean(axis=0)).sum()
        assert found.dependence.log_apart[b] == pytest.approx(apart, abs=0.05 + 0.01 * abs(apart))
        assert found.dependence.log_ratio[b] > -0.05 * max(1.0, abs(apart)) ** 0.5


def test_chunks_and_rows_that_are_not_kept_agree():
    """Means to many digits; draws are of other roots of the same matrix only where another side is taken."""
    problem, _, record = fitted()
    first = leave_out(record, problem, FOLDS)
    for rows, keep, whole in ((1, True, True), (4, False, True), (4, False, False), (10**6, False, False)):
        found = leave_out(record, replace(problem, rows=rows, keep=keep, whole=whole), FOLDS)
        np.testing.assert_allclose(found[:2], first[:2], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found.dependence, first.dependence, rtol=1e-7, atol=1e-7)


def test_a_bag_without_weight_is_already_left_out():
    problem, gp, record = fitted(weights=WEIGHTS)
    bare = replace(problem, labels=replace(problem.labels, links=1e-13 * LINKS))
    rows = problem.instance_weights == 0
    mean = leave_out(record, bare, FOLDS).mean[rows]
    np.testing.assert_allclose(mean, (gp.features(problem.X) @ record.posterior.m)[rows], atol=1e-9)


def test_it_comes_close_to_a_fit_without_the_bag():
    """The step that leaves a bag out goes most of the way to a fit in which it has no weight."""
    sizes = tuple(np.random.default_rng(1).integers(1, 7, size=50))
    problem, gp = make_chained(3, sizes, M=5, bias=1.0, residual="projected", variance=3.0)
    stages = [Stage(Draws.shared(antithetic_draws(gp.size, 64, seed=0)), tilted=False, enough=0.0)]

    def climbed(shard, steps):
        *_, record = islice(climb(shard, gp, newton(shard, gp, np.zeros(gp.size)), stages), steps)
        return record

    record = climbed(problem, 20)
    bare = replace(problem, labels=replace(problem.labels, links=1e-13 * problem.labels.links))
    mean, V, errors, moved = leave_out(record, bare, np.arange(50)).mean, gp.features(problem.X), [], []
    for b, (start, stop) in list(enumerate(pairwise(offsets_of(sizes))))[::7]:
        rows, weights = slice(start, stop), np.where(np.arange(50) == b, 0.0, 1.0)
        end = climbed(replace(problem, weights=weights), 15)
        scale = np.sqrt(np.square(V[rows] @ end.posterior.U).sum(axis=1))
        errors.append((mean[rows] - V[rows] @ end.posterior.m) / scale)
        moved.append((V[rows] @ (record.posterior.m - end.posterior.m)) / scale)
    error, move = (np.sqrt(np.square(np.concatenate(e)).mean()) for e in (errors, moved))
    assert error < 0.15  # of a standard deviation
    assert error < 0.4 * move
