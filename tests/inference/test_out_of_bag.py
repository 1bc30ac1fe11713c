"""Folds left out in closed form against dropping their bags and solving again; how bags are dealt; scores."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from problems import DENSITIES, dense, make, name, solve_q
from psimil.inference.options import Options
from psimil.inference.out_of_bag import OutOfBag, deal, leave_out, log_predictive, out_of_bag, out_of_bag_score
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, Posterior
from psimil.paper.ascent import ascend
from psimil.predictive.calibration import LatentBags
from psimil.predictive.moments import Calibration
from psimil.predictive.prediction import BagLayout
from psimil.predictive.thresholds import bag_threshold
from psimil.predictive.trained import TrainedModel

SIZES = (1, 3, 2, 7, 3, 1, 12, 5)  # smaller and larger than M
M = 5
ALONE, FOLDS = np.arange(8), np.array([0, 1, 2, 0, 1, 2, 0, 1])  # every bag by itself, and some together


def fitted(passes=6, **options):
    problem, gp = make(3, SIZES, M=M, **options)
    return problem, gp, next(islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size))), passes - 1, passes))


def by_removal(problem, gp, local, fold):
    """Moments of each bag under the q(u) of all other folds, their theta and kappa kept: dense algebra."""
    model, of_instances = dense(problem, gp), np.repeat(fold, np.diff(problem.labels.offsets))
    mean, variance = np.empty(len(problem.X)), np.empty(len(problem.X))
    for number in np.unique(fold):
        out = of_instances == number
        mu, s2 = model.moments(*solve_q(problem, model, local.theta, local.pi - 0.5, np.where(out, 0.0, 1.0)))
        mean[out], variance[out] = mu[out], s2[out]
    return mean, variance


@pytest.mark.parametrize("residual", ["full", "projected"])
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0)], ids=name)
@pytest.mark.parametrize("fold", [ALONE, FOLDS], ids=["one by one", "folds"])
def test_equals_really_removing_the_bags(residual, bias, weighted, density, fold):
    weights = [1.0, 2.0, 0.0, 0.5, 3.0, 1.0, 1.0, 2.0] if weighted else None
    problem, gp, record = fitted(residual=residual, bias=bias, weights=weights, density=density, H=100.0, rows=6)
    mean, variance, _ = leave_out(record, problem, fold)
    assert mean.shape == variance.shape == (sum(SIZES),)
    expected = by_removal(problem, gp, record.local, fold)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_equals_removal_for_every_density_and_label_posterior(density, rule):
    problem, gp, record = fitted(residual="full", bias=1.0, density=density, rule=rule)
    found = leave_out(record, problem, FOLDS)[:2]
    np.testing.assert_allclose(found, by_removal(problem, gp, record.local, FOLDS), rtol=1e-9, atol=1e-10)


def test_streamed_and_chunked_agree():
    problem, _, record = fitted(residual="full", bias=2.0)
    first = leave_out(record, problem, FOLDS)[:2]
    for rows, keep, whole in ((1, True, True), (4, False, True), (4, False, False), (10**6, False, False)):
        other = replace(problem, rows=rows, keep=keep, whole=whole)
        found = leave_out(record, other, FOLDS)[:2]
        np.testing.assert_allclose(found, first, rtol=1e-11, atol=1e-12)


def test_weight_zero_is_already_left_out():
    """A bag without weight taught nothing, so its own moments do not change."""
    problem, _, record = fitted(weights=[1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], bias=1.0, passes=200)
    mean, variance, _ = leave_out(record, problem, ALONE)
    rows = problem.instance_weights == 0
    assert rows.sum() == 19
    np.testing.assert_allclose(mean[rows], record.local.mu[rows], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(variance[rows], record.local.s2[rows], rtol=1e-7)


def test_out_of_bag_variance_is_larger_and_carries_the_labels():
    problem, _, record = fitted(bias=2.0, residual="projected", passes=100)
    bags, fold = out_of_bag(record, problem, "max")
    assert fold.shape == (8,)
    assert bags.aggregate == "max"
    assert np.array_equal(bags.T, problem.labels.T)
    assert np.array_equal(bags.offsets, problem.labels.offsets)
    assert (bags.variance >= record.local.s2 * (1 - 1e-6)).all()


def test_log_predictive_from_log_odds():
    odds = np.array([-900.0, -2.0, 0.0, 3.0, 900.0])
    for T in (0, 1):
        found = log_predictive(odds, np.full(5, T))
        p = 1 / (1 + np.exp(-odds[1:4]))
        np.testing.assert_allclose(found[1:4], np.log(p if T else 1 - p), rtol=1e-12)
        assert found[0 if T else 4] == -900.0
        assert found[4 if T else 0] == 0.0


def test_scores_of_bags_come_from_calibrated_latents():
    """Log-odds at which the labels 1 and 0 have the log predictives -1 and -3, before a calibration."""
    log_odds = np.array([-np.log(np.expm1(1.0)), np.log(np.expm1(3.0))])
    latent = LatentBags((log_odds - 0.5) / 2.0, np.ones(2), np.array([0, 1, 2]), np.array([1, 0]), np.ones(2))
    model = SimpleNamespace(
        calibration=Calibration(2.0, 0.5, 3.0),
        assemble=lambda bags, moments, dependence: SimpleNamespace(
            log_odds=moments[0], names=bags.names, variance=moments[1]
        ),
    )
    found = OutOfBag(model, BagLayout(np.array(["a", "b"]), latent.offsets), latent, np.array([0, 1]))
    assert found.prediction.names.tolist() == ["a", "b"]
    assert found.prediction.variance.tolist() == [9.0, 9.0]
    np.testing.assert_allclose(found.log_predictive, [-1.0, -3.0], rtol=1e-12)
    np.testing.assert_allclose(found.influence, [1.0, 3.0], rtol=1e-12)
    assert found.mean_log_predictive == pytest.approx(-2.0, rel=1e-12)


def test_score_finds_the_mislabelled_bag_and_falls_with_it():
    rng = np.random.default_rng(0)
    sizes = (2,) * 40
    problem, gp = make(0, sizes, D=1, M=6, bias=2.0, residual="projected", variance=4.0, lengthscale=2.0)
    T = problem.labels.T
    problem.X[:, 0] = np.repeat(np.where(T == 1, 2.0, -2.0), 2) + 0.3 * rng.normal(size=80)
    wrong = T.copy()
    wrong[7] = 1 - wrong[7]
    scores = []
    for labels in (T, wrong):
        given = replace(problem, labels=replace(problem.labels, T=labels))
        record = next(islice(ascend(given, KernelState(gp, Posterior.prior(gp.size))), 29, 30))
        model = TrainedModel(Scaling.identity(1), record.gp, record.next_posterior)
        scores.append(out_of_bag_score(model, record, given, Options(calibrate=True)))
        bags, _ = out_of_bag(record, given, "noisy_or")
    assert scores[0] > scores[1] + 0.05
    surprise = np.where(wrong == 1, -1, 1) * bags.mean[::2]
    assert np.argmax(surprise) == 7


@pytest.mark.parametrize(("bags", "folds"), [(1, 1), (2, 2), (5, 2), (12, 6), (20, 10), (500, 10)])
def test_folds_have_both_labels_in_proportion(bags, folds):
    rng = np.random.default_rng(bags)
    T = (rng.random(bags) < 0.3).astype(int)
    fold = deal(T, rng.normal(size=bags), columns=10, instances=bags)
    assert np.array_equal(np.unique(fold), np.arange(folds))
    for members in (np.ones(bags, dtype=bool), T == 0, T == 1):
        counts = np.bincount(fold[members], minlength=folds)
        assert counts.max() - counts.min() <= 1


def test_the_order_of_bags_does_not_count():
    rng = np.random.default_rng(0)
    T, keys, order = rng.integers(0, 2, size=40), rng.normal(size=40), rng.permutation(40)
    np.testing.assert_array_equal(deal(T[order], keys[order], 5, 40), deal(T, keys, 5, 40)[order])


def test_a_fold_of_large_data_keeps_little_in_memory():
    T, keys = np.arange(1000) % 2, np.arange(1000.0)
    assert deal(T, keys, columns=200, instances=10**6).max() == 10
    assert deal(T, keys, columns=200, instances=10**7).max() == 118


def test_a_model_without_signal_does_not_rank_labels_when_folds_are_left_out():
    """One by one, every bag is predicted by a model that leans to the other label, and ranks behind it."""
    problem, gp = make(0, (3,) * 40, M=1, bias=3.0, residual="projected", variance=1e-8, T=np.arange(40) % 2)
    record = next(islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size))), 49, 50))
    T, starts = problem.labels.T, problem.labels.offsets[:-1]
    alone = leave_out(record, problem, np.arange(40)).mean[starts]
    assert alone[T == 1].max() < alone[T == 0].min()
    _, fold = out_of_bag(record, problem, "noisy_or")
    together = leave_out(record, problem, fold).mean[starts]
    for number in range(10):
        assert np.ptp(together[fold == number]) < 1e-3 * np.ptp(alone)


def test_copies_of_a_bag_share_a_fold_unless_all_are_copies():
    T, keys = np.repeat([0, 1], 60), np.repeat(np.random.default_rng(0).normal(size=60), 2)
    fold = deal(T, keys, columns=5, instances=120)
    assert (fold[::2] == fold[1::2]).all() and np.ptp(np.bincount(fold)) <= 2
    assert len(np.unique(deal(T, np.zeros(120), columns=5, instances=120)[:60])) == 10


def test_no_bag_is_called_by_a_threshold_that_it_chose():
    log_odds, T, fold = np.array([-3.0, -2.0, 1.0, 2.0] * 6), np.array([0, 1, 1, 1] * 6), np.repeat([0, 1, 2], 8)
    T[:8] = [0, 0, 1, 1] * 2
    latent = LatentBags(log_odds, np.zeros(24), np.arange(25), T, np.ones(24))
    model = SimpleNamespace(calibration=Calibration(), threshold=0.3)
    model.assemble = lambda bags, moments, dependence: SimpleNamespace(log_odds=moments[0])
    found = OutOfBag(model, BagLayout(np.arange(24), latent.offsets), latent, fold).thresholds
    for number in range(3):
        others = fold != number
        assert (found[fold == number] == bag_threshold(log_odds[others], T[others])).all()
    assert len(np.unique(found)) > 1
    given = OutOfBag(model, BagLayout(np.arange(24), latent.offsets), latent, fold, chosen=False)
    assert (given.thresholds == 0.3).all()
