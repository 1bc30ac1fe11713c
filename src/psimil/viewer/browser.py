"""Handing the viewer's link to a browser. As an argument of a command every user of the computer could read it."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "open-viewer.html"
SECONDS = 20.0  # after which the browser has read the file
PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}"><title>psimil</title>'


def has_screen() -> bool:
    """Whether a browser would open in a window and not in the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def opened_browser(link: str, directory: Path, *, wanted: bool = True) -> Iterator[None]:
    """Open a browser at a link, by way of a file that its owner alone can read and that is soon removed.

    Parameters
    ----------
    link : with the token.
    directory : where the file is written; one that a killed start left is removed in any case. Nothing is opened when
        it cannot be written.
    wanted : whether to open anything.
    """
    path = directory / NAME
    _remove(path)
    if not wanted:
        yield
        return
    with suppress(OSError):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(PAGE.format(link=link))
        webbrowser.open(path.resolve().as_uri())
    timer = threading.Timer(SECONDS, _remove, (path,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
