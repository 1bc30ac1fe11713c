"""Predictions of one scan as a DICOM Structured Report (TID 1500): not verified, for research use only.

The report holds the UIDs of study, series and slices, without which it could not refer to them, and nothing else of the
source files, unless the scan is given an identity: the patient's name and id are empty. Numbers are stored twice, as
decimal strings of at most 16 characters and as double precision values (FloatingPointValue), read back exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.ct.report.filing import object_facts, quiet, write_object
from psimil.ct.report.report_content import (
    CALL,
    COLUMNS,
    NUMBERS,
    OBSTACLE,
    OBSTACLES,
    PRESENT,
    REASONS,
    REFERRAL,
    evidence,
    measurement_report,
)
from psimil.ct.report.reported_scan import ReportedScan
from psimil.ct.scans.purpose import SCHEME, Code
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile
from psimil.foundations.extras import needed

if TYPE_CHECKING:
    import pandas as pd
    from highdicom.sr import Comprehensive3DSR


def write_report(path: str | Path, scan: ReportedScan, *, when: datetime, burned_in: bool = False) -> None:
    """Write a DICOM Structured Report (Comprehensive 3D SR, TID 1500); the same arguments give the same bytes.

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
    >>> from psimil.ct.scans.scan import Source
    >>> slices = (Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3.1", None),)
    >>> scan = ReportedScan("1.2.3", "1.2.4", slices, 0.9, 0.1, (0.6, 1.0), True, [0.8], [0.2], [True])
    >>> write_report("report.dcm", scan, when=datetime(2026, 1, 1))
    >>> read_report("report.dcm")["prob"].tolist()
    [0.9, 0.8]
    """
    if not isinstance(scan, ReportedScan):
        raise InputError(f"scan must be a ReportedScan, got {type(scan).__name__}.")
    write_object(path, scan, lambda: _report(scan), "report", when=when, burned_in=burned_in)


def read_report(path: str | Path) -> pd.DataFrame:
    """Numbers of a report that was written here: one row for the scan, then one per slice.

    Parameters
    ----------
    path : DICOM file.

    Returns
    -------
    frame : columns level ("scan" or "slice"), number, sop_instance_uid, frame (0 when the file has one), prob, std,
        low, high (nan for slices), novelty (nan where it is not known), called, reason (of the referral, "" when the
        scan is not referred, None for slices and where the report does not say), and obstacle (why the scan could not
        be analysed, "" when it was).

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
    with needed("structured reports need pydicom", "ct"):
        from pydicom import dcmread
    with quiet("pydicom"):
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
    """One measurement group as a row; the scan's comes first."""
    items = {_key(item): item for item in group.ContentSequence}
    slice_ = items["112039"].TextValue != "scan"  # Tracking Identifier
    source = items["121112"].ReferencedSOPSequence[0] if slice_ else None  # Source of Measurement
    row: dict[str, Any] = {"level": "slice" if slice_ else "scan", "number": number}
    row["sop_instance_uid"] = "" if source is None else str(source.ReferencedSOPInstanceUID)
    row["frame"] = 0 if source is None else int(source.get("ReferencedFrameNumber") or 0)
    for column, (code, _, _) in NUMBERS.items():
        row[column] = float(items[code].MeasuredValueSequence[0].FloatingPointValue) if code in items else np.nan
    row["called"] = CALL.value in items and _value(items[CALL.value]) == PRESENT.value
    row["reason"] = _word_of(REASONS, items.get(REFERRAL.value))
    row["obstacle"] = _word_of(OBSTACLES, items.get(OBSTACLE.value)) or ""
    return row


def _word_of(codes: Mapping[str, Code], item: Any) -> str | None:
    """The word whose code an item has."""
    return None if item is None else next(word for word, code in codes.items() if code.value == _value(item))


def _value(item: Any) -> str:
    return str(item.ConceptCodeSequence[0].CodeValue)


def _key(item: Any) -> str:
    """The code of an item's name, or of how it is derived from what the name says, as a standard deviation is."""
    inner = [part for part in item.get("ContentSequence", ()) if _code(part) == "121401"]  # Derivation
    return _value(inner[0]) if inner else _code(item)


def _code(item: Any) -> str:
    return str(item.ConceptNameCodeSequence[0].CodeValue)


def _report(scan: ReportedScan) -> Comprehensive3DSR:
    """The report as a data set."""
    from highdicom import ContentQualificationValues, sr
    from highdicom.coding_schemes import CodingSchemeIdentificationItem

    return sr.Comprehensive3DSR(
        evidence=evidence(scan.study_uid, scan.series_uid, scan.sources),
        content=measurement_report(scan)[0],
        content_qualification=ContentQualificationValues.RESEARCH,
        coding_schemes=[CodingSchemeIdentificationItem(SCHEME, "Codes of psimil")],
        performed_procedure_codes=[sr.CodedConcept(*scan.purpose.procedure)],
        is_complete=True,
        is_final=False,
        is_verified=False,
        **object_facts(scan, "report", 900),
    )
