"""Atomic file writing: after a crash or a full disk the old file or the new one is there, never half of one."""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from psimil.foundations.errors import OutputError

REASONS = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "no space left",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOENT: "its folder does not exist",
    errno.ENOTDIR: "its folder does not exist",
}


def atomic_write(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all.

    The bytes go to a temporary file beside the target, are flushed to disk, and take the target's name in
    one step. A symbolic link keeps pointing where it did; the file it points to is replaced, with its permissions.
    Temporary files left by writers that were killed are removed on the next write to the same target.

    Parameters
    ----------
    path : file to create or replace.
    write : called once with a binary stream; whatever it raises leaves the old file as it was.

    Raises
    ------
    OutputError
        When the file cannot be written; the message says whether an old file was kept.

    Examples
    --------
    >>> path = Path("greeting.txt")
    >>> atomic_write(path, lambda stream: stream.write(b"hello"))
    >>> path.read_text(), len(list(Path().iterdir()))
    ('hello', 1)
    """
    with atomic_stream(path) as stream, writing(path):
        write(stream)


@contextmanager
def atomic_stream(path: str | Path) -> Iterator[BinaryIO]:
    """A binary stream to write step by step, as :func:`atomic_write` does: at the end the file is there or it is not.

    Write within :func:`writing`; what else fails in between is raised as it is.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise OutputError(f"cannot write {Path(path).name}: it is a directory.")
    if target.exists() and not target.is_file():
        raise OutputError(f"cannot write {Path(path).name}: it is not a regular file.")
    prefix = f".psimil-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}-"
    with writing(path):
        _remove_abandoned(target.parent, prefix)
        descriptor, temporary = _locked_temporary(target.parent, prefix)
    stream = os.fdopen(descriptor, "wb")
    try:
        with writing(path):
            if target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
        yield stream
        with writing(path):
            stream.flush()
            os.fsync(descriptor)
            os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    finally:
        with suppress(OSError):  # what is still in the buffer after a failure may not fit on the disk
            stream.close()
    flush_folder(target.parent)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Say of what the system refuses that the file cannot be written, and whether an old one was kept.

    Examples
    --------
    >>> with writing("runs/bags.csv"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    psimil.foundations.errors.OutputError: cannot write bags.csv: no space left.
    """
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        kept = " (old file kept)" if os.path.exists(os.path.realpath(path)) else ""
        raise OutputError(f"cannot write {Path(path).name}: {_reason(error)}{kept}.") from error


def _locked_temporary(directory: Path, prefix: str) -> tuple[int, Path]:
    """A new file under an exclusive lock; the lock tells other writers that its owner is alive."""
    while True:
        path = directory / f"{prefix}{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # a file system without locks only loses the cleaning
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)  # another writer took it for abandoned before it was locked


def _remove_abandoned(directory: Path, prefix: str) -> None:
    """Delete temporary files of this target that nobody has locked: their writers are gone."""
    for path in directory.glob(f"{prefix}*.tmp"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)


def flush_folder(directory: Path) -> None:
    """Make the names in a folder survive a power loss; file systems that cannot flush a folder need no flush."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    return REASONS.get(error.errno, os.strerror(error.errno).lower())
