"""Commands that a message tells the user to type: they work as printed, however psimil was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from psimil.foundations.extras import install_command, short_path


def next_step(*arguments: object) -> str:
    """The command line that runs ``psimil`` with these arguments in the same environment.

    Examples
    --------
    >>> next_step("view", Path("my run")).split("psimil ")[1]
    "view 'my run'"
    """
    return f"{program()} {shlex.join(map(str, arguments))}"


def ways_to_look(results: Path, *options: object) -> list[str]:
    """The commands that show results, one each; the first installs what they need where that is missing.

    Examples
    --------
    >>> [line.split("psimil ")[1] for line in ways_to_look(Path("run"))[-2:]]
    ['view run', 'report run']
    """
    missing = [] if has_viewer() else [install_command("viewer")]
    return [*missing, next_step("view", results, *options), next_step("report", results)]


def has_viewer() -> bool:
    """Whether the packages of ``psimil view`` and ``psimil report`` are installed."""
    return all(find_spec(name) for name in ("fastapi", "uvicorn", "jinja2"))


def program() -> str:
    """What to type in place of ``psimil``: that alone when the shell finds it, else the path that was typed.

    Examples
    --------
    >>> program().endswith("psimil")
    True
    """
    called = Path(sys.argv[0])
    if called.stem == "psimil" and called.is_file():
        return "psimil" if _is_found("psimil", called) else shlex.quote(short_path(str(called)))
    python = "python" if _is_found("python", Path(sys.executable)) else shlex.quote(short_path(sys.executable))
    return f"{python} -m psimil"


def _is_found(name: str, wanted: Path) -> bool:
    """Whether the shell, asked for the name, runs this very program; links to it may run in another environment."""
    found = shutil.which(name)
    return found is not None and os.path.abspath(found) == os.path.abspath(wanted)
