"""Folds of bags that are fitted without each other: dealt out evenly, and by the bags themselves."""

import numpy as np
import pytest

from problems import make
from psimil.inference import leave_one_out
from psimil.inference.ascent import ascend
from psimil.inference.leave_one_out import REFIT_FOLDS, cross_fit, stratified_folds


@pytest.mark.parametrize("folds", [2, 3, 10])
def test_every_fold_has_its_share_of_either_label(folds):
    rng = np.random.default_rng(0)
    T, keys = rng.integers(0, 2, 100), rng.normal(size=100)
    fold = stratified_folds(T, keys, folds)
    for label in (0, 1):
        counts = np.bincount(fold[T == label], minlength=folds)
        assert len(counts) == folds
        assert counts.max() - counts.min() <= 1


def test_the_order_of_bags_does_not_matter():
    rng = np.random.default_rng(1)
    T, keys, order = rng.integers(0, 2, 50), rng.normal(size=50), rng.permutation(50)
    np.testing.assert_array_equal(stratified_folds(T[order], keys[order], 4), stratified_folds(T, keys, 4)[order])


@pytest.mark.parametrize(("negative", "positive", "folds"), [(2, 9, 2), (1, 9, 2), (5, 4, 4), (15, 12, REFIT_FOLDS)])
def test_instances_get_moments_of_fits_that_have_not_seen_their_fold(monkeypatch, negative, positive, folds):
    monkeypatch.setattr(leave_one_out, "REFIT_PASSES", 2)
    T = np.arange(negative + positive) >= negative
    problem, gp = make(sizes=(2,) * len(T), T=T.astype(int))
    seen = []

    def rebuild(part):
        inside = np.flatnonzero((problem.X[:, None] == part.X).all(-1).any(1))
        np.testing.assert_array_equal(part.labels.spread(part.labels.T), np.repeat(T, 2)[inside])
        seen.append(inside)
        return gp

    mean, variance = cross_fit(problem, rebuild)
    assert len(seen) == folds
    left_out = [np.setdiff1d(np.arange(len(mean)), inside) for inside in seen]
    np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), np.arange(len(mean)))
    assert np.isfinite(mean).all()
    assert (variance > 0).all()


def test_every_fold_is_fitted_with_so_many_passes(monkeypatch):
    problem, gp = make(sizes=(2,) * 6, T=(0, 1, 0, 1, 0, 1))
    passes = []

    def counted(part, state):
        for record in ascend(part, state):
            passes.append(record.step)
            yield record

    monkeypatch.setattr(leave_one_out, "ascend", counted)
    monkeypatch.setattr(leave_one_out, "REFIT_PASSES", 3)
    cross_fit(problem, lambda part: gp)
    assert passes == [1, 2, 3] * 3
