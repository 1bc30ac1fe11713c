"""Chunks of a problem: whole bags, about as many instances as asked for; V is kept where all of it may be."""

from dataclasses import replace

import numpy as np
import pytest
from psimil.inference.local_pass import Projection
from psimil.inference.problem import Chunk, chunk_rows

from problems import make


def test_a_chunk_is_as_long_as_whole_bags_allow():
    problem, _ = make(sizes=(1, 3, 2, 4, 2), chunk_rows=4)
    assert problem.chunks == [Chunk(0, 2, 0, 4), Chunk(2, 3, 4, 6), Chunk(3, 4, 6, 10), Chunk(4, 5, 10, 12)]


def test_a_bag_that_is_longer_than_a_chunk_stays_whole():
    problem, _ = make(sizes=(5, 1, 1, 7), chunk_rows=2)
    assert problem.chunks == [Chunk(0, 1, 0, 5), Chunk(1, 3, 5, 7), Chunk(3, 4, 7, 14)]


def test_all_bags_are_one_block_unless_they_are_streamed():
    assert make(chunk_rows=4)[0].blocks == [Chunk(0, 5, 0, 12)]
    streamed, _ = make(chunk_rows=4, cache=False)
    assert streamed.blocks == streamed.chunks
    assert len(streamed.blocks) == 4


def test_what_is_kept_of_the_projection_does_not_change_it():
    kept, gp = make(residual="full", bias=1.0)
    streamed = replace(kept, cache=False)
    assert Projection.build(gp, kept).V.shape == (12, gp.size)
    assert Projection.build(gp, kept).k.shape == (12,)
    assert Projection.build(gp, streamed).V is None
    assert Projection.streamed(gp, kept).V is None
    for found, expected in zip(
        Projection.build(gp, streamed).rows(3, 8), Projection.build(gp, kept).rows(3, 8), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_instances_have_the_weight_of_their_bag():
    problem, _ = make(sizes=(1, 2), weights=[1.0, 3.0])
    np.testing.assert_array_equal(problem.instance_weights, [1.0, 3.0, 3.0])
    assert problem.weighted
    assert not make(sizes=(1, 2))[0].weighted


@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_ties_are_broken_by_keys_that_do_not_depend_on_the_place(rule):
    problem, _ = make(sizes=(1, 3, 2), rule=rule, H=10.0)
    labels = problem.chunk_labels(Chunk(1, 3, 1, 6))
    assert (labels.keys is not None) == (rule == "mean_field")
    if labels.keys is not None:
        np.testing.assert_array_equal(labels.keys, problem.keys[1:])
        np.testing.assert_allclose(problem.keys, problem.X @ np.cos([1.0, 2.0]), rtol=1e-12)


def test_chunks_of_wide_or_double_rows_are_shorter():
    assert chunk_rows(400) == chunk_rows(200) // 2 == chunk_rows(200, np.float32) // 4
    assert chunk_rows(10**9) == 64
