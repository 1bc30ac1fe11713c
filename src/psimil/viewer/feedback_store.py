"""The feedback of one results folder: in memory for the pages, in feedback.csv for good."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path

from psimil.foundations.errors import InputError
from psimil.results.feedback import NAME, Feedback, read_feedback, write_feedback, writing_alone
from psimil.results.result_file import NAME as RESULTS

MAX_ENTRIES = 20_000

Place = tuple[str, int | None]


class FeedbackStore:
    """One entry per bag or instance; a newer one takes the place of an older one.

    Parameters
    ----------
    directory : of the results; feedback.csv is in it.

    Examples
    --------
    >>> store = FeedbackStore(Path())
    >>> store.record(Feedback("a", None, "agree", "clear", 1, "2026-01-02T03:04:05Z"))
    >>> store.of("a", None).note, store.n_notes("a"), store.disagreed("a")
    ('clear', 1, False)
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._shown = _identity(directory)
        self._lock = threading.Lock()
        self._bags = _by_bag(self._stored())

    def record(self, entry: Feedback) -> None:
        """Keep an entry; one without verdict and note takes the earlier one away.

        Raises
        ------
        InputError
            When the file has become unreadable, or is full, or the results have been replaced since the start.
        OutputError
            When it cannot be written.
        """
        with self._lock, writing_alone(self._path.parent):
            if _identity(self._path.parent) != self._shown:
                raise InputError("the results in this folder are others than those shown. Start psimil view again.")
            entries = self._stored()  # another viewer of the same folder may have written since
            entries.pop((entry.bag, entry.instance), None)
            if entry.verdict is not None or entry.note:
                entries[entry.bag, entry.instance] = entry
            if len(entries) > MAX_ENTRIES:
                raise InputError(f"{NAME} has {MAX_ENTRIES} entries, which is the limit. Start a new one.")
            write_feedback(self._path, entries.values())
            self._bags = _by_bag(entries)

    def of(self, bag: str, instance: int | None) -> Feedback | None:
        """The entry about a bag, or about one of its instances."""
        return self._bags.get(bag, {}).get(instance)

    def n_notes(self, bag: str) -> int:
        """Entries with a note, of the bag and of its instances."""
        return sum(bool(entry.note) for entry in self._bags.get(bag, {}).values())

    def disagreed(self, bag: str) -> bool:
        """Whether a reader disagrees about the bag or one of its instances."""
        return any(entry.verdict == "disagree" for entry in self._bags.get(bag, {}).values())

    def _stored(self) -> dict[Place, Feedback]:
        if self._path.is_symlink():
            raise InputError(f"{NAME} is a symbolic link, which is not followed. Put the file in its place.")
        if not self._path.exists():
            return {}
        return {(entry.bag, entry.instance): entry for entry in read_feedback(self._path)}


def _identity(directory: Path) -> tuple[int, ...] | None:
    """What tells the results file in a folder from one that takes its place; None without a file."""
    try:
        status = os.stat(directory / RESULTS)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _by_bag(entries: dict[Place, Feedback]) -> dict[str, dict[int | None, Feedback]]:
    bags: defaultdict[str, dict[int | None, Feedback]] = defaultdict(dict)
    for (bag, instance), entry in entries.items():
        bags[bag][instance] = entry
    return dict(bags)
