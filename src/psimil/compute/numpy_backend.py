"""NumPy with threads: rows are divided among as many threads as BLAS is allowed, each with single-threaded BLAS.

Two cores that work on different chunks, each in its own cache, beat two cores that share one chunk. Chunks are the same
however many threads work on them and their results are added in order, so no sum depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from multiprocessing import current_process
from threading import local
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from psimil.compute.backend import Features
from psimil.foundations.arrays import Array
from psimil.foundations.linalg import add_gram, multiply_upper, symmetric
from psimil.foundations.scans import scan

Item = TypeVar("Item")
Result = TypeVar("Result")


_controller = cache(ThreadpoolController)  # looking for the libraries takes long

_granted: ContextVar[int] = ContextVar("granted", default=0)


def available_threads() -> int:
    """Threads that BLAS may use now, or might before :func:`single_threaded_blas` took over.

    Limits set by joblib, Dask or the user are respected.

    Examples
    --------
    >>> available_threads() >= 1
    True
    """
    return _granted.get() or max(
        (library["num_threads"] for library in _controller().select(user_api="blas").info()), default=1
    )


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Within the block every BLAS call stays on the calling thread; the threads BLAS gives up serve chunks instead.

    BLAS threads spin for a while after each call and would steal the cores from the chunks, so a whole fit runs in
    one such block.

    Examples
    --------
    >>> before = available_threads()
    >>> with single_threaded_blas():
    ...     available_threads() == before
    True
    """
    if _granted.get():  # within such a block already
        yield
        return
    token = _granted.set(available_threads())
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _granted.reset(token)


