"""How to install what a message misses: a command that works when it is copied, from any folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SOURCE = 'name = "psimil"'


@contextmanager
def needed(why: str, extra: str) -> Iterator[None]:
    """Imports of what an extra installs; where one is missing, say why it is needed and how to get it.

    Examples
    --------
    >>> with needed("pictures of unicorns need unicorn", "viewer"):
    ...     import unicorn
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: pictures of unicorns need unicorn. Install it with: ...
    """
    try:
        yield
    except ImportError as error:
        from psimil.foundations.errors import InputError

        raise InputError(f"{why}. Install it with: {install_command(extra)}") from error


def install_command(extra: str) -> str:
    """A command for the shell that installs an extra of psimil into the Python that is running.

    psimil is in no index, so the command names the clone that it was installed from; without one, the packages.

    Parameters
    ----------
    extra : as in pyproject.toml, e.g. "viewer".

    Examples
    --------
    >>> install_command("viewer").split(" -m ")[1][:11]
    'pip install'
    """
    import shlex
    import sys

    python = shlex.quote(short_path(sys.executable))
    clone, editable = _clone()
    if clone is not None:
        return f"{python} -m pip install {'-e ' if editable else ''}{shlex.quote(f'{short_path(clone)}[{extra}]')}"
    return f"{python} -m pip install {shlex.join(_packages(extra))}"


def short_path(path: str) -> str:
    """The path as seen from the working directory, when that is shorter; it always has a separator, or is ".".

    Examples
    --------
    >>> import os
    >>> short_path(os.path.join(os.getcwd(), "run")), short_path(os.getcwd()), short_path("/")
    ('./run', '.', '/')
    """
    import os

    try:
        seen = os.path.relpath(path)
    except (OSError, ValueError):  # the working directory is gone, or on another drive
        return path
    if os.sep not in seen and seen != ".":
        seen = os.path.join(".", seen)
    return seen if len(seen) + 1 < len(path) else path  # from the root, all are shorter


def _clone() -> tuple[str | None, bool]:
    """The folder of the source that psimil runs from or was installed from, and whether it is used in place."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    here = Path(__file__).absolute().parents[3]
    if _is_clone(here):
        return str(here), True
    try:
        origin = json.loads(distribution("psimil").read_text("direct_url.json") or "{}")
        parts = urlsplit(str(origin.get("url", "")))
    except (PackageNotFoundError, ValueError, AttributeError):
        return None, False
    folder = Path(unquote(parts.path))
    return (str(folder), False) if parts.scheme == "file" and _is_clone(folder) else (None, False)


def _is_clone(folder: object) -> bool:
    from pathlib import Path

    try:
        return SOURCE in (Path(str(folder)) / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return False


def _packages(extra: str) -> list[str]:
    """The requirements of an extra, as the installed psimil lists them."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        found = [line.partition(";") for line in requires("psimil") or ()]
    except PackageNotFoundError:
        found = []
    ours = [name.strip() for name, _, when in found if f'extra == "{extra}"' in when.replace("'", '"')]
    return ours or [f"psimil[{extra}]"]
