"""The directory of a run: what it holds, with which settings it was begun, and whether it may be continued."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psimil.atomic import atomic_write
from psimil.environment import environment
from psimil.experiments.job import Job
from psimil.experiments.records import Records
from psimil.foundations.errors import OutputError

CONFIG, ENVIRONMENT = "config.json", "environment.json"
FOLDERS = ("fits", "predictions", "history", "tables", "figures")
FILES = (CONFIG, ENVIRONMENT, "fits.csv", "splits.csv", "metrics.json", "summary.md")


@dataclass(frozen=True)
class Workspace:
    """An open run directory."""

    path: Path

    @property
    def records(self) -> Records:
        """Its finished fits."""
        return Records(self.path)

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file, atomically."""
        self.write_text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """A text file, atomically."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, lambda stream: stream.write(text.encode()))


def open_workspace(path: Path, experiment: str, *, quick: bool, overwrite: bool = False) -> Workspace:
    """Begin a run, or continue the one that is there.

    Rows of different versions of the program are never mixed.

    Raises
    ------
    OutputError
        When the directory holds something else, or a run with other settings or of another version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = open_workspace(Path(folder) / "run", "musk1", quick=True)
    ...     sorted(p.name for p in run.path.iterdir())
    ['config.json', 'environment.json']
    """
    found = environment()
    config = {"experiment": experiment, "quick": quick, "psimil": found["psimil"], "commit": found["commit"]}
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write {path}: it is not a directory.")
    workspace = Workspace(path)
    if path.is_dir() and any(not entry.name.startswith(".") for entry in path.iterdir()):
        earlier = _config(path)
        if earlier is None:
            raise OutputError(f"cannot write {path}: it holds files that are not of a psimil run. Name another.")
        if earlier == config and not overwrite:
            if not (path / ENVIRONMENT).is_file():  # killed between its first two files
                workspace.write_json(ENVIRONMENT, found)
            return workspace
        if not overwrite:
            changed = ", ".join(f"{k} was {earlier.get(k)!r}" for k in config if earlier.get(k) != config[k])
            raise OutputError(f"cannot continue {path}: {changed}. Name another directory or add --overwrite.")
        _clear(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}.") from error
    workspace.write_json(CONFIG, config)
    workspace.write_json(ENVIRONMENT, found)
    return workspace


def split_rows(jobs: list[Job], labels: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per bag and part of every split that the jobs use.

    Parameters
    ----------
    labels : cohort name -> (B,) bag labels.
    """
    from psimil.experiments.material import CROSS_VALIDATION, split_of
    from psimil.experiments.models import entry

    rows, seen = [], set()
    for job in jobs:
        stopping = entry(job.model).preset not in ("", "default")
        name = (job.protocol, job.task, job.repeat, job.split, stopping and job.protocol == "nested")
        if job.task != CROSS_VALIDATION or name in seen or (job.experiment == "ich" and job.protocol != "nested"):
            continue
        seen.add(name)
        split = split_of(job, labels[job.experiment], stopping)
        parts = {"train": split.train, "stop": split.stop, "measured": split.test}
        first = {"protocol": job.protocol, "repeat": job.repeat, "split": job.split, "stopping": name[-1]}
        for part, index in parts.items():
            rows += [{**first, "part": part, "bag": int(bag)} for bag in (() if index is None else index)]
    return rows


def _config(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "experiment" in found else None


def _clear(path: Path) -> None:
    for folder in FOLDERS:
        shutil.rmtree(path / folder, ignore_errors=True)
    for name in FILES:
        with suppress(FileNotFoundError):
            (path / name).unlink()
