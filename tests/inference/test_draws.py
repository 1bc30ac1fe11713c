"""Draws of groups of bags, and steps of q(v), against sums bag by bag, a simulation and powers of matrices."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power, sqrtm

from problems import make, random_posterior
from psimil.inference import draws as draws_of_v
from psimil.inference.bag_pass import bag_pass_over, run_bag_pass
from psimil.inference.draws import Draws
from psimil.inference.shards import StreamedShards
from psimil.inference.variational import FLOOR, GROWTH, LONGEST, NEAR, OF_MEAN, half_way, next_weight
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import Posterior


def labels_of(bags, size):
    return Labels(np.zeros(bags), np.arange(bags + 1) * size)


@pytest.mark.parametrize(
    ("bags", "size", "fewer", "blocks", "draws", "group"),
    [
        (100, 1, 1, 1, 512, None),  # 2^21 instances times draws would be 20971 draws: no more than 512
        (4096, 1, 1, 1, 512, None),  # just as many
        (4096, 1, 4, 1, 128, None),
        (4097, 1, 1, 17, 256, 256),  # one power of two fewer; 2^16 values of a group of bags at a time
        (1000, 10, 1, 20, 128, 51),
        (1000, 10, 4, 5, 32, 205),
        (50_000, 1, 1, 25, 32, 2048),
        (50_000, 1, 4, 13, 16, 4096),  # never fewer than 16
        (4, 300_000, 1, 4, 16, 1),  # never fewer bags in a group than one, nor more blocks than groups
    ],
)
def test_draws_are_as_many_as_are_cheap(bags, size, fewer, blocks, draws, group):
    found = Draws.for_bags(3, labels_of(bags, size), 7, fewer)
    assert found.blocks.shape == (blocks, 3, draws)
    assert found.group >= bags if group is None else found.group == group
    np.testing.assert_array_equal(found.blocks[..., draws // 2 :], -found.blocks[..., : draws // 2])
    assert np.square(found.blocks).mean() == pytest.approx(1.0, abs=5 / np.sqrt(found.blocks.size / 2))
    firsts = found.blocks[:, 0, 0]
    assert len(set(firsts)) == blocks  # every block has its own
    again, other = (Draws.for_bags(3, labels_of(bags, size), seed, fewer).blocks for seed in (7, 8))
    np.testing.assert_array_equal(again, found.blocks)
    assert not np.isin(other[:, 0, 0], firsts).any()


def test_draws_of_a_posterior_have_its_mean_and_covariance():
    q = random_posterior(3, seed=0)
    found = Draws(np.random.default_rng(0).standard_normal((4, 3, 20_000)), group=5).of(q)
    assert found.group == 5
    S = np.linalg.inv(q.R @ q.R.T)
    for block in found.blocks:
        np.testing.assert_allclose(block.mean(axis=1), q.m, atol=0.03)
        np.testing.assert_allclose(np.cov(block), S, atol=0.03)
    A = np.triu(np.arange(1.0, 10.0).reshape(3, 3))
    np.testing.assert_allclose(found.times(A).blocks[2], A @ found.blocks[2], rtol=1e-12)
    np.testing.assert_allclose(found.times(A).root, A @ q.U, rtol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
def test_latent_values_of_few_draws_have_the_moments_of_many(shared):
    """Mean and variance of every instance are exact; of two instances the correlation is that of their draws."""
    problem, gp = problem_of()
    q, V = random_posterior(gp.size, seed=1), gp.features(problem.X)
    noise = Draws.shared(draws_of(gp).blocks[0]) if shared else draws_of(gp)
    draws = noise.of(q)
    mean, deviations = draws.latent(problem.backend, V, bag=5)
    np.testing.assert_allclose(mean, V @ q.m, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(deviations.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(deviations.var(axis=0), np.square(V @ q.U).sum(axis=1), rtol=1e-10)
    raw = V @ q.U @ noise.blocks[0 if shared else 5 // GROUP % BLOCKS]
    np.testing.assert_allclose(np.corrcoef(deviations.T), np.corrcoef(raw), rtol=1e-8, atol=1e-10)
    assert np.abs(raw.var(axis=1) / deviations.var(axis=0) - 1.0).max() > 0.3
    _, whole = run_bag_pass(problem, gp, draws)
    stretched = draws._replace(root=None, blocks=draws.blocks)
    assert not np.allclose(run_bag_pass(problem, gp, stretched)[1].gradient, whole.gradient)


def test_a_single_draw_stays_where_it_is():
    problem, gp = problem_of()
    V, v = gp.features(problem.X), np.arange(float(gp.size))
    mean, deviations = Draws.shared(v[:, None]).latent(problem.backend, V, bag=0)
    np.testing.assert_allclose(mean, V @ v, rtol=1e-10)
    assert not deviations.any()


SIZES = np.random.default_rng(0).integers(1, 7, size=50)
GROUP, BLOCKS = 4, 3


def problem_of(**options):
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], 50)
    return make(6, SIZES, **{"M": 6, "residual": "projected", "bias": 1.0, "weights": weights, **options})


def draws_of(gp, count=8, group=GROUP):
    half = np.random.default_rng(2).standard_normal((BLOCKS, gp.size, count // 2))
    return Draws(np.concatenate([half, -half], axis=2), group)


def by_bags(problem, gp, draws):
    """(K, S) log-likelihoods and (M,) gradient, bag by bag with the block of its group."""
    V, labels = gp.features(problem.X), problem.labels
    likelihood, gradient = np.zeros((BLOCKS, draws.blocks.shape[2])), np.zeros(gp.size)
    for b, (start, stop) in enumerate(pairwise(labels.offsets)):
        k = b // GROUP % BLOCKS
        f = V[start:stop] @ draws.blocks[k]
        none = -np.logaddexp(0.0, f).sum(axis=0)
        likelihood[k] += problem.weights[b] * (none if labels.T[b] == 0 else np.log(-np.expm1(none)))
        a = -1.0 if labels.T[b] == 0 else np.exp(none) / -np.expm1(none)
        gradient += problem.weights[b] * V[start:stop].T @ (a / (1 + np.exp(-f))).mean(axis=1)
    return likelihood, gradient


def streamed(problem, rows):
    return StreamedShards(problem.X, problem.labels, problem.weights, Scaling.identity(2), problem.density, rows=rows)


@pytest.mark.parametrize("tilted", [False, True])
def test_every_group_has_its_block_however_the_data_are_cut(monkeypatch, tilted):
    problem, gp = problem_of()
    draws = draws_of(gp)
    likelihood, gradient = by_bags(problem, gp, draws)
    _, whole = run_bag_pass(problem, gp, draws, tilted=tilted)
    np.testing.assert_allclose(whole.likelihood, likelihood, rtol=1e-9)
    if not tilted:
        np.testing.assert_allclose(whole.gradient, gradient, rtol=1e-8, atol=1e-9)
    others = [streamed(problem, rows) for rows in (10, 37, 90)]
    others += [replace(problem, keep=False, whole=False, rows=rows) for rows in (1, 23)]
    assert min(len(one.ranges) for one in others) > 1
    for cached in (draws_of_v.CACHED[8], 8 * 9, 1):
        monkeypatch.setitem(draws_of_v.CACHED, 8, cached)
        for one in (*others, problem):
            sums, _ = bag_pass_over(one, gp, draws, tilted=tilted)
            for field in ("likelihood", "gradient", "curvature", "tilted"):
                np.testing.assert_allclose(getattr(sums, field), getattr(whole, field), rtol=1e-7, atol=1e-8)


def test_a_part_of_the_shards_has_the_blocks_of_its_place_in_the_data():
    problem, gp = problem_of()
    draws, shards = draws_of(gp), streamed(problem, 40)
    found = [bag_pass_over(shards, gp, draws, [bags])[0].likelihood for bags in shards.ranges]
    np.testing.assert_allclose(np.sum(found, axis=0), by_bags(problem, gp, draws)[0], rtol=1e-9)
    assert shards.shard(shards.ranges[2]).first == shards.ranges[2].first > 0


@pytest.mark.parametrize("first", [0, 1, 3, 4, 30])
@pytest.mark.parametrize("cached", [1, 8 * 9, 10**6])
def test_ranges_end_where_groups_end_and_fit_a_cache(monkeypatch, first, cached):
    problem, gp = problem_of()
    monkeypatch.setitem(draws_of_v.CACHED, 8, cached)
    shard, draws = replace(problem, first=first), draws_of(gp)
    for a, b in ((0, 50), (7, 21), (8, 9)):
        block = BagRange(a, b, int(problem.labels.offsets[a]), int(problem.labels.offsets[b]))
        found = draws.ranges(shard, block)
        assert [bag for one in found for bag in range(one.first, one.last)] == list(range(a, b))
        assert [row for one in found for row in range(one.rows.start, one.rows.stop)] == list(range(*_rows(block)))
        for one in found:
            groups = {(first + bag) // GROUP for bag in range(one.first, one.last)}
            assert len(groups) == 1
            assert draws.block(first + one.first) == groups.pop() % BLOCKS
            assert one.last - one.first == 1 or one.rows.stop - one.rows.start <= cached // 8
        alone = Draws.shared(draws.blocks[0]).ranges(shard, block)
        assert cached < 10**6 or [(one.first, one.last) for one in alone] == [(a, b)]


def _rows(block):
    return block.rows.start, block.rows.stop


def test_a_data_set_that_is_large_has_groups_and_single_precision(monkeypatch):
    """Here it is large by decree: what is found with few draws for each group is close to what many would find."""
    problem, gp = problem_of()
    monkeypatch.setattr(draws_of_v, "DRAWED", 40.0 * SIZES.sum())
    monkeypatch.setattr(draws_of_v, "MOST", 64)
    monkeypatch.setitem(draws_of_v.CACHED, 4, 32 * 20)
    draws = Draws.for_bags(gp.size, problem.labels, seed=0)
    assert draws.blocks.shape == (9, gp.size, 32)
    assert draws.group == round(20 * 50 / SIZES.sum())
    _, sums = run_bag_pass(replace(problem, single=True), gp, draws, tilted=True)
    _, double = run_bag_pass(problem, gp, draws, tilted=True)
    rough, _ = bag_pass_over(replace(streamed(problem, 30), single=True), gp, draws, tilted=True)
    for field in ("likelihood", "gradient", "curvature", "tilted"):
        scale = np.abs(getattr(double, field)).max()
        np.testing.assert_allclose(getattr(sums, field), getattr(double, field), atol=2e-5 * scale)
        np.testing.assert_allclose(getattr(rough, field), getattr(sums, field), atol=2e-5 * scale)
    assert not np.array_equal(sums.gradient, double.gradient)


def test_the_error_of_a_bound_is_its_deviation_over_other_draws(monkeypatch):
    problem, gp = problem_of(M=3)
    monkeypatch.setattr(draws_of_v, "DRAWED", 16.0 * SIZES.sum())
    monkeypatch.setitem(draws_of_v.CACHED, 4, 16 * 40)
    q, found = random_posterior(gp.size, seed=3), []
    for seed in range(300):
        draws = Draws.for_bags(gp.size, problem.labels, seed)
        found.append(run_bag_pass(problem, gp, draws.of(q))[1].bound(0.0))
    assert draws.blocks.shape == (5, gp.size, 16)
    expected = np.std([one.likelihood for one in found])  # known to 4 %
    told = np.sqrt(np.mean(np.square([one.error for one in found])))
    assert 0.9 < told / expected < 1.3  # on the safe side where there are few draws


# ---------------------------------------------------------------- steps


def between(P, C, t):
    """P^1/2 (P^-1/2 C P^-1/2)^t P^1/2: on the way from P to C."""
    root = sqrtm(P).real
    inverse = np.linalg.inv(root)
    return root @ fractional_matrix_power(inverse @ C @ inverse, t).real @ root


def spd(seed, scale):
    B = np.random.default_rng(seed).normal(size=(4, 4))
    return scale * (np.eye(4) + B @ B.T)


@pytest.mark.parametrize("weight", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("scale", [0.12, 20.0])
def test_far_off_a_step_goes_to_the_geometric_mean(scale, weight):
    q, C = random_posterior(4, seed=1), spd(2, scale)
    P = q.R @ q.R.T
    ratios = np.linalg.eigvals(np.linalg.solve(P, C)).real
    assert ratios.max() > NEAR or ratios.min() < 1 / NEAR
    found = half_way(q, C, np.zeros(4), weight)
    expected = between(P, C, 0.5 * weight)
    assert np.linalg.eigvalsh(expected).min() > FLOOR
    np.testing.assert_allclose(found.R @ found.R.T, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(found.R, np.tril(found.R))
    np.testing.assert_array_equal(found.m, q.m)


@pytest.mark.parametrize("weight", [0.25, 1.0, 2.0])
def test_near_by_the_mean_is_a_plain_one_and_close_to_the_geometric_one(weight):
    q = random_posterior(4, seed=1)
    P = q.R @ q.R.T
    C = 1.2 * P + spd(3, 0.02)
    found = half_way(q, C, np.zeros(4), weight)
    np.testing.assert_allclose(found.R @ found.R.T, (1 - 0.5 * weight) * P + 0.5 * weight * C, rtol=1e-9)
    np.testing.assert_allclose(found.R @ found.R.T, between(P, C, 0.5 * weight), atol=0.08)


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_a_step_of_no_weight_stays_and_a_whole_one_arrives(scale):
    q, C = random_posterior(4, seed=1), spd(2, scale)
    slope = np.array([0.1, -0.2, 0.3, 0.05])
    none, whole = (half_way(q, C, slope, weight) for weight in (0.0, 2.0))
    np.testing.assert_allclose(none.R, q.R, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(none.m, q.m, rtol=1e-12)
    np.testing.assert_allclose(whole.R @ whole.R.T, C, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(whole.m, q.m + np.linalg.solve(C, slope), rtol=1e-8)


@pytest.mark.parametrize("weight", [0.5, 1.0])
@pytest.mark.parametrize("far", [False, True])
def test_the_mean_takes_most_of_newtons_step_and_no_more_than_a_deviation_per_direction(far, weight):
    """Newton's step by the precision on the way; far off by C where that is the larger one, as it is here."""
    q, slope = random_posterior(4, seed=1), np.array([0.4, -0.2, 0.3, 0.5])
    P = q.R @ q.R.T
    C = spd(2, 20.0) if far else 1.2 * P + spd(3, 0.02)
    assert np.linalg.eigvalsh(C - P).min() > 0
    step = np.linalg.solve(C if far else (1 - 0.5 * weight) * P + 0.5 * weight * C, slope)
    found = half_way(q, C, slope, weight)
    np.testing.assert_allclose(found.m - q.m, OF_MEAN * weight * step, rtol=1e-7)
    long = half_way(q, C, 1e4 * slope, weight).m - q.m
    assert np.sqrt(long @ P @ long) == pytest.approx(
        2.0 * LONGEST * OF_MEAN * weight, rel=1e-9
    )  # root of four directions
    assert long @ step / np.linalg.norm(long) / np.linalg.norm(step) == pytest.approx(1.0)


