"""SHA-256 of the files of a store, of the whole and of each block, so that damage can be located."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

BLOCK = 64 << 20
READ = 1 << 20

Data = bytes | NDArray[Any]


@dataclass(frozen=True)
class Digest:
    """Size and SHA-256 of a file, and of its blocks of 64 MB when there are several."""

    bytes: int
    sha256: str
    blocks: tuple[str, ...] = ()


class _Fingerprint:
    """The digest of bytes that come one after another."""

    def __init__(self) -> None:
        self._whole, self._block = hashlib.sha256(), hashlib.sha256()
        self._blocks: list[str] = []
        self.bytes = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take further bytes."""
        view = memoryview(data)
        self._whole.update(view)
        while view:
            piece = view[: BLOCK - self.bytes % BLOCK]
            self._block.update(piece)
            self.bytes += len(piece)
            view = view[len(piece) :]
            if self.bytes % BLOCK == 0:
                self._blocks.append(self._block.hexdigest())
                self._block = hashlib.sha256()

    def digest(self) -> Digest:
        """Of what came so far."""
        blocks = [*self._blocks, *([self._block.hexdigest()] if self.bytes % BLOCK else [])]
        return Digest(self.bytes, self._whole.hexdigest(), tuple(blocks) if len(blocks) > 1 else ())


def digest_file(path: Path) -> Digest:
    """The digest of a file.

    Examples
    --------
    >>> path = Path("letters")
    >>> _ = path.write_bytes(b"abc")
    >>> digest_file(path).sha256[:8]
    'ba7816bf'
    """
    fingerprint = _Fingerprint()
    with path.open("rb") as stream:
        while data := stream.read(READ):
            fingerprint.update(data)
    return fingerprint.digest()


class BlockCheck:
    """Compares the blocks of a file with their digests, before its bytes are used each once in a process.

    Parameters
    ----------
    path : the file.
    expected : its digest.
    name : of the file, for messages.

    Examples
    --------
    >>> path = Path("letters")
    >>> _ = path.write_bytes(b"abd")
    >>> BlockCheck(path, Digest(3, hashlib.sha256(b"abc").hexdigest()), "letters").before(0, 3)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: letters of the store was changed: its checksum differs. Import the data again.
    """

    def __init__(self, path: Path, expected: Digest, name: str) -> None:
        self._path, self._name, self._bytes = path, name, expected.bytes
        self._blocks = expected.blocks or (expected.sha256,)
        self._size = BLOCK if expected.blocks else max(expected.bytes, 1)
        state = path.stat()
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, expected.sha256)
        self._done = _CHECKED.setdefault(key, set())

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self._blocks)

    def again(self) -> Iterator[int]:
        """Check one block after another, whether it was checked before or not."""
        for number in range(len(self)):
            self._compare(number, self._sha256(number))
            yield number

    def before(self, start: int, stop: int) -> None:
        """Check the blocks of the bytes from start to stop, but for those that were checked before."""
        for number in range(start // self._size, min(-(-stop // self._size), len(self._blocks))):
            if number not in self._done:
                self._compare(number, self._sha256(number))

    def whole(self, content: NDArray[Any]) -> None:
        """Check every block, from the content of the file as an array, wherever the file has gone."""
        data = content.reshape(-1).view(np.uint8)
        for number in set(range(len(self._blocks))) - self._done:
            self._compare(number, hashlib.sha256(data[number * self._size :][: self._size].data).hexdigest())

    def _compare(self, number: int, sha256: str) -> None:
        if sha256 != self._blocks[number]:
            start, stop = number * self._size, min((number + 1) * self._size, self._bytes)
            where = f" between bytes {start} and {stop}" if len(self) > 1 else ""
            raise changed(self._name, f"its checksum differs{where}")
        self._done.add(number)

    def _sha256(self, number: int) -> str:
        running, left = hashlib.sha256(), self._size
        with self._path.open("rb", buffering=0) as stream:
            stream.seek(number * self._size)
            while left and (data := stream.read(min(READ, left))):
                running.update(data)
                left -= len(data)
        return running.hexdigest()


_CHECKED: dict[tuple[int | str, ...], set[int]] = {}  # blocks of files, which are known by what a change would change


def changed(name: str, how: str) -> InputError:
    """What to say about a file that is not what it was."""
    return InputError(f"{name} of the store was changed: {how}. Import the data again.")


class HashedFile:
    """A new file whose digest is known when it is complete.

    Bytes written in order are hashed on the way; once some are written elsewhere, the file is read again at the end.

    Examples
    --------
    >>> with HashedFile(Path("letters")) as file:
    ...     file.write(b"c", at=2)
    ...     file.write(b"ab", at=0)
    ...     file.complete().sha256[:8]
    'ba7816bf'
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = path.open("xb", buffering=READ)
        self._fingerprint: _Fingerprint | None = _Fingerprint()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: Data, at: int | None = None) -> None:
        """Bytes, or a contiguous array of at least 1 number, at the end or at a place."""
        view = data.data.cast("B") if isinstance(data, np.ndarray) else memoryview(data)
        if self._fingerprint is not None and at in (None, self._fingerprint.bytes):
            self._stream.write(view)
            self._fingerprint.update(view)
            return
        self._fingerprint = None
        self._stream.seek(0, os.SEEK_END) if at is None else self._stream.seek(at)
        self._stream.write(view)

    def complete(self) -> Digest:
        """Put everything on the disk and return the digest."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        return digest_file(self._path) if self._fingerprint is None else self._fingerprint.digest()

    def close(self) -> None:
        """Let go of the file, complete or not."""
        with suppress(OSError):  # what is still in the buffer may not fit on the disk
            self._stream.close()
