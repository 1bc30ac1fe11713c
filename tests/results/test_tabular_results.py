"""Pictures of instances: features as pixels, and thumbnails of slices."""

import numpy as np
import pytest

from psimil.ct.scans.scan import Slices, thumbnails
from psimil.ct.scans.windows import BLOOD, BRAIN, SOFT
from psimil.foundations.errors import InputError
from psimil.results.tabular_results import pictures


def test_pictures_span_black_to_white():
    X = np.array([[0.0, -1.0, 3.0, 1.0, 0.0, 0.0]])
    assert pictures(X, (2, 3)).tolist() == [[[64, 0, 255], [128, 64, 64]]]
    assert pictures(np.full((1, 4), 7.0), (2, 2)).max() == 0
    with pytest.raises(InputError, match="need 8 features, got 6"):
        pictures(X, (2, 4))


def test_thumbnails_are_means_of_the_blood_window():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 3, 8, 8)).astype(np.uint8)
    windows = (BRAIN, BLOOD, SOFT)
    part = Slices("a", images, windows, np.arange(3.0))
    small = thumbnails([part, part], side=4)
    means = images[:, 1].astype(float).reshape(3, 4, 2, 4, 2).mean(axis=(2, 4))
    assert small.shape == (6, 4, 4) and np.abs(small[3:] - means).max() <= 0.5001
    assert np.array_equal(thumbnails([part]), images[:, 1])
    other = Slices("a", images[:, [0, 2]], (BRAIN, SOFT), np.arange(3.0))
    assert np.array_equal(thumbnails([other]), images[:, 0])


def test_thumbnails_of_large_cohorts_are_smaller(monkeypatch):
    monkeypatch.setattr("psimil.ct.scans.scan.BUDGET", 3 * 16)
    part = Slices("a", np.zeros((3, 1, 8, 8), np.uint8), (BRAIN,), np.arange(3.0))
    assert thumbnails([part]).shape == (3, 4, 4)