def test_directions_that_bend_the_wrong_way_have_a_floor():
    """In the coordinates where P is I and C diagonal: its eigenvalue, or a tenth, to the power of half the weight."""
    q = Posterior(np.zeros(3), np.eye(3))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    C = turn @ np.diag([-5.0, 0.01, 9.0]) @ turn.T
    for weight in (0.5, 1.0, 2.0):
        found = half_way(q, C, np.zeros(3), weight)
        expected = np.array([0.1, 0.1, 9.0]) ** (0.5 * weight)
        np.testing.assert_allclose(found.R @ found.R.T, turn @ np.diag(expected) @ turn.T, rtol=1e-7, atol=1e-9)
    weak = half_way(Posterior(np.zeros(3), np.eye(3) * 0.4), C, np.zeros(3), 2.0)
    assert np.linalg.eigvalsh(weak.R @ weak.R.T).min() == pytest.approx(FLOOR, rel=1e-7)
    slope = turn @ np.array([1.0, 0.0, 0.0])
    moved = turn.T @ half_way(q, C, slope, 1.0).m
    np.testing.assert_allclose(moved, [OF_MEAN / 5.0, 0.0, 0.0], atol=1e-12)  # by the size of what bends


def test_the_next_step_is_larger_in_reach_of_whole_ones_and_smaller_to_and_fro():
    fast, slow = 0.99 * GROWTH, 1.01 * GROWTH
    assert [next_weight(w, fast, 1.0) for w in (0.25, 1.0, 1.5, 2.0)] == [0.5, 2.0, 2.0, 2.0]
    assert [next_weight(w, slow, 1.0) for w in (0.25, 1.0, 2.0)] == [0.25, 1.0, 2.0]
    assert [next_weight(w, 1.01, 1.0) for w in (0.25, 1.0, 2.0)] == [0.125, 0.5, 1.0]
    assert next_weight(1.0, 3.0, 3.0) == 1.0
