"""Predictions of one scan as a DICOM Structured Report (TID 1500): not verified, for research use only.

The report holds the UIDs of study, series and slices, without which it could not refer to them, and nothing else
of the source files: the patient's name and id are empty. Numbers are stored twice, as decimal strings of at most
16 characters and as double precision values (FloatingPointValue), which are read back exactly.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from psimil.ct.report.report_content import (
    CALL,
    NUMBERS,
    PRESENT,
    REASONS,
    REFERRAL,
    SCHEME,
    check_references,
    evidence,
    measurement_report,
    uid_of,
)
from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile
from psimil.foundations.extras import install_command
from psimil.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from highdicom.sr import ComprehensiveSR

    from psimil.ct.scans.scan import Source

COLUMNS = ("level", "number", "sop_instance_uid", "frame", *NUMBERS, "called", "reason")
FILTERS = threading.RLock()  # the filters of warnings belong to the whole process


@dataclass(frozen=True, eq=False)
class ReportedScan:
    """What a report says about a scan of S slices.

    Parameters
    ----------
    study_uid, series_uid : of the source.
    sources : S slices, in order.
    prob, std : probability of a hemorrhage in the scan, and its standard deviation.
    interval : lower and upper end of the interval of the probability.
    called : the scan is called positive.
    slice_prob, slice_std : (S,) the same for the slices.
    slice_called : (S,) the slices that are called positive.
    thresholds : probabilities from which on the scan and a slice are called positive; the report says them when given.
    novelty, slice_novelty : how unlike the training data the scan and its slices (S,) are; None where it is not known.
    reason : why the scan is referred to a reader, as in the tables, "" when it is not; None says nothing.
    words : the same in a sentence, for the comment.

    Examples
    --------
    >>> from psimil.ct.scans.scan import Source
    >>> slices = (Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3.1", None),)
    >>> scan = ReportedScan("1.2.3", "1.2.4", slices, 0.9, 0.1, (0.6, 1.0), True, [0.8], [0.2], [True])
    >>> [(row["level"], row["prob"]) for row in scan.rows()]
    [('scan', 0.9), ('slice', 0.8)]
    """

    study_uid: str = field(repr=False)
    series_uid: str = field(repr=False)
    sources: tuple[Source, ...] = field(repr=False)
    prob: float
    std: float
    interval: tuple[float, float]
    called: bool
    slice_prob: ArrayLike
    slice_std: ArrayLike
    slice_called: ArrayLike
    thresholds: tuple[float, float] | None = None
    novelty: float | None = None
    slice_novelty: ArrayLike | None = None
    reason: str | None = None
    words: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """The scan and then its slices, as the rows that :func:`read_report` gives back.

        Raises
        ------
        InputError
            When there are no slices to refer to, numbers are missing or not finite, or the reason is unknown.
        """
        count = len(self.sources)
        if count == 0:
            raise InputError("a report refers to slices of DICOM files, and this scan has none.")
        low, high = (float(end) for end in self.interval)
        if self.reason is not None and self.reason not in REASONS:
            raise InputError(f"the reason of a referral must be one of {list(REASONS)}, got {self.reason!r}.")
        whole = np.nan if self.novelty is None else float(self.novelty)
        first = ("scan", 0, "", 0, float(self.prob), float(self.std), low, high, whole, bool(self.called), self.reason)
        table: list[dict[str, Any]] = [dict(zip(COLUMNS, first, strict=True))]
        unknown = np.full(count, np.nan) if self.slice_novelty is None else self.slice_novelty
        given = (self.slice_prob, self.slice_std, unknown, self.slice_called)
        columns = [np.asarray(column) for column in given]
        if any(column.shape != (count,) for column in columns):
            raise InputError(f"a report of {count} slices needs as many probabilities, deviations and calls.")
        for number, (source, prob, std, novelty, called) in enumerate(zip(self.sources, *columns, strict=True), 1):
            row = ("slice", number, source.sop_instance_uid, source.frame or 0, float(prob), float(std))
            table.append(dict(zip(COLUMNS, (*row, np.nan, np.nan, float(novelty), bool(called), None), strict=True)))
        needed = [value for row in table for value in (row["prob"], row["std"])] + [low, high]
        needed += [] if self.novelty is None else [whole]
        needed += [] if self.slice_novelty is None else [row["novelty"] for row in table[1:]]
        if not np.isfinite(needed).all():
            raise InputError("a report needs finite numbers.")
        return table


def write_report(path: str | Path, scan: ReportedScan, *, when: datetime, burned_in: bool = False) -> None:
    """Write a DICOM Structured Report; the same arguments give the same bytes.

    Parameters
    ----------
    path : file to create or replace; a report that cannot be written leaves it as it was.
    scan : what to report.
    when : date and time of the content, which the standard demands.
    burned_in : the source images have text in their pixels (BurnedInAnnotation); they are refused.

    Raises
    ------
    InputError
        When text is burned into the images, or the scan cannot be reported.

    Examples
    --------
    >>> import tempfile
    >>> from psimil.ct.scans.scan import Source
    >>> slices = (Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3.1", None),)
    >>> scan = ReportedScan("1.2.3", "1.2.4", slices, 0.9, 0.1, (0.6, 1.0), True, [0.8], [0.2], [True])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_report(Path(directory) / "report.dcm", scan, when=datetime(2026, 1, 1))
    ...     read_report(Path(directory) / "report.dcm")["prob"].tolist()
    [0.9, 0.8]
    """
    if not isinstance(scan, ReportedScan):
        raise InputError(f"scan must be a ReportedScan, got {type(scan).__name__}.")
    if burned_in:
        raise InputError("the images may have names burned into the pixels (BurnedInAnnotation); no report is written.")
    try:
        import highdicom  # noqa: F401  asked for here, used where the report is made
        from pydicom import dcmwrite
    except ImportError as error:
        raise InputError(f"structured reports need highdicom. Install it with: {install_command('ct')}") from error
    report = _report(scan, when)
    atomic_write(as_path(path), lambda stream: dcmwrite(stream, report, enforce_file_format=True))


def read_report(path: str | Path) -> pd.DataFrame:
    """Numbers of a report that was written here: one row for the scan, then one per slice.

    Parameters
    ----------
    path : DICOM file.

    Returns
    -------
    frame : columns level ("scan" or "slice"), number, sop_instance_uid, frame (0 when the file has one), prob, std,
        low, high (nan for slices), novelty (nan where it is not known), called, and reason (of the referral, "" when
        the scan is not referred, None for slices and where the report does not say).

    Raises
    ------
    InputError
        When the file is not such a report.

    Examples
    --------
    >>> read_report("no-such-file")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: the report was not found. Check the path.
    """
    import pandas as pd

    path = as_path(path)
    try:
        from pydicom import dcmread
    except ImportError:
        raise InputError(f"structured reports need pydicom. Install it with: {install_command('ct')}") from None
    with _quiet("pydicom"):
        try:
            content = dcmread(path).ContentSequence
            container = next(item for item in content if _code(item) == "126010")  # Imaging Measurements
            rows = [_row(number, group) for number, group in enumerate(container.ContentSequence)]
        except FileNotFoundError:
            raise MissingFile("the report was not found. Check the path.") from None
        except Exception:  # a foreign or damaged file fails in many ways, and its values are not quoted
            raise InputError("the file is not a report of psimil.") from None
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(number: int, group: Any) -> dict[str, Any]:
    """One measurement group as a row; the scan's comes first and refers to no single slice."""
    items = {_code(item): item for item in group.ContentSequence}
    source = items["121112"].ReferencedSOPSequence[0] if "121112" in items else None  # Source of Measurement
    row: dict[str, Any] = {"level": "scan" if source is None else "slice", "number": number}
    row["sop_instance_uid"] = "" if source is None else str(source.ReferencedSOPInstanceUID)
    row["frame"] = 0 if source is None else int(source.get("ReferencedFrameNumber") or 0)
    for column, (code, _, _) in NUMBERS.items():
        row[column] = float(items[code].MeasuredValueSequence[0].FloatingPointValue) if code in items else np.nan
    row["called"] = items[CALL[0]].ConceptCodeSequence[0].CodeValue == PRESENT[0]
    why = items[REFERRAL[0]].ConceptCodeSequence[0].CodeValue if REFERRAL[0] in items else None
    row["reason"] = None if why is None else next(reason for reason, code in REASONS.items() if code[0] == why)
    return row


def _code(item: Any) -> str:
    return str(item.ConceptNameCodeSequence[0].CodeValue)


def _report(scan: ReportedScan, when: datetime) -> ComprehensiveSR:
    """The report as a data set."""
    from highdicom import ContentQualificationValues, sr
    from highdicom.coding_schemes import CodingSchemeIdentificationItem

    from psimil.report.calls import Words, threshold_words

    rows, source = scan.rows(), (scan.study_uid, scan.series_uid, scan.sources)
    thresholds = "" if scan.thresholds is None else threshold_words(*scan.thresholds, Words.of("ct"))
    remark = f"{scan.words} {thresholds}".strip()
    check_references(*source)
    name = f"{VERSION} {when.isoformat()} {scan.study_uid} {scan.series_uid} {rows!r}"
    with _quiet("highdicom"):
        report = sr.ComprehensiveSR(
            evidence=evidence(*source),
            content=measurement_report(rows, scan.sources, name, remark)[0],
            series_instance_uid=uid_of(f"{name} series"),
            series_number=900,
            sop_instance_uid=uid_of(name),
            instance_number=1,
            manufacturer="psimil",
            manufacturer_model_name="psimil",
            software_versions=VERSION,
            series_description="psimil, research use only",
            content_qualification=ContentQualificationValues.RESEARCH,
            content_date=when.date(),
            content_time=when.time(),
            coding_schemes=[CodingSchemeIdentificationItem(SCHEME, "Codes of psimil")],
            is_complete=True,
            is_final=False,
            is_verified=False,
        )
    report.InstanceCreationDate, report.InstanceCreationTime = report.ContentDate, report.ContentTime
    for equipment in report.get("ContributingEquipmentSequence", ()):
        equipment.ContributionDateTime = when  # not the time of day
    return report


@contextmanager
def _quiet(library: str) -> Iterator[None]:
    """A library without its voice: its warnings and log records quote UIDs and other values of headers."""
    logger = logging.getLogger(library)
    with FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)
