"""Ranges of a shard: whole bags, as many instances as asked for at most; V is kept where all of it may be."""

from dataclasses import replace

import numpy as np
import pytest

from problems import make, random_posterior
from psimil.compute.numpy_backend import chunk_rows
from psimil.model.bag_ranges import BagRange
from psimil.paper.passes import run_pass


def test_a_range_is_as_long_as_whole_bags_allow():
    shard, _ = make(sizes=(1, 3, 2, 4, 2), rows=4)
    assert shard.ranges == [BagRange(0, 2, 0, 4), BagRange(2, 3, 4, 6), BagRange(3, 4, 6, 10), BagRange(4, 5, 10, 12)]


def test_a_bag_that_is_longer_than_a_range_stays_whole():
    shard, _ = make(sizes=(5, 1, 1, 7), rows=2)
    assert shard.ranges == [BagRange(0, 1, 0, 5), BagRange(1, 3, 5, 7), BagRange(3, 4, 7, 14)]


def test_all_bags_are_one_block_unless_they_are_taken_one_range_after_another():
    assert make(rows=4)[0].blocks == make(rows=4, keep=False)[0].blocks == [BagRange(0, 5, 0, 12)]
    streamed, _ = make(rows=4, whole=False)
    assert streamed.blocks == streamed.ranges
    assert len(streamed.blocks) == 4


@pytest.mark.parametrize("lengthscale", [0.3, 1.2])
def test_what_is_kept_of_v_does_not_change_it(lengthscale):
    kept, gp = make(residual="full", bias=1.0, lengthscale=lengthscale)
    V, k = kept.features(gp, kept.blocks[0])
    assert (V.shape, k.shape) == ((12, gp.size), (12,))
    some = BagRange(1, 3, 1, 6)
    assert np.shares_memory(kept.features(gp, some)[0], V)
    assert np.shares_memory(kept.rows_of_V(gp, some.rows)[0], V)
    for other in (replace(kept, keep=False), replace(kept, keep=False, whole=False)):
        for found in (other.features(gp, some), other.rows_of_V(gp, some.rows)):
            np.testing.assert_allclose(found[0], V[some.rows], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(found[1], k[some.rows], rtol=1e-9, atol=1e-12)
        assert "V" not in other.kept


def test_v_that_is_kept_is_that_of_the_last_kernel():
    shard, gp = make(bias=1.0)
    other = gp.with_parameters(gp.kernel.log_parameters + 0.5)
    shard.features(gp, shard.blocks[0])
    np.testing.assert_array_equal(shard.features(other, shard.blocks[0])[0], other.features(shard.X))


def test_a_shard_that_keeps_nothing_whitens_the_sums_where_that_is_safe():
    shard, gp = make(residual="projected", bias=1.0, keep=False)
    assert shard.unwhitened(gp)
    expected = np.column_stack([gp.kernel.gram(shard.X, gp.Z), np.ones(12)])
    np.testing.assert_allclose(shard.features(gp, shard.blocks[0])[0], expected, rtol=1e-12)
    np.testing.assert_allclose(expected @ gp.whitening, gp.features(shard.X), rtol=1e-9, atol=1e-12)
    assert not replace(shard, keep=True).unwhitened(gp)
    assert not replace(shard, X=shard.X.astype(np.float32)).unwhitened(gp)
    assert not make(residual="full", keep=False)[0].unwhitened(make(residual="full")[1])


def test_instances_have_the_weight_of_their_bag():
    shard, _ = make(sizes=(1, 2), weights=[1.0, 3.0])
    np.testing.assert_array_equal(shard.instance_weights, [1.0, 3.0, 3.0])


@pytest.mark.parametrize("rule", ["exact", "mean_field"])
@pytest.mark.parametrize("whole", [True, False])
def test_ties_are_broken_by_keys_that_do_not_depend_on_the_place(rule, whole):
    shard, gp = make(sizes=(1, 3, 2), rule=rule, H=10.0, whole=whole, rows=1)
    seen = []

    def update(mu, labels, previous):
        seen.append(labels.keys)
        return shard.rule.update(mu, labels, previous)

    run_pass(replace(shard, rule=replace(shard.rule, update=update)), gp, random_posterior(gp.size))
    assert len(seen) == len(shard.ranges) > 1
    if rule == "exact":
        assert all(keys is None for keys in seen)
        return
    np.testing.assert_array_equal(np.concatenate(seen), shard.keys)
    np.testing.assert_allclose(shard.keys, shard.X @ np.cos([1.0, 2.0]), rtol=1e-12)


def test_chunks_of_wide_or_double_rows_are_shorter():
    assert chunk_rows(400) == chunk_rows(200) // 2 == chunk_rows(200, np.float32) // 4
    assert chunk_rows(10**9) == 64
