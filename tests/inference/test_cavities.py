"""Bags left out of the variational posterior: the algebra, and what a fit without them says."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from problems import make, offsets_of
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.algorithm import Variational
from psimil.inference.bag_pass import run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.options import Options
from psimil.inference.out_of_bag import FLOOR, leave_out
from psimil.inference.variational import Stage, climb, newton
from psimil.model.densities import HyperbolicSecant

SIZES = (1, 3, 2, 7, 3, 1, 12, 5)  # smaller and larger than M
WEIGHTS = (1.0, 2.0, 0.0, 0.5, 3.0, 1.0, 1.0, 2.0)
ALONE, FOLDS = np.arange(8), np.array([0, 1, 2, 0, 1, 2, 0, 1])  # every bag by itself, and some together


def stages(gp):
    """Steps on the bound alone, at the sites of which the algebra is checked."""
    return [Stage(Draws.shared(antithetic_draws(gp.size, 64, seed=0)), tilted=False, enough=0.0)]


def fitted(steps=8, sizes=SIZES, **options):
    problem, gp = make(3, sizes, **{"M": 5, "bias": 1.0, "residual": "projected", **options})
    *_, record = islice(climb(problem, gp, newton(problem, gp, np.zeros(gp.size)), stages(gp)), steps)
    return problem, gp, record


def curvature(problem, gp, local, keep):
    """V' Lambda V over the bags in ``keep``, by dense algebra."""
    V, total = gp.features(np.asarray(problem.X, dtype=float)), np.zeros((gp.size, gp.size))
    signs = problem.likelihood.sign(problem.labels)
    for b, (start, stop) in enumerate(pairwise(problem.labels.offsets)):
        rows, w = slice(start, stop), problem.weights[b]
        Lambda = np.diag(local.diagonal[rows]) + signs[b] * np.outer(local.vector[rows], local.vector[rows])
        total += keep[b] * w * V[rows].T @ Lambda @ V[rows]
    return total


