"""Labels of scans: a plain CSV file, or the published files of RSNA 2019 and CQ500 as they are."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from psimil.files.paths import as_path
from psimil.foundations.errors import DataWarning, InputError, MissingFile

SCAN_COLUMNS = ("scan", "scan_id", "id", "study", "name")
LABEL_COLUMN = "label"
SUBTYPES = ("epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural", "any")
READERS = ("R1:ICH", "R2:ICH", "R3:ICH")
CQ500_NAME = re.compile(r"CQ500[-_ ]?CT[-_ ]?0*(\d+)", re.IGNORECASE)
BINARY = {"0": 0, "0.0": 0, "1": 1, "1.0": 1}
GZIP_MAGIC = b"\x1f\x8b"
Row = tuple[int, dict[str, str]]  # number of a line below the header, and its cells


@dataclass(frozen=True)
class ScanNames:
    """What a scan may be called in a file of labels.

    Parameters
    ----------
    names : study UID, series UID, folder name, opaque id.
    slices : SOP instance UIDs of its slices.

    Examples
    --------
    >>> ScanNames(("1.2.3", "folder")).slices
    ()
    """

    names: tuple[str, ...]
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScanLabels:
    """Labels as a file gives them, to be matched with the scans of a folder.

    Parameters
    ----------
    kind : "scans" for a plain CSV file, "rsna" or "cq500".
    scan_labels : 0 or 1 by scan, under the names of the file.
    slice_labels : 0 or 1 by SOP instance UID, for "rsna".

    Examples
    --------
    >>> labels = ScanLabels("scans", {"a": 1, "b": 0})
    >>> labels.match({"x": ScanNames(("1.2.3", "a")), "y": ScanNames(("1.2.4", "b"))})
    {'x': 1, 'y': 0}
    """

    kind: str
    scan_labels: dict[str, int] = field(default_factory=dict, repr=False)
    slice_labels: dict[str, int] = field(default_factory=dict, repr=False)

    def named(self, names: Iterable[str]) -> int | None:
        """Label of the scan that has one of the names, None when the file has none of them.

        Examples
        --------
        >>> labels = ScanLabels("cq500", {"CQ500-CT-7": 1})
        >>> labels.named(["1.2.3", "CQ500CT7 CQ500CT7"]), labels.named(["CQ500CT70 CQ500CT70"])
        (1, None)
        """
        found = set()
        for name in names:
            plain = name.strip(" \0")
            if self.kind == "cq500" and (match := CQ500_NAME.search(plain)):
                plain = f"CQ500-CT-{match[1]}"
            if plain in self.scan_labels:
                found.add(self.scan_labels[plain])
        if len(found) > 1:
            raise InputError("the file of labels gives one scan two labels, under two of its names; keep one of them.")
        return found.pop() if found else None

    def scan_label(self, slice_ids: Iterable[str]) -> int | None:
        """Label of a scan from those of its slices: 1 when one is 1, 0 when all are 0, None when that is not known.

        Examples
        --------
        >>> labels = ScanLabels("rsna", slice_labels={"ID_a": 0, "ID_b": 1})
        >>> labels.scan_label(["ID_a", "ID_b"]), labels.scan_label(["ID_a"]), labels.scan_label(["ID_a", "ID_c"])
        (1, 0, None)
        """
        found = [self.slice_labels.get(slice_id.strip(" \0")) for slice_id in slice_ids]
        if 1 in found:
            return 1
        return None if None in found or not found else 0

    def match(self, scans: Mapping[str, ScanNames]) -> dict[str, int]:
        """Labels of the scans that have one; a warning tells how many have none.

        Parameters
        ----------
        scans : what each scan may be called, by id.

        Returns
        -------
        labels : 0 or 1 by id, in the order of ``scans``.

        Raises
        ------
        InputError
            When no scan has a label, or one has two.
        """
        found = {}
        for scan, called in scans.items():
            label = self.named(called.names)
            if label is None and self.slice_labels:
                label = self.scan_label(called.slices)
            if label is not None:
                found[scan] = label
        if not found:
            rule = {
                "rsna": "ID_ and the SOP instance UID of a slice",
                "cq500": "CQ500-CT- and a number, with folders such as CQ500CT7",
            }.get(self.kind, "study or series UIDs, folder names, or ids as psimil ct index shows them")
            raise InputError(f"no label matches any of the {len(scans)} scans; scans are matched by {rule}.")
        if len(found) < len(scans):
            words = f"{len(scans) - len(found)} of {len(scans)} scans have no label and are left out."
            warnings.warn(words, DataWarning, stacklevel=2)
        return found


def read_scan_labels(path: str | Path) -> ScanLabels:
    r"""Read the labels of scans.

    Parameters
    ----------
    path : CSV file, plain or gzipped. Either with the columns scan (or scan_id, id, study, name) and label; or
        ``stage_2_train.csv`` of RSNA 2019, with ID and Label, six rows per slice; or ``reads.csv`` of CQ500, in which
        the majority of three readers decides whether there is a hemorrhage.

    Returns
    -------
    labels : ScanLabels.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When a column is missing, a label is not 0 or 1, or one scan has two labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "scans.csv"
    ...     _ = path.write_text("scan,label\n1.2.3,1\n1.2.4,0\n")
    ...     read_scan_labels(path).scan_labels
    {'1.2.3': 1, '1.2.4': 0}
    """
    path = as_path(path)
    with _opened(path) as stream:
        rows = csv.reader(stream, strict=True)
        header = [cell.strip() for cell in next(rows, [])]
        lower = [cell.lower() for cell in header]
        if set(READERS) & set(header):
            _require(header, ("name", *READERS), path.name)
            return _filled(ScanLabels("cq500"), _cq500(_cells(rows, header, path.name), path.name), path.name)
        column = next((name for name in SCAN_COLUMNS if name in lower), None)
        if column is None or LABEL_COLUMN not in lower:
            raise InputError(f'{path.name} needs the columns "scan" and "label", one row per scan.')
        return _plain_or_rsna(_cells(rows, lower, path.name), column, path.name)


def digest(path: str | Path) -> str:
    """What tells one file of labels from another: the start of its SHA-256.

    Raises
    ------
    MissingFile
        When there is no such file.
    """
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:
        raise MissingFile(f"{Path(path).name} was not found. Check its name.") from None


def _plain_or_rsna(rows: Iterator[Row], column: str, name: str) -> ScanLabels:
    first = next(rows, None)
    if first is None:
        raise InputError(f"{name} has no rows: 0 scans.")
    is_rsna = first[1][column].rpartition("_")[2] in SUBTYPES

    def entries() -> Iterator[tuple[int, str, int]]:
        for number, cells in _chain(first, rows):
            scan, label = cells[column], _binary(cells[LABEL_COLUMN], number, name)
            if is_rsna:
                scan, _, subtype = scan.rpartition("_")
                if subtype not in SUBTYPES:
                    raise InputError(f"{name}: the ID in row {number} does not end with a kind such as _any.")
                if subtype != "any":
                    continue
            yield number, scan, label

    return _filled(ScanLabels("rsna" if is_rsna else "scans"), entries(), name)


def _chain(first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rows


def _cq500(rows: Iterator[Row], name: str) -> Iterator[tuple[int, str, int]]:
    for number, cells in rows:
        match = CQ500_NAME.fullmatch(cells["name"])
        if match is None:
            raise InputError(f"{name}: the name in row {number} is not of the form CQ500-CT-7.")
        votes = sum(_binary(cells[reader], number, name) for reader in READERS)
        yield number, f"CQ500-CT-{match[1]}", int(votes >= 2)


def _filled(labels: ScanLabels, entries: Iterable[tuple[int, str, int]], name: str) -> ScanLabels:
    """The labels with all entries; a repeated one must agree with the first."""
    target = labels.slice_labels if labels.kind == "rsna" else labels.scan_labels
    for number, scan, label in entries:
        if not scan:
            raise InputError(f"{name}: row {number} names no scan.")
        if target.setdefault(scan, label) != label:
            raise InputError(f"{name}: row {number} gives a scan another label than a row above; keep one of them.")
    if not target:
        raise InputError(f"{name} has no rows with labels.")
    return labels


def _cells(rows: Iterator[list[str]], header: list[str], name: str) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        if not any(row):
            continue  # an empty line
        if len(row) != len(header):
            raise InputError(f"{name}: row {number} has {len(row)} cells, the header has {len(header)}.")
        yield number, {column: cell.strip() for column, cell in zip(header, row, strict=True)}


def _binary(cell: str, number: int, name: str) -> int:
    if cell not in BINARY:
        shown = cell if re.fullmatch(r"-?[0-9.]{1,8}", cell) else "empty" if not cell else "not a number"
        raise InputError(f"{name}: the label in row {number} is {shown}; it must be 0 or 1.")
    return BINARY[cell]


def _require(header: list[str], columns: Iterable[str], name: str) -> None:
    for column in columns:
        if column not in header:
            raise InputError(f'{name} has no column "{column}", which the reads of CQ500 have.')


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """The text of a file; whatever is wrong with it as a table becomes one line."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == GZIP_MAGIC
        opener = gzip.open if zipped else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            yield stream
    except FileNotFoundError:
        raise MissingFile(f"{path.name} was not found. Check the path.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name} cannot be read: {error.__class__.__name__}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read as CSV: {error.__class__.__name__}.") from error
