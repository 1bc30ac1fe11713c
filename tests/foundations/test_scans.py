"""Scans along bags, against plain loops over one bag after another and dense matrices."""

from itertools import pairwise

import numpy as np
import pytest

from problems import offsets_of
from psimil.foundations.scans import innovations, positions, quadratic, scan, times

SIZES = [(1,), (4,), (1, 1, 1), (3, 1, 5, 2, 5, 1), (7, 2, 6), tuple(range(1, 9))]
EVERY_SIZE = pytest.mark.parametrize("sizes", SIZES, ids=str)
CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def chain(sizes, seed=0):
    """Offsets, c and rho of a chain, with a gap here and there, and rho 0 at the last of a bag."""
    rng, offsets = np.random.default_rng(seed), offsets_of(sizes)
    c, rho = rng.normal(size=offsets[-1]), rng.uniform(-1.0, 1.0, offsets[-1])
    rho[rng.random(len(rho)) < 0.2] = 0.0
    rho[offsets[1:] - 1] = 0.0
    return offsets, c, rho


def dense(c, rho, offsets):
    """The matrix with c_i rho_i ... rho_j-1 in row i and column j >= i of a bag, entry by entry."""
    C = np.zeros((len(c), len(c)))
    for start, stop in pairwise(offsets):
        for i in range(start, stop):
            product = c[i]
            for j in range(i, stop):
                C[i, j] = C[j, i] = product
                product *= rho[j]
    return C


@EVERY_SIZE
def test_a_scan_adds_what_follows_times_the_link(sizes):
    offsets, _, rho = chain(sizes)
    v = np.random.default_rng(1).normal(size=(3, offsets[-1]))
    expected = v.copy()
    for start, stop in pairwise(offsets):
        for i in reversed(range(start, stop - 1)):
            expected[:, i] += rho[i] * expected[:, i + 1]
    given = v.copy()
    found = scan(given, rho, offsets)
    np.testing.assert_allclose(found, expected, **CLOSE)
    np.testing.assert_array_equal(given, v)
    np.testing.assert_array_equal(scan(np.ascontiguousarray(v.T), rho, offsets, axis=0), found.T)


@EVERY_SIZE
def test_a_scan_forward_adds_what_went_before(sizes):
    offsets, _, rho = chain(sizes)
    v = np.random.default_rng(2).normal(size=(3, offsets[-1]))
    expected = v.copy()
    for start, stop in pairwise(offsets):
        for i in range(start, stop - 1):
            expected[:, i + 1] += rho[i] * expected[:, i]
    found = scan(v, rho, offsets, forward=True)
    np.testing.assert_allclose(found, expected, **CLOSE)
    np.testing.assert_array_equal(scan(np.ascontiguousarray(v.T), rho, offsets, axis=0, forward=True), found.T)


@EVERY_SIZE
def test_innovations_weight_scanned_rows_as_the_matrix_of_the_chain(sizes):
    offsets, c, rho = chain(sizes)
    V = np.random.default_rng(3).normal(size=(offsets[-1], 4))
    D = innovations(c, rho)
    for start, stop in pairwise(offsets):
        assert D[start] == pytest.approx(c[start])  # what went before is of another bag
        for i in range(start + 1, stop):
            assert D[i] == pytest.approx(c[i] - rho[i - 1] ** 2 * c[i - 1])
    W = scan(V, rho, offsets, axis=0)
    np.testing.assert_allclose(W.T @ (D[:, None] * W), V.T @ dense(c, rho, offsets) @ V, **CLOSE)


@EVERY_SIZE
def test_products_with_the_matrix_of_a_chain_are_those_of_the_dense_one(sizes):
    offsets, c, rho = chain(sizes)
    C, v = dense(c, rho, offsets), np.random.default_rng(4).normal(size=(5, offsets[-1]))
    np.testing.assert_allclose(times(v, c, rho, offsets), v @ C, **CLOSE)
    forms = [[x[a:b] @ C[a:b, a:b] @ x[a:b] for a, b in pairwise(offsets)] for x in v]
    np.testing.assert_allclose(quadratic(v, c, rho, offsets), forms, **CLOSE)


@EVERY_SIZE
def test_steps_go_over_every_instance_that_has_a_next_one_and_rows_are_by_position(sizes):
    offsets = offsets_of(sizes)
    place, N = positions(offsets), offsets[-1]
    within = np.concatenate([np.arange(n) for n in sizes])
    assert sorted(place.order) == list(range(N))
    assert (np.diff(within[place.order]) >= 0).all()
    np.testing.assert_array_equal(place.inverse[place.order], np.arange(N))
    mirrored = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(offsets)])
    np.testing.assert_array_equal(place.mirror, mirrored)
    stepped = []
    for here, after in place.steps:
        stepped += list(zip(place.order[here], place.order[after], strict=True))
    expected = {(i, i + 1) for a, b in pairwise(offsets) for i in range(a, b - 1)}
    assert len(stepped) == len(expected)
    assert set(stepped) == expected


def test_offsets_of_any_whole_numbers_are_the_same_bags():
    offsets = np.array([0, 2, 3, 7])
    for kind in (np.int32, np.uint16):
        np.testing.assert_array_equal(positions(offsets.astype(kind)).order, positions(offsets).order)


@pytest.mark.parametrize("forward", [False, True])
def test_single_precision_stays_single_and_close(forward):
    offsets, c, rho = chain((6, 1, 9, 3))
    v = np.random.default_rng(5).normal(size=(3, offsets[-1]))
    rough = scan(v.astype(np.float32), rho, offsets, forward=forward)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, scan(v, rho, offsets, forward=forward), rtol=1e-5, atol=1e-6)
    for verb in (times, quadratic):
        rough = verb(v.astype(np.float32), c, rho, offsets)
        assert rough.dtype == np.float32
        np.testing.assert_allclose(rough, verb(v, c, rho, offsets), rtol=1e-4, atol=1e-5)


def test_bags_do_not_touch_one_another():
    offsets, c, rho = chain((4, 3, 5))
    v = np.random.default_rng(6).normal(size=(2, 12))
    other = v.copy()
    other[:, 4:7] = np.nan
    for values in (scan(other, rho, offsets), scan(other, rho, offsets, forward=True), times(other, c, rho, offsets)):
        assert np.isnan(values[:, 4:7]).all()
        assert np.isfinite(values[:, :4]).all()
        assert np.isfinite(values[:, 7:]).all()
