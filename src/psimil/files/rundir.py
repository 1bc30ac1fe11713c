"""Run directories: results are written aside and take the place of the whole folder in one step."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from psimil.files.atomic import atomic_write, flush_folder
from psimil.files.csv_table import growing_table, write_table
from psimil.files.paths import exchange, is_folder, lock_folder, take_folder
from psimil.foundations.errors import OutputError

MARKER = "environment.json"  # a directory that holds it is ours; its "files" are those of the run
LONG_WORK = "config.json"  # settings of work that goes on after a kill, see :mod:`psimil.files.workdir`
ASIDE = ".psimil-run-"  # where files wait until all of them are written
PATIENCE = 10.0  # seconds for a viewer to write down what its reader said
BUSY_AT = "another command is writing to {}. Wait until it is done or name another"
BUSY = BUSY_AT.format("it")
OWN = (
    "bags.csv", "config.toml", "history.csv", "instances.csv", "metrics.json", "model.safetensors", "summary.md",
    "folds.csv", "musk1.csv", "figures/*.png", "figures/*.pdf", "figures/*.csv",
    "failures.csv", "scores.csv", "series.csv", "reports/*.dcm", "model/*.safetensors",
    "slides/*.h5", "slides/*.geojson", "slides/*.png", "slides/*.pdf", "slides/*.csv",
    "results.safetensors", "report.html", MARKER,
)  # fmt: skip


class OutputFolder:
    """A folder in which every file appears whole."""

    def file(self, name: str) -> Path:
        """Where to write a file."""
        raise NotImplementedError

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file."""
        self.write_text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """A text file."""
        data = text.encode("utf-8", "backslashreplace")
        atomic_write(self.file(name), lambda stream: stream.write(data))

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """A CSV file."""
        write_table(frame, self.file(name))


@dataclass(frozen=True)
class RunDirectory(OutputFolder):
    """A directory that one command fills; files wait in ``aside`` until :meth:`finish`.

    Examples
    --------
    >>> with opened(Path("run")) as run:
    ...     run.start({"seed": 0})
    ...     run.write_text("summary.md", "done")
    ...     run.finish()
    ...     sorted(path.name for path in run.path.glob("[a-z]*"))
    ['environment.json', 'summary.md']
    """

    path: Path
    aside: Path
    overwrite: bool = False
    own: tuple[str, ...] = OWN

    def start(self, environment: dict[str, Any]) -> None:
        """Write what marks the directory as a run."""
        self.write_json(MARKER, environment)

    def inside(self, name: str) -> RunDirectory:
        """A run in a folder of this one, which comes to its place with it and is not finished by itself."""
        (self.aside / name).mkdir()
        return replace(self, path=self.path / name, aside=self.aside / name)

    def file(self, name: str) -> Path:
        """Where to write one of this run's files."""
        return self.aside / name

    def growing_table(self, name: str) -> AbstractContextManager[Callable[[pd.DataFrame], None]]:
        """A CSV file to which rows are added, see :func:`psimil.files.csv_table.growing_table`."""
        return growing_table(self.file(name))

    def figure(self, name: str) -> Path:
        """Where to write the picture ``name``; its PDF and CSV go beside it."""
        (self.aside / "figures").mkdir(exist_ok=True)
        return self.file(f"figures/{name}.png")

    def finish(self) -> None:
        """Put the run in its place: all files in one step, with those of the user that are there, and no others."""
        names = sorted(p.relative_to(self.aside).as_posix() for p in self.aside.rglob("*") if p.is_file())
        marker = json.loads(self.file(MARKER).read_text(encoding="utf-8"))
        self.write_json(MARKER, marker | {"files": names})
        with explained(self.path):
            if not self.path.is_dir() or not any(self.path.iterdir()):
                _flush(self.aside)
                os.replace(self.aside, self.path)  # refused when something else has come in the meantime
            else:
                self._exchange()
        flush_folder(self.path.parent)

    def _exchange(self) -> None:
        lock = lock_folder(self.path, PATIENCE)
        if lock is None:
            raise OutputError(f"cannot write {self.path}: {BUSY}.")
        try:
            _check(self.path, self.overwrite, self.own)
            _carry_over(self.path, self.aside, self.own)
            _flush(self.aside)
            exchange(self.aside, self.path)
            shutil.rmtree(self.aside, ignore_errors=True)
        finally:
            os.close(lock)


