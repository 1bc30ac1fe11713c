"""What readers said about bags and instances: feedback.csv, and a table of bags that has learned from it."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.data.bagtable import BagTable
from psimil.files.atomic import atomic_write
from psimil.files.csv_table import guarded, quoting, unguarded
from psimil.files.paths import as_path, lock_folder
from psimil.files.rundir import PATIENCE
from psimil.foundations.errors import DataWarning, InputError, MissingFile, OutputError
from psimil.foundations.numbers import is_number
from psimil.results.metrics import UNKNOWN

NAME = "feedback.csv"
COLUMNS = ("bag", "instance", "verdict", "note", "called", "known", "when", "seen")
OF_1_0_0 = COLUMNS[:-1]  # its files say nothing of what was seen
VERDICTS = ("agree", "disagree")
MAX_BYTES = 64 << 20
SAME = 1e-5  # of a value that was kept in single precision between


@dataclass(frozen=True)
class Feedback:
    """What a reader said about one bag, or about one instance of it.

    Parameters
    ----------
    bag : id of the bag.
    instance : its place in the bag, from 0; None when the bag is meant.
    verdict : "agree" or "disagree" with what the model called; None for a note alone.
    note : free text.
    called : 0 or 1, what the model called when the reader saw it.
    when : time in UTC, ISO 8601.
    seen : values of some features of the instance, by which it is known again where rows have moved.

    Examples
    --------
    >>> Feedback("a", 3, "disagree", "artefact", 1, "2026-01-02T03:04:05Z").known
    0
    """

    bag: str
    instance: int | None
    verdict: str | None
    note: str
    called: int
    when: str
    seen: Mapping[str, float] = field(default_factory=dict)

    @property
    def known(self) -> int | None:
        """The label that follows, 0 or 1; None without a verdict."""
        if self.verdict is None:
            return None
        return self.called if self.verdict == "agree" else 1 - self.called

    def verdict_on(self, called: int) -> str | None:
        """The verdict about a call of another model, if the label that the reader gave is kept.

        Examples
        --------
        >>> Feedback("a", None, "agree", "", 0, "").verdict_on(1)
        'disagree'
        """
        return None if self.known is None else VERDICTS[int(self.known != called)]


def read_feedback(path: str | Path) -> tuple[Feedback, ...]:
    """The entries of a feedback file.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When it is not a feedback file, or a value in it breaks a rule; rows are named by number.

    Examples
    --------
    >>> path = Path("feedback.csv")
    >>> write_feedback(path, [Feedback("=a", None, "agree", "", 1, "2026-01-02T03:04:05Z")])
    >>> path.read_text().splitlines()[1], read_feedback(path)[0].bag
    ("'=a,,agree,,1,1,2026-01-02T03:04:05Z,", '=a')
    """
    path = as_path(path)
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise InputError(f"{path.name} cannot be read: it is not a file. Name the file that psimil view wrote.")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingFile(f"{path.name} was not found. Check the path.") from None
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {(error.strerror or '').lower()}. Check it.") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path.name} is above the limit of {MAX_BYTES >> 20} MB. Split it.")
    if not data:
        return ()
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path.name} is not a CSV file in UTF-8. Use the file that psimil view wrote.") from None
    if not rows or tuple(rows[0]) not in (COLUMNS, OF_1_0_0):
        raise InputError(f"{path.name} must have the columns {', '.join(COLUMNS)}. Use the file of psimil view.")
    columns = len(rows[0])
    return tuple(_entry(row, columns, number, path.name) for number, row in enumerate(rows[1:], start=1) if row)


def write_feedback(path: str | Path, entries: Iterable[Feedback]) -> None:
    """Write a feedback file that its owner alone can read, atomically; no cell can be taken for a formula.

    Raises
    ------
    OutputError
        When it cannot be written; an old file is kept.
    """
    path = as_path(path)
    if path.is_symlink():
        raise OutputError(f"cannot write {path.name}: it is a symbolic link. Remove it.")
    text = io.StringIO(newline="")
    rows = [
        (e.bag, e.instance, e.verdict, e.note, e.called, e.known, e.when, json.dumps(dict(e.seen)) if e.seen else "")
        for e in entries
    ]
    table = csv.writer(text, lineterminator="\n", quoting=quoting(chain.from_iterable(rows)))
    table.writerows(list(map(guarded, cells)) for cells in (COLUMNS, *rows))
    data = text.getvalue().encode("utf-8")
    with suppress(OSError):  # atomic_write says what is wrong with the folder
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    atomic_write(path, lambda stream: stream.write(data))


@contextmanager
def writing_alone(directory: Path) -> Iterator[None]:
    """Nobody else writes feedback into a results folder, nor replaces the folder, before the block ends.

    Raises
    ------
    OutputError
        When somebody else writes there for long, or the folder is gone.
    """
    try:
        lock = lock_folder(Path(os.path.realpath(directory)), PATIENCE)
    except OSError as error:
        raise OutputError(f"cannot write {NAME}: its folder cannot be locked. Check that it is there.") from error
    if lock is None:
        raise OutputError(f"cannot write {NAME}: another command is writing to its folder. Try again when it is done.")
    try:
        yield
    finally:
        os.close(lock)


def with_feedback(table: BagTable, entries: Sequence[Feedback], name: str = NAME) -> BagTable:
    """The table with the labels that readers gave: of bags in ``y``, of instances in ``y_instances``.

    A bag with an instance that a reader knows to be positive is positive.

    Parameters
    ----------
    table : with bag labels.
    entries : of :func:`read_feedback`; those without a verdict say nothing here.
    name : of the feedback file, for messages.

    Raises
    ------
    InputError
        When an entry is about a bag or an instance that the table has not, an instance has other features than the
        reader saw, or two entries exclude each other.

    Examples
    --------
    >>> from psimil.model.bags import Bags
    >>> table = BagTable(Bags.from_list([[[0.0], [1.0]], [[2.0]]], ["a", "b"]), np.array([1, 1]), None)
    >>> said = [Feedback("a", 0, "disagree", "", 1, ""), Feedback("b", None, "disagree", "", 1, "")]
    >>> known = with_feedback(table, said)
    >>> known.y.tolist(), known.y_instances.tolist()
    ([1, 0], [0, -1, -1])
    """
    if table.y is None:
        raise InputError(
            "feedback needs a table with bag labels. Name their column with label= of read_bags (--label)."
        )
    place = {str(identifier): number for number, identifier in enumerate(table.bags.names)}
    y = table.y.copy()
    known = np.full(table.bags.n_instances, UNKNOWN) if table.y_instances is None else table.y_instances.copy()
    called_bags: dict[int, int] = {}
    for number, entry in enumerate(entries, start=1):
        if entry.known is None:
            continue
        bag = place.get(entry.bag)
        if bag is None:
            raise InputError(f"row {number} ({name}): its bag is not in the table. Give the table that was predicted.")
        if entry.instance is None:
            y[bag] = called_bags[bag] = entry.known
        elif entry.instance >= table.bags.sizes[bag]:
            raise InputError(
                f"row {number} ({name}): the bag has {table.bags.sizes[bag]} instances, none with number "
                f"{entry.instance}. Give the table that was predicted."
            )
        else:
            row = table.bags.offsets[bag] + entry.instance
            if not _is_what_was_seen(table, int(row), entry.seen):
                raise InputError(
                    f"row {number} ({name}): instance {entry.instance} of its bag has other features than the reader "
                    "saw. Give the table that was predicted, with its rows in their order."
                )
            known[row] = entry.known
    return replace(table, y=_positive_where_known(table, y, known, called_bags, name), y_instances=known)


def _is_what_was_seen(table: BagTable, row: int, seen: Mapping[str, float]) -> bool:
    """Whether an instance has the values that a reader saw, of those features that the table still has."""
    columns = {name: number for number, name in enumerate(table.feature_names)}
    names = [name for name in seen if name in columns]
    values = np.asarray(table.bags.X[row], dtype=np.float64)[[columns[name] for name in names]]
    return np.allclose(values, [seen[name] for name in names], rtol=SAME, atol=0.0)


def _positive_where_known(
    table: BagTable, y: NDArray[Any], known: NDArray[Any], called_bags: dict[int, int], name: str
) -> NDArray[Any]:
    has_positive = np.maximum.reduceat(known, table.bags.offsets[:-1]) == 1
    for bag in np.flatnonzero(has_positive & (y == 0)):
        if called_bags.get(int(bag)) == 0:
            raise InputError(f"{name}: a bag is called negative and one of its instances positive. Remove one of both.")
    changed = int((has_positive & (y == 0)).sum())
    if changed:
        warnings.warn(
            f"{changed} bags labelled negative have an instance that is known to be positive; they count as positive.",
            DataWarning,
            stacklevel=3,
        )
    return np.where(has_positive, 1, y)


def _entry(row: list[str], columns: int, number: int, name: str) -> Feedback:
    """One row; cells are never quoted in messages, they may hold what a reader wrote."""
    if len(row) != columns:
        raise InputError(f"row {number} ({name}): {len(row)} cells, expected {columns}. Mend or remove the row.")
    bag, instance, verdict, note, called, known, when, *rest = map(unguarded, row)
    whole = instance.isascii() and instance.isdecimal() and len(instance) <= 9
    if (instance and not whole) or verdict not in ("", *VERDICTS) or called not in ("0", "1") or not bag:
        raise InputError(f"row {number} ({name}): bag, instance, verdict or called is not valid. Mend or remove it.")
    seen = _seen(rest[0] if rest else "", number, name)
    entry = Feedback(bag, int(instance) if instance else None, verdict or None, note, int(called), when, seen)
    if known != ("" if entry.known is None else str(entry.known)):
        raise InputError(f"row {number} ({name}): known does not follow from called and verdict. Mend or remove it.")
    return entry


def _seen(text: str, number: int, name: str) -> dict[str, float]:
    """Names and values of features in JSON."""
    try:
        values = json.loads(text) if text else {}
        if not isinstance(values, dict) or not all(map(is_number, values.values())):
            raise ValueError(text)
        return {feature: float(value) for feature, value in values.items()}
    except (ValueError, OverflowError, RecursionError):
        raise InputError(f"row {number} ({name}): seen is not valid. Mend or remove it.") from None
