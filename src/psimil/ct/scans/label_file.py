"""Files of labels of scans and of slices: plain CSV, or the published files of RSNA 2019 and CQ500 as they are."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from psimil.ct.scans.purpose import HEMORRHAGE, UNNAMED, Purpose
from psimil.ct.scans.scan_labels import CQ500_NAME, ScanLabels
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

SCAN_COLUMNS = ("scan", "scan_id", "id", "study", "name")
LABEL_COLUMN, UID_COLUMN = "label", "sop_instance_uid"
SUBTYPES = ("epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural", "any")
READERS = ("R1:ICH", "R2:ICH", "R3:ICH")
BINARY = {"0": 0, "0.0": 0, "1": 1, "1.0": 1}
GZIP_MAGIC = b"\x1f\x8b"
Row = tuple[int, dict[str, str]]  # number of a line below the header, and its cells by column in small letters
Entry = tuple[int, str, int]  # number of a line, the scan or slice that it names, and its label


def read_scan_labels(path: str | Path) -> ScanLabels:
    r"""Read the labels of scans.

    Parameters
    ----------
    path : CSV file, plain or gzipped. Either with the columns scan (or scan_id, id, study, name) and label, which
        may name the finding (``label: Pneumothorax``, or a code, see :meth:`Purpose.read`); or
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
    >>> path = Path("scans.csv")
    >>> _ = path.write_text("scan,label\n1.2.3,1\n1.2.4,0\n")
    >>> read_scan_labels(path).scan_labels
    {'1.2.3': 1, '1.2.4': 0}
    """
    path = as_path(path)
    with _table(path) as (columns, rows, heads):
        if {reader.lower() for reader in READERS} & set(columns):
            votes, places = _agreeing(_cq500(columns, rows, path.name), path.name)
            return ScanLabels("cq500", votes, rows=places, purpose=HEMORRHAGE)
        column = next((name for name in SCAN_COLUMNS if name in columns), None)
        labels = [name for name in columns if name.partition(":")[0].rstrip() == LABEL_COLUMN]
        if column is None or not labels:
            raise InputError(f'{path.name} needs the columns "scan" and "label", one row per scan.')
        if len(labels) > 1:
            raise InputError(f"{path.name} has {len(labels)} columns of labels. Keep one.")
        label = labels[0]
        _, colon, finding = heads[columns.index(label)].partition(":")
        purpose = Purpose.read(finding) if colon else UNNAMED
        if (first := next(rows, None)) is None:
            raise InputError(f"{path.name} has no rows: 0 scans.")
        entries = _plain(chain([first], rows), column, label, path.name)
        if first[1][column].rpartition("_")[2] in SUBTYPES:
            known, places = _agreeing(_rsna(entries, path.name), path.name)
            return ScanLabels("rsna", slice_labels=known, rows=places, purpose=HEMORRHAGE)
        known, places = _agreeing(entries, path.name)
        return ScanLabels("scans", known, rows=places, purpose=purpose)


def read_slice_labels(path: str | Path) -> dict[str, int]:
    r"""Labels of single slices, 0 or 1 by SOP instance UID; they score a model and never train it.

    Parameters
    ----------
    path : CSV file with the columns sop_instance_uid and label, or ``stage_2_train.csv`` of RSNA 2019.

    Raises
    ------
    InputError
        When the columns are not there, or a label is not 0 or 1.

    Examples
    --------
    >>> path = Path("truth.csv")
    >>> _ = path.write_text("sop_instance_uid,label\n1.2.3,1\n")
    >>> read_slice_labels(path)
    {'1.2.3': 1}
    """
    path = as_path(path)
    with _table(path) as (columns, rows, _):
        if not columns:
            raise InputError(f"{path.name} is not a CSV file.")
        if UID_COLUMN in columns:
            if LABEL_COLUMN not in columns:
                raise InputError(f'{path.name} needs the column "{LABEL_COLUMN}" with 0 or 1 in every row.')
            return _agreeing(_plain(rows, UID_COLUMN, LABEL_COLUMN, path.name), path.name)[0]
    if labels := read_scan_labels(path).slice_labels:
        return labels
    raise InputError(f'{path.name} needs the columns "{UID_COLUMN}" and "{LABEL_COLUMN}".')


def _plain(rows: Iterable[Row], column: str, label: str, name: str) -> Iterator[Entry]:
    return ((number, cells[column], _binary(cells[label], number, name)) for number, cells in rows)


def _rsna(entries: Iterable[Entry], name: str) -> Iterator[Entry]:
    for number, slice_and_kind, label in entries:
        slice_id, _, kind = slice_and_kind.rpartition("_")
        if kind not in SUBTYPES:
            raise InputError(f"{name}: the ID in row {number} does not end with a kind such as _any.")
        if kind == "any":
            yield number, slice_id, label


def _cq500(columns: list[str], rows: Iterable[Row], name: str) -> Iterator[Entry]:
    for column in ("name", *READERS):
        if column.lower() not in columns:
            raise InputError(f'{name} has no column "{column}", which the reads of CQ500 have.')
    for number, cells in rows:
        match = CQ500_NAME.fullmatch(cells["name"])
        if match is None:
            raise InputError(f"{name}: the name in row {number} is not of the form CQ500-CT-7.")
        votes = sum(_binary(cells[reader.lower()], number, name) for reader in READERS)
        yield number, f"CQ500-CT-{match[1]}", int(votes >= 2)


def _agreeing(entries: Iterable[Entry], name: str) -> tuple[dict[str, int], dict[str, int]]:
    """Labels by scan or slice, and the rows they stand in; a repeated one must agree with the first."""
    labels: dict[str, int] = {}
    rows: dict[str, int] = {}
    for number, scan, label in entries:
        if not scan:
            raise InputError(f"{name}: row {number} names no scan.")
        rows.setdefault(scan, number)
        if labels.setdefault(scan, label) != label:
            raise InputError(f"{name}: row {number} gives a scan another label than a row above; keep one of them.")
    if not labels:
        raise InputError(f"{name} has no rows with labels.")
    return labels, rows


def _binary(cell: str, number: int, name: str) -> int:
    if cell not in BINARY:
        shown = cell if re.fullmatch(r"-?[0-9.]{1,8}", cell) else "empty" if not cell else "not a number"
        raise InputError(f"{name}: the label in row {number} is {shown}; it must be 0 or 1.")
    return BINARY[cell]


@contextmanager
def _table(path: Path) -> Iterator[tuple[list[str], Iterator[Row], list[str]]]:
    """Columns in small letters, rows, and columns as written, of a CSV file; whatever is wrong becomes one line."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == GZIP_MAGIC
        opener = gzip.open if zipped else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            rows = csv.reader(stream, strict=True)
            heads = [cell.strip() for cell in next(rows, [])]
            columns = [head.lower() for head in heads]
            yield columns, _cells(rows, columns, path.name), heads
    except FileNotFoundError:
        raise MissingFile(f"{path.name} was not found. Check the path.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name} cannot be read: {error.__class__.__name__}.") from error
    except UnicodeDecodeError as error:
        from psimil.data.chunks import not_utf8

        with opener(path, "rb") as lines:
            raise InputError(f"{path.name} cannot be read as CSV: {not_utf8(lines)}.") from error
    except csv.Error as error:
        why = f"quotation marks do not match up to line {rows.line_num}. Close or remove them"
        raise InputError(f"{path.name} cannot be read as CSV: {why}.") from error


def _cells(rows: Iterator[list[str]], columns: list[str], name: str) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        if not any(row):
            continue  # an empty line
        if len(row) != len(columns):
            raise InputError(f"{name}: row {number} has {len(row)} cells, the header has {len(columns)}.")
        yield number, {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
