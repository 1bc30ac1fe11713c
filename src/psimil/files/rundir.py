"""Run directories: results are written aside and moved into place together; nothing of the user's is ever replaced."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.files.atomic import atomic_write
from psimil.files.csv_table import write_table
from psimil.foundations.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd

MARKER = "environment.json"  # a directory that holds it is ours
ASIDE = ".psimil-run-"  # where files wait until all of them are written
LOCKING = 1.0  # seconds that may pass until a run has locked its new folder
OWN = (
    "bags.csv", "config.toml", "history.csv", "instances.csv", "metrics.json", "model.safetensors", "summary.md",
    "folds.csv", "musk1.csv", "figures/*.png", "figures/*.pdf", "figures/*.csv",
    "failures.csv", "scores.csv", "series.csv", "reports/*.dcm", "model/*.safetensors",
    "results.safetensors", "report.html",
)  # fmt: skip


@dataclass(frozen=True)
class RunDirectory:
    """A directory that one command fills; files wait in ``aside`` until :meth:`finish`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "run") as run:
    ...     run.start({"seed": 0})
    ...     run.write_text("summary.md", "done")
    ...     run.finish()
    ...     sorted(path.name for path in run.path.glob("[a-z]*"))
    ['environment.json', 'summary.md']
    """

    path: Path
    aside: Path

    def start(self, environment: dict[str, Any]) -> None:
        """Write what marks the directory as a run."""
        self.write_json(MARKER, environment)

    def file(self, name: str) -> Path:
        """Where to write one of this run's files."""
        return self.aside / name

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file."""
        self.write_text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """A text file."""
        data = text.encode("utf-8", "backslashreplace")
        atomic_write(self.file(name), lambda stream: _write(stream, data))

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """A CSV file."""
        write_table(frame, self.file(name))

    def figure(self, name: str) -> Path:
        """Where to write the picture ``name``; its PDF and CSV go beside it."""
        (self.aside / "figures").mkdir(exist_ok=True)
        return self.file(f"figures/{name}.png")

    def finish(self) -> None:
        """Move all files into place, the marker first, and remove what an earlier run left."""
        names = [p.relative_to(self.aside) for p in self.aside.rglob("*") if p.is_file()]
        with _explained(self.path):
            for name in sorted(names, key=lambda name: (name != Path(MARKER), name)):
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.aside / name, self.path / name)
            for pattern in OWN:
                for old in set(self.path.glob(pattern)) - {self.path / name for name in names}:
                    old.unlink()
        with suppress(OSError):  # a folder with files of the user stays
            (self.path / "figures").rmdir()


@contextmanager
def opened(path: Path, *, overwrite: bool = False) -> Iterator[RunDirectory]:
    """A run directory to fill; nothing appears in it, and no new folder stays, unless it is finished.

    Parameters
    ----------
    path : must not exist or be empty, or hold an earlier run with ``overwrite``.

    Raises
    ------
    OutputError
        When the directory holds something else, or cannot be made.
    """
    _check(path, overwrite)
    created = [p for p in (path, *path.parents) if not p.exists()]
    aside = path / f"{ASIDE}{secrets.token_hex(8)}.tmp"
    lock: int | None = None
    try:
        with _explained(path):
            aside.mkdir(parents=True)
            lock = _locked(aside)
        _remove_abandoned(path, aside)
        yield RunDirectory(path, aside)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        for folder in created:
            with suppress(OSError):  # not empty: it was finished
                folder.rmdir()


def _locked(folder: Path) -> int:
    """A folder that is open and locked, which tells other runs that its owner is alive."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_abandoned(path: Path, own: Path) -> None:
    """Delete what waits of runs that were killed: folders that nobody has locked, but for new ones."""
    for left in set(path.glob(f"{ASIDE}*.tmp")) - {own}:
        with suppress(OSError):
            lock = _locked(left)
            if time.time() - os.fstat(lock).st_mtime > LOCKING:
                shutil.rmtree(left)
            os.close(lock)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}.") from error


def _check(path: Path, overwrite: bool) -> None:
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write {path}: it is not a directory.")
    if not path.is_dir() or all(p.name.startswith(ASIDE) for p in path.iterdir()):
        return
    if not (path / MARKER).is_file():
        raise OutputError(f"cannot write {path}: it holds files that are not of a psimil run. Name another.")
    if not overwrite:
        raise OutputError(f"cannot write {path}: a run is there already. Name another or add --overwrite.")


def _write(stream: Any, data: bytes) -> None:
    stream.write(data)