@cache
def _pool(threads: int, process: int | None) -> ThreadPoolExecutor:
    """Threads that stay: a fresh pair shares one core until the scheduler notices. A forked child makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"psimil-{process}")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of ``function`` on each item, in order, on :func:`available_threads` threads with single-threaded BLAS.

    Examples
    --------
    >>> list(ordered_map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    threads = available_threads()
    with single_threaded_blas():
        yield from (map if threads == 1 else _pool(threads, current_process().ident).map)(function, items)


_memory = local()


def scratch(name: str, shape: tuple[int, int], dtype: Any) -> Array:
    """An uninitialised row-major array, valid until this thread asks for the name again.

    Arrays stay from chunk to chunk: fresh memory costs more than the arithmetic on it.

    Examples
    --------
    >>> scratch("W", (2, 3), np.float64).shape
    (2, 3)
    """
    size, kept = shape[0] * shape[1], getattr(_memory, name, None)
    if kept is None or kept.size < size or kept.dtype != dtype:
        kept = np.empty(size, dtype=dtype)
        setattr(_memory, name, kept)
    return kept[:size].reshape(shape)


CHUNK_BYTES = 3_200_000  # of V in a chunk: what a core works on within its cache; chosen by benchmarks/bench_pass.py
GRAM_PARTS, GRAM_ROWS = 8, 250  # sums of so many parts at most, and rows that make one worth its overhead


def chunk_rows(columns: int, dtype: Any = np.float64) -> int:
    """Rows of a chunk of V with this many columns.

    Examples
    --------
    >>> chunk_rows(200)
    2000
    """
    return max(CHUNK_BYTES // (columns * int(np.dtype(dtype).itemsize)), 64)


@dataclass(frozen=True)
class NumpyBackend:
    """The verbs of :class:`psimil.compute.backend.Backend` in the memory of the host."""

    map = staticmethod(ordered_map)
    on_host = staticmethod(np.asarray)  # V itself

    def features(self, gp: Features, X: Array, dtype: Any = None, *, whiten: bool = True, reuse: bool = False) -> Array:
        """Chunk by chunk, so that the triangular product finds K_xz in the cache."""
        dtype, shape, step = np.dtype(dtype or X.dtype), (len(X), gp.size), chunk_rows(gp.size, X.dtype)
        V = scratch("V", shape, dtype) if reuse else np.empty(shape, dtype=dtype)

        def fill(start: int) -> None:
            rows = slice(start, start + step)
            own = V[rows] if dtype == X.dtype else scratch("wide", V[rows].shape, X.dtype)
            gp.features(X[rows], out=own, whiten=whiten)
            if own.dtype != dtype:
                V[rows] = own

        for _ in self.map(fill, range(0, len(X), step)):
            pass
        return V

    def row_squares(self, V: Array, m: Array, U: Array) -> tuple[Array, Array]:
        """One triangular product per chunk, in scratch memory."""
        dtype, step = V.dtype, chunk_rows(V.shape[1], V.dtype)
        m, U = m.astype(dtype), np.ascontiguousarray(U, dtype=dtype)
        mean, squares = np.empty(len(V)), np.empty(len(V))

        def fill(start: int) -> None:
            rows = slice(start, start + step)
            W = scratch("W", V[rows].shape, dtype)
            np.copyto(W, V[rows])
            mean[rows] = W @ m
            multiply_upper(W, U)
            squares[rows] = np.vecdot(W, W)

        for _ in self.map(fill, range(0, len(V), step)):
            pass
        return mean, squares

    def products(self, V: Array, A: Array) -> Array:
        """One product; callers hand over rows that fit a core's cache."""
        return np.asarray(A.T.astype(V.dtype, copy=False) @ V.T)

    def transposed_products(self, V: Array, G: Array) -> Array:
        """One product per chunk."""
        dtype, step = V.dtype, chunk_rows(V.shape[1], V.dtype)
        total = np.zeros((V.shape[1], len(G)))
        chunks = [slice(start, start + step) for start in range(0, len(V), step)]
        for share in self.map(lambda rows: V[rows].T @ G[:, rows].T.astype(dtype, copy=False), chunks):
            total += share
        return total

    def weighted_sums(self, V: Array, weights: Array, linear: Array) -> tuple[Array, Array]:
        """Symmetric products per chunk, summed over a few parts whose number depends on the rows alone."""
        M, dtype, step = V.shape[1], V.dtype, chunk_rows(V.shape[1], V.dtype)
        root, linear = np.sqrt(np.abs(weights)).astype(dtype)[:, None], linear.astype(dtype, copy=False)
        parts = min(GRAM_PARTS, 1 + len(V) // GRAM_ROWS)
        ends = [len(V) * i // parts for i in range(parts + 1)]

        def part(i: int) -> tuple[Array, Array]:
            gram, sums = np.zeros((M, M), dtype=dtype), np.zeros(M)
            for start in range(ends[i], ends[i + 1], step):
                rows = slice(start, min(start + step, ends[i + 1]))
                W = scratch("W", V[rows].shape, dtype)
                negative = weights[rows] < 0
                if negative.any():  # these rows last, and their product taken away
                    order = np.argsort(negative, kind="stable")
                    np.take(V[rows], order, axis=0, out=W, mode="clip")  # the mode that writes to W at once
                    W *= root[rows][order]
                    first = len(W) - int(negative.sum())
                    add_gram(gram, W[:first])
                    add_gram(gram, W[first:], -1.0)
                else:
                    add_gram(gram, np.multiply(V[rows], root[rows], out=W))
                sums += linear[rows] @ V[rows]
            return gram, sums

        total, sums = np.zeros((M, M)), np.zeros(M)
        for partial, share in self.map(part, range(len(ends) - 1)):
            total += partial
            sums += share
        return symmetric(total), sums

    def bag_gram(self, V: Array, r: Array, offsets: Array, sign: Array) -> Array:
        """The vectors V_b' r_b of some bags at a time, as a sparse product, then their symmetric product."""
        counts = np.add.reduceat((r != 0).astype(np.int64), offsets[:-1])
        bags = np.flatnonzero(counts)
        bags = bags[np.argsort(sign[bags] < 0, kind="stable")]
        positive = int((sign[bags] > 0).sum())
        step = max(1, len(bags) // GRAM_PARTS + 1)

        def part(start: int) -> Array:
            chosen = bags[start : start + step]
            sizes = offsets[chosen + 1] - offsets[chosen]
            ends = np.concatenate([[0], np.cumsum(sizes)])
            rows = np.repeat(offsets[chosen] - ends[:-1], sizes) + np.arange(ends[-1])
            R = csr_array((r[rows].astype(V.dtype), rows, ends), shape=(len(chosen), len(V))) @ V
            cut = max(0, min(len(chosen), positive - start))
            gram = add_gram(np.zeros((V.shape[1], V.shape[1]), dtype=V.dtype), R[:cut])
            return add_gram(gram, R[cut:], -1.0)

        total = np.zeros((V.shape[1], V.shape[1]))
        for share in self.map(part, range(0, len(bags), step)):
            total += share
        return symmetric(total)

    def scanned(self, V: Array, rho: Array, offsets: Array) -> Array:
        """Some bags at a time, in threads."""
        W, rows = np.empty_like(V), chunk_rows(V.shape[1], V.dtype)
        cuts = np.unique([0, *np.searchsorted(offsets, np.arange(rows, len(V), rows)), len(offsets) - 1])

        def part(i: int) -> None:
            some = offsets[cuts[i] : cuts[i + 1] + 1]
            rows = slice(some[0], some[-1])
            W[rows] = scan(V[rows], rho[rows], some - some[0], axis=0)

        list(self.map(part, range(len(cuts) - 1)))
        return W

    def kernel_adjoint(self, gp: Features, X: Array, K: Array, left: Array, right: Array) -> Array:
        """Chunk by chunk; K is overwritten."""
        M, dtype = len(gp.Z), X.dtype
        Z, right, step = gp.Z.astype(dtype, copy=False), right.astype(dtype), chunk_rows(gp.size, dtype)

        def part(start: int) -> Array:
            rows = slice(start, start + step)
            some = left[rows].astype(dtype, copy=False)
            A = np.matmul(some, right, out=scratch("A", (len(some), M), dtype))
            return np.asarray(gp.kernel.gram_adjoint(X[rows], Z, A, K[rows][:, :M]))

        gradient = np.zeros(len(gp.kernel.log_parameters))
        for share in self.map(part, range(0, len(X), step)):
            gradient += share
        return gradient


NUMPY = NumpyBackend()
