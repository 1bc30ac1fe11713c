"""An ordered map over chunks on as many threads as BLAS is allowed, each with single-threaded BLAS.

Two cores that work on different chunks, each in its own cache, beat two cores that share one chunk.
Results come back in the order of the chunks, so sums do not depend on the number of threads.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from multiprocessing import current_process
from threading import local
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


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


class OrderedMap(Protocol):
    """A map whose results come in the order of the items."""

    def __call__(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results of ``function`` on each item."""


@contextmanager
def workers() -> Iterator[OrderedMap]:
    """An ordered map on :func:`available_threads` threads, for several calls; BLAS is single-threaded meanwhile.

    Examples
    --------
    >>> with workers() as run:
    ...     list(run(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    threads = available_threads()
    with single_threaded_blas():
        if threads == 1:
            yield map  # type: ignore[misc]  # a map of one iterable
        else:
            yield _pool(threads, current_process().ident).map  # type: ignore[misc]  # as above


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of ``function`` on each item, in order, on the threads of :func:`workers`.

    Examples
    --------
    >>> list(ordered_map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    with workers() as run:
        yield from run(function, items)


class Scratch(local):
    """Arrays that each thread keeps from chunk to chunk: fresh memory costs more than the arithmetic on it.

    Examples
    --------
    >>> scratch = Scratch()
    >>> scratch.array("W", (2, 3), np.float64).shape
    (2, 3)
    """

    def __init__(self) -> None:
        self.kept: dict[str, NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """An uninitialised row-major array of this shape, valid until this thread asks for the name again."""
        size = shape[0] * shape[1]
        kept = self.kept.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            kept = self.kept[name] = np.empty(size, dtype=dtype)
        return kept[:size].reshape(shape)
