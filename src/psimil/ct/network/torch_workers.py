"""Threads for torch: each works on items of its own, so results do not depend on how many there are. Needs torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from psimil.foundations.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
OrderedMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextmanager
def torch_workers(threads: int | None = None) -> Iterator[OrderedMap]:
    """A map whose results come in order, a few items ahead, each item on one thread; torch is deterministic meanwhile.

    Parameters
    ----------
    threads : None for as many as torch may use, which then stays on one thread within an item; 1 works the items out
        on the calling thread, where torch keeps its threads.

    Examples
    --------
    >>> with torch_workers(2) as ordered:
    ...     list(ordered(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    allowed, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    count = allowed if threads is None else threads
    torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())
    try:
        if threads != 1:
            torch.set_num_threads(1)
        if count == 1:
            yield map
        else:
            with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                yield lambda function, items: _ahead(pool, 2 * count, function, items)
    finally:
        torch.set_num_threads(allowed)
        torch.use_deterministic_algorithms(strict, warn_only=lenient)


def _ahead(
    pool: ThreadPoolExecutor, most: int, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def read_device(name: str) -> torch.device:
    """The device of this name, if it is there.

    Examples
    --------
    >>> read_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(f"device {name!r} is not known. Use 'cpu' or 'cuda'.") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device {name!r} is not available here. Use device='cpu'.")
    return device
