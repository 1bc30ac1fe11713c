"""Directories of long work: begun with settings that are written down, and continued after a kill with the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.files.atomic import atomic_write
from psimil.files.csv_table import write_table
from psimil.files.environment import environment
from psimil.foundations.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd

CONFIG, ENVIRONMENT = "config.json", "environment.json"


@dataclass(frozen=True)
class Workdir:
    """An open directory; every file in it appears whole."""

    path: Path

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file."""
        self.write_text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """A text file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, lambda stream: stream.write(text.encode()))

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """A CSV file."""
        write_table(frame, self.path / name)


def open_workdir(
    path: Path, config: Mapping[str, Any], *, key: str, own: Sequence[str], overwrite: bool = False
) -> Workdir:
    """Begin work in a directory, or continue what is there.

    Parameters
    ----------
    config : settings of the work; version and commit of the program are added, so that two of them never mix.
    key : a setting that every work of this kind has; it tells our directories from others.
    own : files and folders that ``overwrite`` removes.

    Raises
    ------
    OutputError
        When the directory holds something else, or work with other settings or of another version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     work = open_workdir(Path(folder) / "run", {"experiment": "musk1"}, key="experiment", own=())
    ...     sorted(p.name for p in work.path.iterdir())
    ['config.json', 'environment.json']
    """
    found = environment()
    wanted = json.loads(json.dumps({**config, "psimil": found["psimil"], "commit": found["commit"]}))
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write {path}: it is not a directory.")
    work = Workdir(path)
    if path.is_dir() and any(not entry.name.startswith(".") for entry in path.iterdir()):
        earlier = _config(path, key)
        if earlier is None:
            raise OutputError(f"cannot write {path}: it holds files that are not of a psimil run. Name another.")
        if earlier == wanted and not overwrite:
            if not (path / ENVIRONMENT).is_file():  # killed between its first two files
                work.write_json(ENVIRONMENT, found)
            return work
        if not overwrite:
            changed = ", ".join(f"{k} was {earlier.get(k)!r}" for k in wanted if earlier.get(k) != wanted[k])
            raise OutputError(f"cannot continue {path}: {changed}. Name another directory or add --overwrite.")
        _clear(path, (*own, CONFIG, ENVIRONMENT))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}.") from error
    work.write_json(CONFIG, wanted)
    work.write_json(ENVIRONMENT, found)
    return work


def _config(path: Path, key: str) -> dict[str, Any] | None:
    try:
        found = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and key in found else None


def _clear(path: Path, own: Sequence[str]) -> None:
    for name in own:
        if (path / name).is_dir():
            shutil.rmtree(path / name, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                (path / name).unlink()
