"""Content of a structured report: codes, measurement groups, references to the source slices."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.ct.scans.study import CT_CLASSES
from psimil.foundations.errors import InputError
from psimil.predictive.referral import BOTH, KEPT, NEAR, UNLIKE
from psimil.version import VERSION

if TYPE_CHECKING:
    from highdicom.sr import MeasurementReport, MeasurementsAndQualitativeEvaluations
    from pydicom.dataset import Dataset

    from psimil.ct.scans.scan import Source

RESEARCH = "Research use only. Not for diagnosis. Not verified."
SCHEME = "99PSIMIL"
DEVICE = uuid.UUID("0c8f2c55-30a4-5f6e-8d0d-6d1b7a2e94c3")
UID_RULE = re.compile(r"(?=.{3,64}$)(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))+")
FINDING, PROCEDURE = ("1386000", "SCT", "Intracranial hemorrhage"), ("24725-4", "LN", "CT Head")
PRESENT, ABSENT = ("52101004", "SCT", "Present"), ("2667000", "SCT", "Absent")
CALL = ("CALL", SCHEME, "Call of the algorithm")
NUMBERS = {
    "prob": ("PROBABILITY", SCHEME, "Probability of the finding"),
    "std": ("STANDARD_DEV", SCHEME, "Standard deviation of the probability"),
    "low": ("INTERVAL_LOW", SCHEME, "Lower end of the interval of the probability"),
    "high": ("INTERVAL_HIGH", SCHEME, "Upper end of the interval of the probability"),
    "novelty": ("NOVELTY", SCHEME, "How unlike the training data, from 0 to 1; novel above 0.5"),
}
REFERRAL = ("REFERRAL", SCHEME, "Referral to a human reader")
REASONS = {
    KEPT: ("NOT_REFERRED", SCHEME, "Not referred"),
    NEAR: ("NEAR_THRESHOLD", SCHEME, "Refer: near the threshold"),
    UNLIKE: ("UNLIKE_TRAINING", SCHEME, "Refer: unlike the training data"),
    BOTH: ("NEAR_AND_UNLIKE", SCHEME, "Refer: near the threshold and unlike the training data"),
}


def uid_of(name: str) -> str:
    """A UID under 2.25, the same for the same name.

    Examples
    --------
    >>> uid_of("a") == uid_of("a"), uid_of("a") == uid_of("b"), uid_of("a")[:5]
    (True, False, '2.25.')
    """
    return f"2.25.{uuid.uuid5(DEVICE, hashlib.sha256(name.encode()).hexdigest()).int}"


def check_references(study_uid: str, series_uid: str, sources: Iterable[Source]) -> None:
    """Refuse what DICOM could not refer to, without quoting it.

    Examples
    --------
    >>> check_references("1.2.3", "secret", ())
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the UID of the study or series is not valid; ...
    """
    if not (UID_RULE.fullmatch(study_uid) and UID_RULE.fullmatch(series_uid)):
        raise InputError("the UID of the study or series is not valid; a report cannot refer to it.")
    for number, source in enumerate(sources, start=1):
        if source.sop_class_uid not in CT_CLASSES:
            raise InputError(f"slice {number}: it is not a CT image; a report refers to CT images only.")
        if not UID_RULE.fullmatch(source.sop_instance_uid):
            raise InputError(f"slice {number}: its UID is not valid; a report cannot refer to it.")


def evidence(study_uid: str, series_uid: str, sources: Iterable[Source]) -> list[Dataset]:
    """The source files as far as a report refers to them; what could tell who the patient is stays empty.

    Examples
    --------
    >>> from psimil.ct.scans.scan import Source
    >>> len(evidence("1.2.3", "1.2.4", [Source("1.2.840.10008.5.1.4.1.1.2.1", "1.2.5", frame) for frame in (1, 2)]))
    1
    """
    from pydicom.dataset import Dataset

    datasets = []
    for uid, sop_class in {source.sop_instance_uid: source.sop_class_uid for source in sources}.items():
        dataset = Dataset()
        dataset.SOPClassUID, dataset.SOPInstanceUID = sop_class, uid
        dataset.StudyInstanceUID, dataset.SeriesInstanceUID = study_uid, series_uid
        for empty in ("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID",
                      "StudyDate", "StudyTime", "ReferringPhysicianName"):  # fmt: skip
            setattr(dataset, empty, None)
        datasets.append(dataset)
    return datasets


def measurement_report(
    rows: list[dict[str, Any]], sources: tuple[Source, ...], name: str, remark: str = ""
) -> MeasurementReport:
    """TID 1500 with one measurement group (TID 1501) for the scan and one for each slice.

    Parameters
    ----------
    rows : of the scan and then of the slices: number, prob, std, low, high, novelty, called, reason; numbers that are
        not known are nan, and a reason None.
    sources : slices, in order.
    name : what the UIDs are made of.
    remark : said about the scan after the words on research use.

    Examples
    --------
    >>> rows = [{"number": 0, "prob": 0.5, "std": 0.1, "low": 0.4, "high": 0.6, "novelty": 0.2}]
    >>> rows[0] |= {"called": False, "reason": ""}
    >>> len(measurement_report(rows, (), "a").get_image_measurement_groups())
    1
    """
    from highdicom import sr
    from pydicom.sr.codedict import codes

    device = sr.DeviceObserverIdentifyingAttributes(
        uid=f"2.25.{DEVICE.int}", name="psimil", manufacturer_name="psimil", model_name=f"psimil {VERSION}"
    )
    observer = sr.ObserverContext(codes.DCM.Device, device)
    return sr.MeasurementReport(
        observation_context=sr.ObservationContext(observer_device_context=observer),
        procedure_reported=sr.CodedConcept(*PROCEDURE),
        imaging_measurements=[_group(row, sources, uid_of(f"{name} {row['number']}"), remark) for row in rows],
    )


def _group(
    row: dict[str, Any], sources: tuple[Source, ...], uid: str, remark: str
) -> MeasurementsAndQualitativeEvaluations:
    """Numbers and call of the scan or of a slice, and whether the scan is referred, and why."""
    from highdicom import sr
    from pydicom.sr.codedict import codes

    number, images = row["number"], None
    said = {CALL: PRESENT if row["called"] else ABSENT}
    if row["reason"] is not None:
        said[REFERRAL] = REASONS[row["reason"]]
    if number:
        source = sources[number - 1]
        frames = None if source.frame is None else [source.frame]
        images = [sr.SourceImageForMeasurementGroup(source.sop_class_uid, source.sop_instance_uid, frames)]
    group = sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(uid=uid, identifier=f"slice {number}" if number else "scan"),
        finding_type=sr.CodedConcept(*FINDING),
        algorithm_id=sr.AlgorithmIdentification("psimil", VERSION, parameters=[RESEARCH]),
        measurements=[
            sr.Measurement(sr.CodedConcept(*code), row[column], codes.UCUM.NoUnits)
            for column, code in NUMBERS.items()
            if not np.isnan(row[column])
        ],
        qualitative_evaluations=[
            sr.QualitativeEvaluation(sr.CodedConcept(*name), sr.CodedConcept(*value)) for name, value in said.items()
        ],
        source_images=images,
    )
    if not number:
        words = f"{RESEARCH} {remark}".strip()
        comment = sr.TextContentItem(codes.DCM.Comment, words, sr.RelationshipTypeValues.CONTAINS)
        group[0].ContentSequence.append(comment)
    return group
