"""The flight recorder: the input at hand, in memory that outlives the process that crashes on it."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

ROOM = 8 << 20
HEAD = struct.Struct("<QQ")


class Flight:
    """A file in memory with the number of the execution and its input.

    Parameters
    ----------
    path : the file; it is made when it is not there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Flight(Path(folder) / "flight") as flight:
    ...     flight.note(7, b"input")
    ...     flight.last()
    (7, b'input')
    """

    def __init__(self, path: Path) -> None:
        with path.open("ab") as file:
            file.truncate(ROOM)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ROOM)

    def note(self, number: int, data: bytes) -> None:
        """Remember an input before it is tried."""
        kept = data[: ROOM - HEAD.size]
        self._memory[: HEAD.size + len(kept)] = HEAD.pack(number, len(kept)) + kept

    def last(self) -> tuple[int, bytes]:
        """The execution that was noted last, and its input."""
        number, size = HEAD.unpack_from(self._memory)
        return number, self._memory[HEAD.size : HEAD.size + size]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.close()
