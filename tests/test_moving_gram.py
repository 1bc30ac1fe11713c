"""Gram matrices from kept distances: those of the kernel itself, and which kernels have their distances kept."""

import numpy as np
import pytest

from psimil.model.kernels import RBF, Matern32
from psimil.paper.moving_gram import MovingGram

X, Z = (np.random.default_rng(seed).normal(size=(n, 2)) + 100.0 for seed, n in ((0, 7), (1, 4)))
MOVED = {"one": RBF(2.0, 0.7), "many": RBF(2.0, (0.7, 1.9)), "other": Matern32(0.5, 1.3)}
KERNELS = {"one": RBF(1.0, 1.0), "many": RBF(1.0, (1.0, 2.0)), "other": Matern32(1.0, 1.0)}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", KERNELS)
def test_grams_and_gradients_are_those_of_the_kernel(kind, keep):
    points, kernel = MovingGram.build(X, Z, KERNELS[kind], keep=keep), MOVED[kind]
    K = points.gram(kernel)
    np.testing.assert_allclose(K, kernel.gram(X, Z), rtol=1e-9)
    out = np.empty_like(K)
    assert points.gram(kernel, out=out) is out
    np.testing.assert_array_equal(out, K)
    A = np.random.default_rng(2).normal(size=K.shape)
    np.testing.assert_allclose(points.adjoint(kernel, A.copy(), K), kernel.gram_adjoint(X, Z, A), rtol=1e-8)


def test_distances_are_kept_for_one_length_scale_unless_memory_is_short():
    assert MovingGram.build(X, Z, RBF(1.0, 1.0)).squared.shape == (7, 4)
    assert MovingGram.build(X, Z, RBF(1.0)).squared.shape == (7, 4)
    assert MovingGram.build(X, Z, RBF(1.0, 1.0), keep=False).squared is None
    assert MovingGram.build(X, Z, KERNELS["many"]).squared is None
    assert MovingGram.build(X, Z, KERNELS["other"]).squared is None


def test_distances_of_a_point_to_itself_are_not_negative():
    points = MovingGram.build(X, X, RBF(1.0, 1.0))
    assert (points.squared >= 0).all()
    np.testing.assert_allclose(np.diag(points.gram(RBF(3.0, 1e-3))), 3.0, rtol=1e-4)
