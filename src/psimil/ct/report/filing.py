"""What all DICOM objects share that are written about a scan: equipment, dates, patient and study, the file itself."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.ct.report.report_content import check_references
from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed
from psimil.version import VERSION

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

    from psimil.ct.report.reported_scan import ReportedScan

IDENTITY = (
    "PatientName", "PatientID", "IssuerOfPatientID", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID",
    "StudyDate", "StudyTime", "StudyDescription", "ReferringPhysicianName",
)  # fmt: skip
SERIES = "psimil {}, research use only"
PATIENT = ("PatientID", "PatientName", "PatientBirthDate")  # must agree over the slices of a scan
FILTERS = threading.RLock()  # the filters of warnings belong to the whole process


def read_identity(files: Iterable[str | Path]) -> dict[str, str]:
    """Elements of patient and study of the DICOM files of a scan by keyword, for objects that are filed beside them.

    They say who the patient is: ask for them where the objects go back to the archive the files came from.

    Raises
    ------
    InputError
        When a file cannot be read, or the files are of several patients.

    Examples
    --------
    >>> read_identity(["no-such-file"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: patient and study of the scan cannot be read.
    """
    with quiet("pydicom"):
        try:
            from pydicom import dcmread

            headers = [dcmread(as_path(path), stop_before_pixels=True, specific_tags=list(IDENTITY)) for path in files]
            identities = [
                {word: str(header.get(word) or "") for word in IDENTITY if word in header} for header in headers
            ]
        except Exception:  # a damaged file fails in many ways, and its values are not quoted
            raise InputError("patient and study of the scan cannot be read.") from None
    if len({tuple(one.get(word, "") for word in PATIENT) for one in identities}) > 1:
        raise InputError("the slices of the scan name several patients; no report is written.")
    return identities[0]


def object_facts(scan: ReportedScan, kind: str, series_number: int) -> dict[str, Any]:
    """UIDs, numbers and equipment of a DICOM object about a scan, as highdicom takes them; one object per kind."""
    return {
        "series_instance_uid": scan.uid(f"{kind} series"),
        "series_number": series_number,
        "sop_instance_uid": scan.uid(kind),
        "instance_number": 1,
        "manufacturer": "psimil",
        "manufacturer_model_name": "psimil",
        "software_versions": VERSION,
    }


def write_object(
    path: str | Path, scan: ReportedScan, make: Callable[[], Dataset], words: str, *, when: datetime, burned_in: bool
) -> None:
    """Write what ``make`` returns, with the dates of ``when`` and the scan's identity, if it has one.

    Its series is described by ``words``, so that a reader of the archive can tell one from another.

    Raises
    ------
    InputError
        When highdicom is missing, text is burned into the images, or the scan cannot be referred to.
    """
    if burned_in:
        raise InputError("the images may have names burned into the pixels (BurnedInAnnotation); no report is written.")
    with needed("structured reports need highdicom", "ct"):
        import highdicom  # noqa: F401  asked for here, used where the object is made
        from pydicom import dcmwrite
    scan.rows()
    check_references(scan.study_uid, scan.series_uid, scan.sources)
    with quiet("highdicom"), quiet("pydicom"):
        dataset: Any = make()
        dataset.ContentDate = dataset.InstanceCreationDate = when.date()
        dataset.ContentTime = dataset.InstanceCreationTime = when.time()
        if "TimeOfSecondaryCapture" in dataset:
            dataset.DateOfSecondaryCapture, dataset.TimeOfSecondaryCapture = when.date(), when.time()
        for equipment in dataset.get("ContributingEquipmentSequence", ()):
            equipment.ContributionDateTime = when  # not the time of writing
        dataset.SeriesDescription = SERIES.format(words)
        dataset.SpecificCharacterSet = "ISO_IR 192"  # also the name of a finding may need it
        for keyword, value in scan.identity.items():
            setattr(dataset, keyword, value)
        atomic_write(as_path(path), lambda stream: dcmwrite(stream, dataset, enforce_file_format=True))


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """A library without its voice: its warnings and log records quote UIDs and other values of headers.

    Examples
    --------
    >>> with quiet("pydicom"):
    ...     logging.getLogger("pydicom").isEnabledFor(logging.CRITICAL)
    False
    """
    logger = logging.getLogger(library)
    with FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)