@contextmanager
def opened(
    path: Path, *, overwrite: bool = False, own: Sequence[str] = OWN, inputs: Sequence[Path | None] = ()
) -> Iterator[RunDirectory]:
    """A run directory to fill; nothing appears in it, and no new folder stays, unless it is finished.

    Parameters
    ----------
    path : must not exist or be empty, or hold an earlier run with ``overwrite``.
    own : patterns of files that are no user's, where an earlier run has not listed its own, or beside them where other
        patterns than those of all runs are given.
    inputs : what the command reads, which must not lie in the directory.

    Raises
    ------
    OutputError
        When the directory holds something else or an input, cannot be made, or another process writes to it.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    _check(path, overwrite, own)
    for given in filter(None, inputs):
        if given.resolve().is_relative_to(path.resolve()):
            raise OutputError(f"cannot write {path}: {given.name}, which is read, lies in it. Name another folder.")
    created = [p for p in path.parents if not p.exists()]
    aside = _aside(path)
    lock: int | None = None
    try:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = take_folder(aside)
            if lock is None or _is_busy(path):
                raise OutputError(f"cannot write {path}: {BUSY}.")
            check_around(path)
            if path.is_dir() and any(path.iterdir()):
                _check_exchange(aside, path)
        yield RunDirectory(path, aside, overwrite, tuple(own))
    finally:
        if lock is not None:
            if is_folder(lock, aside):  # else it was finished
                shutil.rmtree(aside, ignore_errors=True)
            os.close(lock)
        for folder in created:
            with suppress(OSError):  # not empty: it was finished
                folder.rmdir()


def check_around(path: Path) -> None:
    """Refuse a folder in or around another one that a command writes to, since runs are replaced as a whole.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "run"):
    ...     check_around(Path(folder) / "other")
    ...     check_around(Path(folder) / "run" / "prediction")
    Traceback (most recent call last):
    psimil.foundations.errors.OutputError: cannot write ...: another command is writing to ...run, in which it lies. ...
    """
    for outer in path.resolve().parents:
        if _is_busy(_aside(outer), 0.0):
            raise OutputError(f"cannot write {path}: {BUSY_AT.format(f'{outer}, in which it lies')}.")
    inside = [*path.rglob(f"{ASIDE}*.tmp"), *(settings.parent for settings in path.rglob(f"*/{LONG_WORK}"))]
    for inner in inside:
        if _is_busy(inner, 0.0):
            raise OutputError(f"cannot write {path}: {BUSY_AT.format('a folder in it')}.")


def _aside(path: Path) -> Path:
    """Where the files of a run wait, beside its folder."""
    return path.parent / f"{ASIDE}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]}.tmp"


def _is_busy(path: Path, wait: float = PATIENCE) -> bool:
    """Whether somebody works in the folder itself."""
    if path.is_symlink() or not path.is_dir():
        return False
    lock = lock_folder(path, wait)
    if lock is not None:
        os.close(lock)
    return lock is None


def _check_exchange(aside: Path, path: Path) -> None:
    """Refuse a file system that cannot exchange folders now, not when the work is done."""
    trial = [aside / name for name in ("old", "new")]
    for folder in trial:
        folder.mkdir()
    try:
        exchange(*trial)
    except OSError:
        raise OutputError(
            f"cannot write {path}: its file system cannot exchange folders. Remove it first or name another."
        ) from None
    for folder in trial:
        folder.rmdir()


def _carry_over(old: Path, new: Path, own: Sequence[str]) -> None:
    """Put what is the user's in an old run into the new one as well: links to files where possible, else copies."""
    shutil.copymode(old, new)
    listed = _listed(old)
    patterns = (f"{ASIDE}*",) if listed and own == OWN else (f"{ASIDE}*", *own)
    ours = {path for pattern in patterns for path in old.glob(pattern)} | set(listed)
    for path in old.rglob("*"):
        target = new / path.relative_to(old)
        if not ours.isdisjoint((path, *path.parents)) or target.exists():
            continue
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                target.mkdir(parents=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(path, target, follow_symlinks=False)


def _listed(old: Path) -> list[Path]:
    """The files that an earlier run says are its own."""
    try:
        names = json.loads((old / MARKER).read_text(encoding="utf-8")).get("files", [])
    except (OSError, ValueError, AttributeError):
        return []
    return [old / name for name in names if isinstance(name, str)]


def _flush(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            flush_folder(path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say of what the system refuses that the folder cannot be written."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}.") from error


def _check(path: Path, overwrite: bool, own: Sequence[str]) -> None:
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write {path}: it is not a directory.")
    if path.is_dir() and (path.is_mount() or Path.cwd().is_relative_to(path.resolve())):
        raise OutputError(f"cannot write {path}: a folder in use cannot be replaced as one. Name a folder inside it.")
    if not path.is_dir() or all(p.name.startswith(ASIDE) for p in path.iterdir()):
        return
    if not (path / MARKER).is_file():
        raise OutputError(f"cannot write {path}: it holds files that are not of a psimil run. Name another.")
    if not overwrite:
        raise OutputError(f"cannot write {path}: a run is there already. Name another or add --overwrite.")
    if (path / LONG_WORK).is_file() and LONG_WORK not in own:
        raise OutputError(f"cannot write {path}: it holds a training or an experiment. Name another folder.")
