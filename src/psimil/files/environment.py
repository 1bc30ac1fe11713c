"""What a result was computed with: versions, machine, seed, and the commit when run inside a checkout."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from psimil.version import VERSION

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "safetensors", "matplotlib")


def environment(seed: int | None = None) -> dict[str, Any]:
    """Versions, Python, platform, number of processors, seed, and the git commit of a psimil checkout.

    Examples
    --------
    >>> environment(seed=3)["seed"]
    3
    """
    return {
        "psimil": VERSION,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": f"{sys.platform}-{platform.machine()}",
        "processors": os.cpu_count(),
        "seed": seed,
        "commit": checkout_commit(Path()),
    }


def checkout_commit(directory: Path) -> str | None:
    """The commit checked out in a directory that holds psimil's own source; None anywhere else.

    Examples
    --------
    >>> checkout_commit(Path()) is None
    True
    """
    try:
        if 'name = "psimil"' not in (directory / "pyproject.toml").read_text(encoding="utf-8").splitlines():
            return None
        git = directory / ".git"
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if head.startswith("ref: "):
            reference = head.removeprefix("ref: ")
            loose = git / reference
            head = loose.read_text(encoding="utf-8") if loose.is_file() else _packed(git, reference)
    except (OSError, ValueError):
        return None
    commit = re.match(r"[0-9a-f]{40,64}\b", head)
    return commit.group() if commit else None


def _packed(git: Path, reference: str) -> str:
    for line in (git / "packed-refs").read_text(encoding="utf-8").splitlines():
        if line.endswith(f" {reference}"):
            return line
    return ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
