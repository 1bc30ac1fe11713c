"""The verbs on the rows of V against dense algebra, one contract for NumPy and torch."""

from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from psimil.compute import numpy_backend
from psimil.compute.numpy_backend import NUMPY, available_threads, single_threaded_blas

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
BACKENDS = ["numpy", "torch"]
SHAPES = [(1, 1), (3, 2), (7, 7), (50, 20), (2000, 5)]


@pytest.fixture(params=BACKENDS)
def backend(request):
    """A backend, and how it keeps rows."""
    if request.param == "numpy":
        return NUMPY, np.array
    torch = pytest.importorskip("torch")
    from psimil.compute.torch_backend import TorchBackend

    return TorchBackend("cpu"), torch.tensor


def bags_of(rng, n):
    """Offsets of random bags of n rows, and a sign for each."""
    cuts = np.flatnonzero(rng.random(max(n - 1, 0)) < 0.3) + 1
    offsets = np.concatenate([[0], cuts, [n]]).astype(np.int64)
    return offsets, rng.choice([-1.0, 1.0], len(offsets) - 1)


def gram_of_bags(V, r, offsets, sign):
    total = np.zeros((V.shape[1], V.shape[1]))
    for s, (start, stop) in zip(sign, pairwise(offsets), strict=True):
        along = V[start:stop].T @ r[start:stop]
        total += s * np.outer(along, along)
    return total


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3)])
def test_products_with_draws_and_back(backend, shape):
    verbs, rows = backend
    rng = np.random.default_rng(0)
    V, A, G = rng.normal(size=shape), rng.normal(size=(shape[1], 4)), rng.normal(size=(4, shape[0]))
    found = verbs.products(rows(V), A)
    assert found.shape == (4, shape[0])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, (V @ A).T, **CLOSE)
    back = verbs.transposed_products(rows(V), G)
    assert back.shape == (shape[1], 4)
    np.testing.assert_allclose(back, (G @ V).T, **CLOSE)


@pytest.mark.parametrize("signs", ["mixed", "negative", "positive", "zero"])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_of_sums_may_be_negative(backend, shape, signs):
    verbs, rows = backend
    rng = np.random.default_rng(1)
    V, linear = rng.normal(size=shape), rng.normal(size=shape[0])
    made = {"mixed": rng.normal(size=shape[0]), "zero": np.zeros(shape[0])}
    weights = made.get(signs, (1 if signs == "positive" else -1) * rng.uniform(0.1, 2.0, shape[0]))
    before = V.copy()
    gram, sums = verbs.weighted_sums(rows(V), weights, linear)
    np.testing.assert_allclose(gram, V.T @ (weights[:, None] * V), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sums, V.T @ linear, **CLOSE)
    np.testing.assert_array_equal(V, before)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_vector_per_bag(backend, shape):
    verbs, rows = backend
    rng = np.random.default_rng(2)
    V, r = rng.normal(size=shape), rng.normal(size=shape[0])
    offsets, sign = bags_of(rng, shape[0])
    found = verbs.bag_gram(rows(V), r, offsets, sign)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, gram_of_bags(V, r, offsets, sign), rtol=1e-9, atol=1e-9)
    for one in (1.0, -1.0):
        same = np.full(len(sign), one)
        expected = gram_of_bags(V, r, offsets, same)
        np.testing.assert_allclose(verbs.bag_gram(rows(V), r, offsets, same), expected, rtol=1e-9, atol=1e-9)


def test_bags_without_a_vector_add_nothing(backend):
    verbs, rows = backend
    rng = np.random.default_rng(3)
    V, r, offsets = rng.normal(size=(30, 4)), rng.normal(size=30), np.arange(0, 31, 3)
    sign = np.where(np.arange(10) % 2, 1.0, -1.0)
    r[np.repeat(np.arange(10) % 3 == 0, 3)] = 0.0
    r[4] = 0.0  # one instance of a bag that has a vector
    found = verbs.bag_gram(rows(V), r, offsets, sign)
    np.testing.assert_allclose(found, gram_of_bags(V, r, offsets, sign), rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(verbs.bag_gram(rows(V), np.zeros(30), offsets, sign), np.zeros((4, 4)))


def test_single_precision_is_added_up_in_double(backend):
    verbs, rows = backend
    rng = np.random.default_rng(4)
    V, weights = rng.normal(size=(500, 6)), rng.normal(size=500)
    offsets, sign = bags_of(rng, 500)
    single, A, G = rows(V.astype(np.float32)), rng.normal(size=(6, 3)), rng.normal(size=(3, 500))
    found = (
        verbs.products(single, A),
        verbs.transposed_products(single, G),
        *verbs.weighted_sums(single, weights, weights),
        verbs.bag_gram(single, weights, offsets, sign),
    )
    expected = (
        (V @ A).T,
        (G @ V).T,
        V.T @ (weights[:, None] * V),
        V.T @ weights,
        gram_of_bags(V, weights, offsets, sign),
    )
    for one, other in zip(found, expected, strict=True):
        assert one is found[0] or one.dtype == np.float64  # what is found for every row is no sum
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-3)


def test_sums_over_single_rows_are_right_to_the_rounding_of_what_is_added():
    rng = np.random.default_rng(6)
    V, weights = rng.normal(size=(3000, 6)).astype(np.float32), rng.normal(size=3000)
    gram, sums = NUMPY.weighted_sums(V, weights, weights)
    V = V.astype(np.float64)
    exact = V.T @ (weights[:, None] * V)
    assert gram.dtype == np.float64
    rounding = np.finfo(np.float32).eps * (np.abs(V).T @ (np.abs(weights)[:, None] * np.abs(V)))  # of all that is added
    assert (np.abs(gram - exact) < 10 * rounding).all()
    assert np.abs(gram - exact).max() > 1e-9
    rounding = np.finfo(np.float32).eps * (np.abs(V).T @ np.abs(weights))
    assert (np.abs(sums - V.T @ weights) < 10 * rounding).all()


def test_chunks_change_no_more_than_rounding(monkeypatch):
    rng = np.random.default_rng(5)
    V, weights, G = rng.normal(size=(1000, 6)), rng.normal(size=1000), rng.normal(size=(3, 1000))

    def found():
        return *NUMPY.weighted_sums(V, weights, weights), NUMPY.transposed_products(V, G)

    whole = found()
    monkeypatch.setattr(numpy_backend, "CHUNK_BYTES", 1)  # the fewest rows at a time
    assert numpy_backend.chunk_rows(6) < 1000
    for one, other in zip(found(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


def test_the_number_of_threads_does_not_change_a_bit():
    rng = np.random.default_rng(6)
    V, weights, G = rng.normal(size=(20_000, 40)), rng.normal(size=20_000), rng.normal(size=(3, 20_000))
    offsets, sign = bags_of(rng, 20_000)
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            if available_threads() != threads:
                pytest.skip(f"BLAS does not run {threads} threads here")
            with single_threaded_blas():
                sums = NUMPY.weighted_sums(V, weights, weights)
                found.append((*sums, NUMPY.bag_gram(V, weights, offsets, sign), NUMPY.transposed_products(V, G)))
    for other in found[1:]:
        for one, first in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(one, first)
