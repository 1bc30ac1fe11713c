"""Probabilities far out: means many standard deviations from zero, and variances of any size."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from psimil.predictive.moments import _log_tail, instance_moments


@pytest.mark.parametrize("s2", [1e-8, 0.3, 7.0, 1e4, 1e9, 1e16, 1e40, 1e234, 1e296])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_probabilities_far_out_are_probabilities(s2, sign):
    ratio = np.array([6.1, 12.0, 20.0])
    found = instance_moments(sign * ratio * np.sqrt(s2), np.full(3, s2))
    small, large = (found.log_p, found.log_q) if sign < 0 else (found.log_q, found.log_p)
    assert (small < 0).all() and (large <= 0).all()
    assert np.isfinite(small).all() and np.isfinite(found.variance).all()
    if s2 > 1e9:  # the logistic function is a step for such latents
        np.testing.assert_allclose(small, log_ndtr(-ratio), rtol=1e-3)


def test_the_tail_is_that_of_mpmath():
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 60
    for mu, s2 in [(-40.0, 7.0), (-400.0, 30.0), (-8e3, 1e6), (-7e8, 1e16), (-1e3, 1e-3)]:
        m, v = mpmath.mpf(mu), mpmath.mpf(s2)
        s = mpmath.sqrt(v)
        true = mpmath.log(mpmath.exp(m + v / 2) * mpmath.ncdf(-(m + v) / s) + mpmath.ncdf(m / s))
        assert _log_tail(np.array([mu]), np.array([s2]))[0] == pytest.approx(float(true), rel=1e-10)
