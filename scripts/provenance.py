"""With what a page was measured: commit, versions and settings, and how they are kept and shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from psimil.files.atomic import atomic_write
from psimil.files.environment import environment

ROOT = Path(__file__).resolve().parents[1]


def provenance(settings: dict[str, Any], scripts: Sequence[str]) -> dict[str, Any]:
    """Commit, versions and settings, and whether source or the scripts named differ from the commit."""
    found, differs = environment(), bool(_git("status", "--porcelain", "src/psimil", *scripts))
    versions = {"psimil": found["psimil"], "python": found["python"],
                **{key: found["packages"][key] for key in ("numpy", "scipy")}}  # fmt: skip
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed": differs,
        "versions": versions,
        "settings": json.loads(json.dumps(settings)),
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def read_facts(path: Path) -> dict[str, Any]:
    """What was kept, nothing where there is no such file yet."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def keep_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Keep facts as JSON."""
    atomic_write(path, lambda stream: stream.write(json.dumps(facts, indent=1).encode() + b"\n"))


def filled(template: Path, values: Mapping[str, str]) -> str:
    """The text of a template with every ``<!-- KEY -->`` replaced."""
    text = template.read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"<!-- {key} -->", value)
    return text


def write_page(path: Path, text: str) -> None:
    """Write a page, and the folder of its section where it is not there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, lambda stream: stream.write(text.encode()))


def merged(path: Path, found: pd.DataFrame, order: Sequence[str]) -> pd.DataFrame:
    """The rows of a table with those of the data sets found put in place of older ones, in the order of the page."""
    if path.exists():
        older = pd.read_csv(path)
        found = pd.concat([older[~older["data"].isin(found["data"])], found])
    place = found["data"].map(list(order).index)
    return found.assign(place=place).sort_values("place", kind="stable").drop(columns="place").reset_index(drop=True)
