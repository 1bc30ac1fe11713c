"""The side of the workers: the rows of a part, kept as long as they fit, and a task done to them."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from psimil.cluster.checks import Answer, checksum
from psimil.foundations.errors import InputError
from psimil.inference.problem import Problem
from psimil.model.densities import Density
from psimil.model.label_posteriors import Labels
from psimil.model.scaling import Scaling

Array = NDArray[Any]

SHARE = 0.3  # of a worker's memory that rows may keep
KEPT_BYTES = 1 << 30  # where that memory is not known


class Shelf:
    """Arrays by key; beyond a number of bytes those that were not used for longest go.

    Examples
    --------
    >>> shelf = Shelf()
    >>> shelf.put("a", np.zeros(2), limit=20)
    >>> shelf.put("b", np.zeros(2), limit=20)
    >>> shelf.get("a") is None, shelf.get("b")
    (True, array([0., 0.]))
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Array] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Any) -> Array | None:
        """The array, or None."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Any, array: Array, limit: float) -> None:
        """Keep an array, and of the others what fits."""
        with self._lock:
            self._kept[key] = array
            while self._kept and sum(kept.nbytes for kept in self._kept.values()) > limit:
                self._kept.popitem(last=False)


class OneThread:
    """BLAS on one thread while any task of this process is inside; what was before comes back with the last one.

    Examples
    --------
    >>> with OneThread() as one, one:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> OneThread:
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_shelf, _one_thread = Shelf(), OneThread()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def store_fingerprint(path: str | Path) -> str:
    """A digest of a store's manifest, which holds the checksums of its files."""
    from psimil.store.manifest import read_manifest

    return hashlib.sha256(read_manifest(path).encoded()).hexdigest()


@lru_cache(maxsize=4)
def _opened(path: str, fingerprint: str) -> Any:
    from psimil.store import open_store

    if store_fingerprint(path) != fingerprint:
        raise InputError("the store differs from the one of the fit: every worker must see the same files.")
    return open_store(path).stream


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows start to stop - 1 of a store, in model coordinates; read where and when they are needed."""

    path: str
    fingerprint: str
    start: int
    stop: int
    scaling: Scaling
    dtype: str

    def read(self) -> Array:
        """(n, D) rows; kept for the next task if they fit."""
        digest = hashlib.blake2b(self.scaling.location.tobytes() + self.scaling.scale.tobytes(), digest_size=16)
        key = (self.fingerprint, self.start, self.stop, digest.hexdigest(), self.dtype)
        X = _shelf.get(key)
        if X is None:
            rows = np.asarray(_opened(self.path, self.fingerprint)[self.start : self.stop])
            X = self.scaling.apply(rows, self.dtype)
            _shelf.put(key, X, kept_bytes())
        return X


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a data set: rows in model coordinates, or where they are, with labels and weights of its bags."""

    rows: StoredRows | Array
    labels: Labels
    weights: Array
    rule: str

    def problem(self, density: Density) -> Problem:
        """The part as a problem of its own."""
        X = self.rows.read() if isinstance(self.rows, StoredRows) else _in_place(self.rows)
        return Problem(X, self.labels, self.weights, density, self.rule)


def _in_place(A: Array) -> Array:
    """The array at an address like those that NumPy gives: elsewhere some processors sum in another order."""
    return A if A.ctypes.data % 16 == 0 else A.copy()


@dataclass(frozen=True, eq=False)
class Order:
    """What is done to every part of a round."""

    task: Any
    density: Density


def run_part(part: Part, order: Order, number: int, round: int) -> Answer:
    """Do the task to one part, on one thread.

    Examples
    --------
    >>> from psimil.model.densities import HyperbolicSecant
    >>> part = Part(np.zeros((3, 1)), Labels(np.array([1]), np.array([0, 3])), np.ones(1), "exact")
    >>> run_part(part, Order(lambda problem: len(problem.X), HyperbolicSecant()), 0, 1).result
    3
    """
    started = time.perf_counter()
    with _one_thread:
        result = order.task(part.problem(order.density))
    return Answer(round, number, result, checksum(result), time.perf_counter() - started, _address())


def kept_bytes() -> float:
    """Bytes of rows that this worker keeps between tasks."""
    with suppress(ImportError, ValueError, AttributeError):
        from distributed import get_worker

        limit = get_worker().memory_manager.memory_limit
        return SHARE * limit if limit else KEPT_BYTES
    return KEPT_BYTES


def _address() -> str:
    with suppress(ImportError, ValueError):
        from distributed import get_worker

        return str(get_worker().address)
    return ""
