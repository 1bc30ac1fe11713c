"""Directories of long work: begun with settings that are written down, and continued after a kill with the same."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psimil.files.environment import environment
from psimil.files.paths import is_folder, lock_folder
from psimil.files.rundir import BUSY, LONG_WORK, MARKER, PATIENCE, OutputFolder, check_around, explained, opened
from psimil.foundations.errors import OutputError

CONFIG, ENVIRONMENT = LONG_WORK, MARKER


@dataclass(frozen=True)
class Workdir(OutputFolder):
    """An open directory."""

    path: Path

    def file(self, name: str) -> Path:
        """Where to write a file, in a folder that is there."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def open_workdir(
    path: Path,
    config: Mapping[str, Any],
    *,
    key: str,
    own: Sequence[str],
    overwrite: bool = False,
    inputs: Sequence[Path | None] = (),
) -> Workdir:
    """Begin work in a directory, or continue what is there.

    Parameters
    ----------
    config : settings of the work; version and commit of the program are added, so that two of them never mix.
    key : a setting that every work of this kind has; it tells our directories from others.
    own : files and folders that ``overwrite`` removes.
    inputs : what the work reads, which must not lie in a directory that is overwritten.

    Raises
    ------
    OutputError
        When the directory holds something else, an input, or work with other settings or of another version, or
        another process works in it.

    Examples
    --------
    >>> work = open_workdir(Path("run"), {"experiment": "musk1"}, key="experiment", own=())
    >>> sorted(p.name for p in work.path.iterdir())
    ['config.json', 'environment.json']
    """
    facts = environment()
    wanted = json.loads(json.dumps({**config, "psimil": facts["psimil"], "commit": facts["commit"]}))
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write {path}: it is not a directory.")
    with explained(path):
        check_around(path)
        path.mkdir(parents=True, exist_ok=True)
    _lock(path)
    work = Workdir(path)
    if all(entry.name.startswith(".") for entry in path.iterdir()):
        work.write_json(CONFIG, wanted)
        work.write_json(ENVIRONMENT, facts)
        return work
    earlier = _config(path, key)
    if earlier is None:
        raise OutputError(f"cannot write {path}: it holds files that are not of a psimil run. Name another.")
    if not (path / ENVIRONMENT).is_file():  # killed between its first two files
        work.write_json(ENVIRONMENT, facts)
    if overwrite:
        _unlock(path)
        with opened(path, overwrite=True, own=(*own, CONFIG, ENVIRONMENT), inputs=inputs) as run:
            run.start(facts)
            run.write_json(CONFIG, wanted)
            run.finish()
        _lock(path)
    elif earlier != wanted:
        changed = ", ".join(f"{k} was {earlier.get(k)!r}" for k in wanted if earlier.get(k) != wanted[k])
        raise OutputError(f"cannot continue {path}: {changed}. Name another directory or add --overwrite.")
    return work


def _config(path: Path, key: str) -> dict[str, Any] | None:
    try:
        settings = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) and key in settings else None


_LOCKS: dict[Path, int] = {}  # of the directories that this process works in, until it ends


def _lock(path: Path) -> None:
    """Keep other processes out of a directory for as long as this one lives."""
    path = path.resolve()
    if path in _LOCKS and is_folder(_LOCKS[path], path):
        return
    _unlock(path)
    lock = lock_folder(path, PATIENCE)
    if lock is None:
        raise OutputError(f"cannot write {path}: {BUSY}.")
    _LOCKS[path] = lock


def _unlock(path: Path) -> None:
    with suppress(KeyError):
        os.close(_LOCKS.pop(path.resolve()))
