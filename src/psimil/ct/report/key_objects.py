"""The slices that are called positive as a DICOM key object selection, and pictures of a scan as captures."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.ct.report.filing import object_facts, write_object
from psimil.ct.report.report_content import RESEARCH, evidence, observer
from psimil.ct.report.reported_scan import ReportedScan


class Capture(NamedTuple):
    """What a kind of picture is called in an archive: number and description of its series."""

    number: int
    words: str


CAPTURES = {"strip": Capture(902, "strip of slices"), "heat": Capture(903, "heat maps")}

if TYPE_CHECKING:
    from highdicom.sc import SCImage
    from pydicom.dataset import Dataset


def write_key_objects(path: str | Path, scan: ReportedScan, *, when: datetime, burned_in: bool = False) -> bool:
    """Write a key object selection (TID 2010, "Of Interest") of the slices that are called positive.

    Parameters
    ----------
    path : file to create or replace.
    scan : whose slices; see :func:`psimil.ct.write_report` for the other parameters.

    Returns
    -------
    written : False, and there is no file, when no slice is called positive.

    Examples
    --------
    >>> from psimil.ct.scans.scan import Source
    >>> slices = (Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3.1", None),)
    >>> scan = ReportedScan("1.2.3", "1.2.4", slices, 0.1, 0.1, (0.0, 0.2), False, [0.1], [0.1], [False])
    >>> write_key_objects("keys.dcm", scan, when=datetime(2026, 1, 1))
    False
    """
    if not scan.called_sources():
        return False
    write_object(path, scan, lambda: _selection(scan), "key slices", when=when, burned_in=burned_in)
    return True


def _selection(scan: ReportedScan) -> Dataset:
    from highdicom import ko
    from pydicom.sr.codedict import codes

    called = scan.called_sources()
    images = evidence(scan.study_uid, scan.series_uid, called)
    for image in images:
        image.Rows = image.Columns = 1  # so that highdicom refers to an image; nothing of it is written
    call = "called positive" if scan.called else "not called positive"
    words = f"{len(called)} of {len(scan.sources)} slices reach the slice threshold for {scan.purpose.finding.meaning}"
    content = ko.KeyObjectSelection(
        codes.DCM.OfInterest,
        images,
        observer_device_context=observer(),
        description=f"{words}; the scan is {call}. {RESEARCH}",
    )
    document = ko.KeyObjectSelectionDocument(evidence=images, content=content, **object_facts(scan, "keys", 901))
    for item in document.ContentSequence:
        if reference := item.get("ReferencedSOPSequence"):
            del item.ConceptNameCodeSequence  # the template forbids a purpose of reference
            uid = reference[0].ReferencedSOPInstanceUID
            frames = [one.frame for one in called if one.sop_instance_uid == uid and one.frame is not None]
            if frames:
                reference[0].ReferencedFrameNumber = frames
    return document


def write_capture(
    path: str | Path,
    scan: ReportedScan,
    pixels: NDArray[np.uint8],
    what: str = "strip",
    *,
    when: datetime,
    burned_in: bool = False,
) -> None:
    """Write a picture of a scan's slices and what the model says of them as a secondary capture.

    Parameters
    ----------
    path : file to create or replace.
    scan : that the picture shows.
    pixels : (rows, columns, 3) red, green and blue.
    what : "strip", or "heat" for a sheet of heat maps; each is a series of its own.
    """
    write_object(path, scan, lambda: _capture(scan, pixels, what), CAPTURES[what].words, when=when, burned_in=burned_in)


def _capture(scan: ReportedScan, pixels: NDArray[np.uint8], what: str) -> SCImage:
    from highdicom.sc import ConversionTypeValues, SCImage

    facts = object_facts(scan, what, CAPTURES[what].number)
    shown = hashlib.sha256(pixels.tobytes()).hexdigest()  # with known labels or other ids it is another object
    image = SCImage(
        np.ascontiguousarray(pixels),
        "RGB",
        8,
        "PATIENT",
        study_instance_uid=scan.study_uid,
        patient_orientation=("L", "P"),
        **facts | {"sop_instance_uid": scan.uid(f"{what} {shown}")},
    )
    image.ConversionType = ConversionTypeValues.WSD.value
    image.PatientOrientation, image.Laterality = [], ""  # it shows many slices and a curve
    image.ImageType, image.BurnedInAnnotation = ["DERIVED", "SECONDARY"], "NO"
    image.DerivationDescription = RESEARCH
    return image
