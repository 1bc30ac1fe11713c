"""Paths as callers give them, and folders as one thing: locked by one writer at a time, exchanged in one step."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from psimil.foundations.errors import InputError

_AT_FDCWD, _EXCHANGE = -100, 2  # the number of RENAME_EXCHANGE on Linux and of RENAME_SWAP on macOS


def as_path(value: Any, what: str = "path") -> Path:
    """The path, refused when it is no text or path object.

    Parameters
    ----------
    value : str or os.PathLike of str.
    what : name of the argument, for the message.

    Raises
    ------
    InputError
        When the value is something else, or empty.

    Examples
    --------
    >>> as_path("model.safetensors").suffix
    '.safetensors'
    >>> as_path(None, "directory")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: directory must be a path (str or pathlib.Path), got NoneType.
    """
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str) and text and "\0" not in text:
            return Path(text)
        if isinstance(text, str):
            raise InputError(f"{what} must be a path (str or pathlib.Path), got {text!r}. Name a file or folder.")
    raise InputError(f"{what} must be a path (str or pathlib.Path), got {type(value).__name__}.")


def lock_folder(folder: Path, wait: float = 0.0) -> int | None:
    """A descriptor that holds the lock of a folder until it is closed; None when somebody else keeps it.

    Parameters
    ----------
    folder : no symbolic link.
    wait : seconds in which another owner may let go.

    Examples
    --------
    >>> lock = lock_folder(Path())
    >>> lock is None, lock_folder(Path()) is None
    (False, True)
    >>> os.close(lock)
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


def take_folder(folder: Path) -> int | None:
    """The lock of an empty folder: a new one, or what a killed writer has left of it; None when its writer is at work.

    Examples
    --------
    >>> (Path("aside") / "left").mkdir(parents=True)
    >>> lock = take_folder(Path("aside"))
    >>> list(Path("aside").iterdir()), take_folder(Path("aside"))
    ([], None)
    >>> os.close(lock)
    """
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        with suppress(FileNotFoundError):  # its writer has just ended
            lock = lock_folder(folder)
            if lock is not None:
                for left in folder.iterdir():
                    shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
            return lock


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
    >>> old, new = Path("old"), Path("new")
    >>> old.mkdir(), (new / "inside").mkdir(parents=True)
    (None, None)
    >>> exchange(old, new)
    >>> (old / "inside").exists()
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
