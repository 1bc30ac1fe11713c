"""Folders as one thing: locked by one writer at a time, and exchanged with another folder in one step."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

_AT_FDCWD, _EXCHANGE = -100, 2  # the number of RENAME_EXCHANGE on Linux and of RENAME_SWAP on macOS


def lock_folder(folder: Path, wait: float = 0.0) -> int | None:
    """A descriptor that holds the lock of a folder until it is closed; None when somebody else keeps it.

    Parameters
    ----------
    folder : no symbolic link.
    wait : seconds in which another owner may let go.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     lock = lock_folder(Path(directory))
    ...     lock is None, lock_folder(Path(directory)) is None
    ...     os.close(lock)
    (False, True)
    """
    last = time.monotonic() + wait
    while True:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() >= last:
                return None
            time.sleep(0.005)
            continue
        except OSError:  # a file system without locks has one writer at a time by agreement
            pass
        if is_folder(descriptor, folder):
            return descriptor
        os.close(descriptor)  # another folder has taken its name meanwhile


def is_folder(descriptor: int, folder: Path) -> bool:
    """Whether a descriptor is that of the folder which has this name now.

    Examples
    --------
    >>> is_folder(0, Path("no such folder"))
    False
    """
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(folder, follow_symlinks=False))
    return False


def exchange(first: Path, second: Path) -> None:
    """Give two folders of one file system each other's name, in one step.

    Raises
    ------
    OSError
        When the file system cannot; nothing has changed then.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     old, new = Path(directory) / "old", Path(directory) / "new"
    ...     old.mkdir(), (new / "inside").mkdir(parents=True)
    ...     exchange(old, new)
    ...     (old / "inside").exists()
    (None, None)
    True
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    try:
        if sys.platform == "darwin":
            failed = libc.renamex_np(*names, _EXCHANGE)
        else:
            failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(first), None, str(second))
