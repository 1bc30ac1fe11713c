"""What has become of each study, on disk: nothing that was written is lost by a kill or a power failure."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from psimil.files.paths import lock_folder
from psimil.files.rundir import BUSY, explained
from psimil.foundations.errors import OutputError

FILE = "journal.sqlite"
FOUND, PREDICTED, REPORTED, REFUSED, FAILED = "found", "predicted", "reported", "refused", "failed"


@dataclass(frozen=True)
class Entry:
    """One study.

    Parameters
    ----------
    id : opaque.
    state : found; predicted, with results in its folder; reported to the archive; refused, as it cannot be analysed; or
        failed, as the archive did not answer often enough.
    files : that the archive had at the last look.
    settled : nothing is to be done until that number changes.
    content : hash of the images that the state is about.
    tries : that failed since they were found.
    due : time of the next one, in seconds since 1970.
    reason : of the refusal or the last failure, or why a study that was reported is for a human reader.

    Examples
    --------
    >>> Entry("1a", REFUSED, reason="no axial series.").words
    'study 1a: refused: no axial series.'
    """

    id: str
    state: str = FOUND
    files: int = 0
    settled: bool = False
    content: str = ""
    tries: int = 0
    due: float = 0.0
    reason: str = ""

    @property
    def refer(self) -> bool:
        """Whether a human reader has to look, for the report says so or there is none."""
        return bool(self.reason) and self.state in (REPORTED, REFUSED, FAILED)

    @property
    def words(self) -> str:
        """What has become of the study, in a line."""
        tries = f" (try {self.tries})" if self.tries else ""
        return f"study {self.id}: {self.state}{tries}" + (f": {self.reason}" if self.reason else ".")


@dataclass(frozen=True)
class Journal:
    """Entries of all studies that were ever seen.

    Examples
    --------
    >>> with opened(Path(), "model a") as journal:
    ...     journal.write(Entry("1a", REPORTED))
    >>> with opened(Path(), "model a") as journal:
    ...     journal.entry("1a").state, journal.entry("2b").state
    ('reported', 'found')
    """

    database: sqlite3.Connection

    def entry(self, id_: str) -> Entry:
        """The entry of a study, a new one where there is none."""
        row = self.database.execute("SELECT * FROM studies WHERE id = ?", (id_,)).fetchone()
        return Entry(id_) if row is None else Entry(*row)

    def entries(self) -> list[Entry]:
        """All of them, by id."""
        return [Entry(*row) for row in self.database.execute("SELECT * FROM studies ORDER BY id")]

    def write(self, entry: Entry) -> None:
        """Put an entry in the place of the earlier one; it is on disk when this returns."""
        marks = ", ".join("?" * len(fields(Entry)))
        with self.database:
            self.database.execute(f"INSERT OR REPLACE INTO studies VALUES ({marks})", astuple(entry))


@contextmanager
def opened(folder: Path, model: str) -> Iterator[Journal]:
    """The journal of a folder, which one process at a time has open.

    Parameters
    ----------
    folder : made if need be, for this user alone.
    model : what the reports come from; a folder has those of one model.

    Raises
    ------
    OutputError
        When the folder is in use, holds something else or the reports of another model.
    """
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / FILE).is_file():
            raise OutputError(f"cannot write {folder}: it holds files that are not of a watch. Name another.")
        lock = lock_folder(folder)
    if lock is None:
        raise OutputError(f"cannot write {folder}: {BUSY}.")
    try:
        with closing(sqlite3.connect(folder / FILE)) as database:
            columns = ", ".join(field.name for field in fields(Entry))
            with database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute(f"CREATE TABLE IF NOT EXISTS studies ({columns}, PRIMARY KEY (id))")
                database.execute("CREATE TABLE IF NOT EXISTS models (hash PRIMARY KEY)")
                models = database.execute("SELECT hash FROM models").fetchall() or [(model,)]
                database.execute("INSERT OR IGNORE INTO models VALUES (?)", models[0])
            if models[0] != (model,):
                raise OutputError(f"cannot continue {folder}: its reports are of another model. Name another folder.")
            yield Journal(database)
    except sqlite3.DatabaseError as error:
        raise OutputError(f"cannot use {folder / FILE}: {error}. Name another folder.") from error
    finally:
        os.close(lock)
