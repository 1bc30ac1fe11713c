"""The cluster of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """A client of the Dask scheduler at the address for as long as the block lasts; None without an address.

    Examples
    --------
    >>> with connected(None) as client:
    ...     client is None
    True
    """
    if address is None:
        yield None
        return
    from psimil.cluster import connect

    with connect(address) as client:
        yield client