@pytest.mark.parametrize("residual", ["projected", "full"])
@pytest.mark.parametrize("H", [np.inf, 20.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("fold", [ALONE, FOLDS], ids=["one by one", "folds"])
def test_it_is_the_newton_step_without_the_fold_at_the_same_sites(residual, H, weights, fold):
    problem, gp, record = fitted(residual=residual, H=H, weights=weights, rows=6)
    q, local, V = record.posterior, record.local, gp.features(problem.X)
    mean, variance, _ = leave_out(record, problem, fold)
    k, of_instances = gp.residual_variance(problem.X, V), np.repeat(fold, SIZES)
    for number in np.unique(fold):
        rows = of_instances == number
        P = q.R @ q.R.T - curvature(problem, gp, local, fold == number)
        assert np.linalg.eigvalsh(P).min() > FLOOR
        m = q.m - np.linalg.solve(P, V[rows].T @ (problem.instance_weights * local.gradient)[rows])
        spread = np.einsum("nm,mk,nk->n", V[rows], np.linalg.inv(P), V[rows])
        prior = np.square(V[rows]).sum(axis=1) if residual == "projected" else np.full(rows.sum(), 2.5)
        np.testing.assert_allclose(mean[rows], V[rows] @ m, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variance[rows], np.minimum(spread, prior) + k[rows], rtol=1e-9, atol=1e-9)


def test_at_the_optimum_the_precision_without_a_bag_is_that_of_the_others():
    problem, gp, record = fitted(60)
    q, everything = record.posterior, np.ones(len(SIZES))
    whole = np.eye(gp.size) + curvature(problem, gp, record.local, everything)
    np.testing.assert_allclose(q.R @ q.R.T, whole, atol=0.05 * np.abs(whole).max())


def test_it_comes_close_to_a_fit_without_the_bag():
    """With fifty bags: bag by bag a fit of the others, from the mode on."""
    sizes = tuple(np.random.default_rng(1).integers(1, 7, size=50))
    problem, gp, record = fitted(20, sizes, variance=3.0)
    mean, variance, _ = leave_out(record, problem, np.arange(50))
    V, errors, moved = gp.features(problem.X), [], []
    for b, (start, stop) in list(enumerate(pairwise(offsets_of(sizes))))[::5]:
        rows, weights = slice(start, stop), np.where(np.arange(50) == b, 0.0, 1.0)
        others = replace(problem, weights=weights)
        *_, end = islice(climb(others, gp, newton(others, gp, np.zeros(gp.size)), stages(gp)), 15)
        scale = np.sqrt(np.square(V[rows] @ end.posterior.U).sum(axis=1))
        errors.append((mean[rows] - V[rows] @ end.posterior.m) / scale)
        moved.append((V[rows] @ (record.posterior.m - end.posterior.m)) / scale)
        np.testing.assert_allclose(np.sqrt(variance[rows]) / scale, 1.0, atol=0.25)
    error, move = (np.sqrt(np.square(np.concatenate(e)).mean()) for e in (errors, moved))
    assert error < 0.15  # of a standard deviation
    assert error < 0.35 * move  # where the bag itself moves its latents by this much


def test_where_a_fold_moves_much_it_is_fitted_again():
    problem, gp, record = fitted(30, variance=400.0)
    asked = []

    def refitted(of, q, shard, bags):
        assert (of, q, shard) == (gp, record.posterior, problem)
        asked.append(bags.tolist())
        return Variational(Options(HyperbolicSecant(), posterior="variational"), seed=0).without(of, q, shard, bags)

    found, closed, V = (
        leave_out(record, problem, FOLDS, refitted),
        leave_out(record, problem, FOLDS),
        gp.features(problem.X),
    )
    assert asked == [[0, 3, 6]]  # .7 nats per direction; the others less than .1
    rows = np.repeat(FOLDS, SIZES) == 0
    np.testing.assert_array_equal(found.mean[~rows], closed.mean[~rows])
    others = replace(problem, weights=np.where(FOLDS == 0, 0.0, 1.0))
    *_, end = islice(climb(others, gp, newton(others, gp, np.zeros(gp.size)), stages(gp)), 60)
    mean, deviation = V[rows] @ end.posterior.m, np.sqrt(np.square(V[rows] @ end.posterior.U).sum(axis=1))
    off, closed_off = (np.abs((one.mean[rows] - mean) / deviation).max() for one in (found, closed))
    assert off < 0.5
    assert closed_off > 2 * off
    np.testing.assert_allclose(np.sqrt(found.variance[rows]) / deviation, 1.0, atol=0.25)


def test_chunks_and_streamed_rows_agree():
    problem, _, record = fitted()
    first = leave_out(record, problem, FOLDS)
    for rows, keep, whole in ((1, True, True), (4, False, True), (4, False, False), (10**6, False, False)):
        found = leave_out(record, replace(problem, rows=rows, keep=keep, whole=whole), FOLDS)
        np.testing.assert_allclose(found[:2], first[:2], rtol=1e-9, atol=1e-9)


def test_a_bag_without_weight_is_already_left_out():
    problem, gp, record = fitted(weights=WEIGHTS)
    mean, variance, _ = leave_out(record, problem, ALONE)
    V, rows = gp.features(problem.X), problem.instance_weights == 0
    np.testing.assert_allclose(mean[rows], (V @ record.posterior.m)[rows], atol=1e-10)
    spread = np.square(V @ record.posterior.U).sum(axis=1)
    np.testing.assert_allclose(variance[rows], spread[rows], rtol=1e-8)


@pytest.mark.parametrize("scale", [0.05, 30.0], ids=["definite", "indefinite"])
def test_what_is_left_is_a_precision_also_where_curvature_is_too_large(scale):
    """Eigenvalues of a precision that would be negative count by their size."""
    problem, gp, record = fitted()
    rng, q, local = np.random.default_rng(0), record.posterior, record.local
    n = len(problem.X)
    local = replace(local, diagonal=scale * rng.normal(size=n), vector=np.sqrt(scale) * rng.normal(size=n) / 4)
    mean, variance, _ = leave_out(replace(record, local=local), problem, FOLDS)
    V, of_instances, smallest = gp.features(problem.X), np.repeat(FOLDS, SIZES), []
    for number in range(3):
        rows, own = of_instances == number, curvature(problem, gp, local, number == FOLDS)
        values, vectors = np.linalg.eigh(np.eye(gp.size) - q.U.T @ own @ q.U)
        smallest.append(values.min())
        half = V[rows] @ q.U @ (vectors / np.sqrt(np.maximum(np.abs(values), FLOOR)))
        g = V[rows].T @ local.gradient[rows]
        moved = half @ ((vectors / np.sqrt(np.maximum(np.abs(values), FLOOR))).T @ (q.U.T @ g))
        np.testing.assert_allclose(mean[rows], V[rows] @ q.m - moved, rtol=1e-7, atol=1e-8)
        expected = np.minimum(np.square(half).sum(axis=1), np.square(V[rows]).sum(axis=1))
        np.testing.assert_allclose(variance[rows], expected, rtol=1e-7)
    assert (min(smallest) < 0.0) == (scale > 1.0)


def test_sites_of_the_last_pass_are_those_that_are_taken_away():
    problem, gp, record = fitted()
    draws = Draws.shared(antithetic_draws(gp.size, 64, seed=0)).of(record.posterior)
    local, _ = run_bag_pass(problem, gp, draws)
    np.testing.assert_allclose(record.local.gradient, local.gradient, rtol=1e-10)
    np.testing.assert_array_equal(record.local.gradient_at(np.full(7, 9.0), slice(6, 13)), record.local.gradient[6:13])
