"""The side of the workers: the rows of a shard, kept as long as they fit, and a task done to them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.inference.shards import Shard
from psimil.model.context import in_context
from psimil.model.densities import Density
from psimil.model.scaling import Scaling

Value = TypeVar("Value")

SHARE = 0.3  # of a worker's memory that rows may keep
KEPT_BYTES = 1 << 30  # where that memory is not known

_lock, _limits = Lock(), list[Any]()
_controller = cache(ThreadpoolController)


@contextmanager
def _one_thread() -> Iterator[None]:
    """BLAS on one thread while any task of this process is inside; what was before comes back with the last one."""
    with _lock:
        _limits.append(_controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            _limits.pop().restore_original_limits()  # whoever leaves: only the first one to come found other limits


def store_fingerprint(path: str | Path) -> str:
    """A digest of a store's manifest, which holds the checksums of its files."""
    from psimil.store.manifest import read_manifest

    return hashlib.sha256(read_manifest(path).encoded()).hexdigest()


@lru_cache(maxsize=4)
def _opened(path: str, fingerprint: str, context: bool) -> Any:
    from psimil.store import open_store

    if store_fingerprint(path) != fingerprint:
        raise InputError("the store differs from the one of the fit: every worker must see the same files.")
    bags = open_store(path)
    return (in_context(bags) if context else bags).stream


@cache
def _kept_rows() -> Any:
    """Rows of stores by key; those that were not used for longest go when the memory of this worker is short."""
    from zict import LRU  # a part of Dask

    limit = None
    with suppress(ImportError, ValueError, AttributeError):
        from distributed import get_worker

        limit = get_worker().memory_manager.memory_limit
    return LRU(SHARE * limit if limit else KEPT_BYTES, {}, weight=lambda _, rows: rows.nbytes)


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows start to stop - 1 of a store, in model coordinates, with their ``context``; read where they are needed."""

    path: str
    fingerprint: str
    start: int
    stop: int
    scaling: Scaling
    dtype: str
    context: bool = False

    def read(self) -> Array:
        """(n, D) rows; kept for the next task if they fit."""
        parts = (self.scaling.location, self.scaling.scale, self.scaling.directions)
        digest = hashlib.blake2b(b"".join(part.tobytes() for part in parts if part is not None), digest_size=16)
        key = (self.fingerprint, self.start, self.stop, digest.hexdigest(), self.dtype)
        X: Array | None = _kept_rows().get(key)
        if X is None:
            rows = np.asarray(_opened(self.path, self.fingerprint, self.context)[self.start : self.stop])
            X = _kept_rows()[key] = self.scaling.apply(rows, self.dtype)
        return X


def received(value: Value) -> Value:
    """What was sent, for a worker to keep as long as somebody holds its future."""
    return value


def run_shard(shard: Shard, task: Callable[[Shard], Value], density: Density) -> tuple[Value, float]:
    """Do the task to one shard under a density, on one thread: its result, and the seconds it took.

    The rows of the shard may be :class:`StoredRows`.

    Examples
    --------
    >>> from psimil.model.densities import HyperbolicSecant
    >>> from psimil.model.bag_likelihoods import Labels
    >>> psi = HyperbolicSecant()
    >>> shard = Shard(np.zeros((3, 1)), Labels(np.array([1]), np.array([0, 3])), np.ones(1), psi)
    >>> run_shard(shard, lambda shard: len(shard.X), psi)[0]
    3
    """
    started = time.perf_counter()
    with _one_thread():
        X = shard.X.read() if isinstance(shard.X, StoredRows) else _in_place(shard.X)
        return task(replace(shard, X=X, density=density)), time.perf_counter() - started


def _in_place(A: Array) -> Array:
    """The array at an address like those that NumPy gives: elsewhere some processors sum in another order."""
    return A if A.ctypes.data % 16 == 0 else A.copy()
