"""Content of a structured report: codes, measurement groups, references to the source slices."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.ct.scans.purpose import ANY_CT, SCHEME, Code
from psimil.ct.scans.study import CT_CLASSES
from psimil.foundations.errors import InputError
from psimil.predictive.novelty import NOVEL
from psimil.predictive.referral import BOTH, KEPT, NEAR, UNLIKE, not_analysed
from psimil.version import VERSION

if TYPE_CHECKING:
    from highdicom.sr import Measurement, MeasurementReport, MeasurementsAndQualitativeEvaluations, ObserverContext
    from pydicom.dataset import Dataset

    from psimil.ct.report.reported_scan import ReportedScan
    from psimil.ct.scans.scan import Source

RESEARCH = "Research use only. Not for diagnosis. Not verified."
DEVICE = uuid.UUID("0c8f2c55-30a4-5f6e-8d0d-6d1b7a2e94c3")
UID_RULE = re.compile(r"(?=.{3,64}$)(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))+")
PRESENT, ABSENT = Code("52101004", "SCT", "Present"), Code("2667000", "SCT", "Absent")
CALL = Code("CALL", SCHEME, "Call of the algorithm")
PROBABILITY, DEVIATION = Code("122157", "DCM", "Probability"), Code("386136009", "SCT", "Standard Deviation")
ABOVE = Code("371886008", "SCT", "+, range of upper measurement uncertainty")
BELOW = Code("371885007", "SCT", "-, range of lower measurement uncertainty")
NUMBERS = {
    "prob": PROBABILITY,
    "std": DEVIATION,  # of the probability: its derivation
    "low": Code("INTERVAL_LOW", SCHEME, "Lower end of the interval of the probability"),
    "high": Code("INTERVAL_HIGH", SCHEME, "Upper end of the interval of the probability"),
    "novelty": Code("NOVELTY", SCHEME, "How unlike the training data, from 0 to 1; novel above 0.5"),
}
COLUMNS = ("level", "number", "sop_instance_uid", "frame", *NUMBERS, "called", "reason", "obstacle")
SINGLE, ELSEWHERE, UNREAD = "a single slice", "another body part", "cannot be read"
REFERRAL = Code("REFERRAL", SCHEME, "Referral to a human reader")
REASONS = {
    KEPT: Code("NOT_REFERRED", SCHEME, "Not referred"),
    NEAR: Code("NEAR_THRESHOLD", SCHEME, "Refer: near the threshold"),
    UNLIKE: Code("UNLIKE_TRAINING", SCHEME, "Refer: unlike the training data"),
    BOTH: Code("NEAR_AND_UNLIKE", SCHEME, "Refer: near the threshold and unlike the training data"),
    not_analysed(SINGLE): Code("REFER_SINGLE", SCHEME, f"Refer: {not_analysed(SINGLE)}"),
    not_analysed(ELSEWHERE): Code("REFER_BODY_PART", SCHEME, f"Refer: {not_analysed(ELSEWHERE)}"),
    not_analysed(UNREAD): Code("REFER_UNREADABLE", SCHEME, f"Refer: {not_analysed(UNREAD)}"),
}
OBSTACLE = Code("NOT_ANALYSED", SCHEME, "Why the scan could not be analysed")
OBSTACLES = {  # why a scan could not be analysed, in every output
    SINGLE: Code("SINGLE_SLICE", SCHEME, "A single slice, which is no scan"),
    ELSEWHERE: Code("BODY_PART", SCHEME, "Another body part than in training"),
    UNLIKE: Code("UNLIKE_TRAINING", SCHEME, "Unlike the training data"),
    UNREAD: Code("UNREADABLE", SCHEME, "It cannot be read"),
}
SUMMARY = Code("111017", "DCM", "CAD Processing and Findings Summary")
FAILED = Code("111245", "DCM", "No algorithms succeeded; without findings")
FOUND = Code("111242", "DCM", "All algorithms succeeded; with findings")
NOTHING = Code("111241", "DCM", "All algorithms succeeded; without findings")
REPORTABLE = {("25045-6", "LN"), ("39142-5", "LN")}  # CT procedures of CID 100, from which the template takes its own


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


def observer() -> ObserverContext:
    """The program as the observer of a document."""
    from highdicom import sr
    from pydicom.sr.codedict import codes

    device = sr.DeviceObserverIdentifyingAttributes(
        uid=f"2.25.{DEVICE.int}", name="psimil", manufacturer_name="psimil", model_name=f"psimil {VERSION}"
    )
    return sr.ObserverContext(codes.DCM.Device, device)


def measurement_report(scan: ReportedScan) -> MeasurementReport:
    """TID 1500 with one measurement group (TID 1501) for the scan and one for each slice.

    Examples
    --------
    >>> from psimil.ct.report.reported_scan import ReportedScan
    >>> from psimil.ct.scans.scan import Source
    >>> slices = (Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3.1", None),)
    >>> scan = ReportedScan("1.2.3", "1.2.4", slices, obstacle="a single slice")
    >>> len(measurement_report(scan).get_image_measurement_groups())
    1
    """
    from highdicom import sr

    procedure = scan.purpose.procedure if scan.purpose.procedure[:2] in REPORTABLE else ANY_CT
    return sr.MeasurementReport(
        observation_context=sr.ObservationContext(observer_device_context=observer()),
        procedure_reported=sr.CodedConcept(*procedure),
        imaging_measurements=[_group(scan, row) for row in scan.rows()],
    )


def _group(scan: ReportedScan, row: dict[str, Any]) -> MeasurementsAndQualitativeEvaluations:
    """Numbers and call of the scan or of a slice, and whether the scan is referred, and why."""
    from highdicom import sr
    from pydicom.sr.codedict import codes

    number = row["number"]
    sources = scan.sources[number - 1 : number] if number else scan.sources if scan.obstacle else ()
    files = {source.sop_instance_uid: source for source in sources}.values()
    images = [
        sr.SourceImageForMeasurementGroup(
            one.sop_class_uid, one.sop_instance_uid, [one.frame] if number and one.frame else None
        )
        for one in files
    ]
    group = sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(
            uid=scan.uid(f"group {number}"), identifier=f"slice {number}" if number else "scan"
        ),
        finding_type=sr.CodedConcept(*scan.purpose.finding),
        algorithm_id=sr.AlgorithmIdentification(
            "psimil", VERSION, parameters=[RESEARCH] if number else [*_parameters(scan), RESEARCH]
        ),
        measurements=_measurements(row),
        qualitative_evaluations=[
            sr.QualitativeEvaluation(sr.CodedConcept(*name), sr.CodedConcept(*value))
            for name, value in _evaluations(row).items()
        ],
        source_images=images or None,
    )
    if not number:
        words = f"{RESEARCH} {scan.words} {_threshold_words(scan)}".strip()
        comment = sr.TextContentItem(codes.DCM.Comment, words, sr.RelationshipTypeValues.CONTAINS)
        group[0].ContentSequence.append(comment)
    return group


def _measurements(row: dict[str, Any]) -> list[Measurement]:
    """The numbers that are known; the interval twice, as the standard's uncertainty and, exactly, by its ends."""
    from highdicom import sr
    from pydicom.sr.codedict import codes

    around = (row["high"] - row["prob"], row["prob"] - row["low"])
    numbers = [(PROBABILITY if code == DEVIATION else code, row[name], code) for name, code in NUMBERS.items()]
    numbers += [(code, max(value, 0.0), code) for code, value in zip((ABOVE, BELOW), around, strict=True)]
    return [
        sr.Measurement(
            sr.CodedConcept(*name),
            value,
            codes.UCUM.NoUnits,
            derivation=sr.CodedConcept(*code) if code == DEVIATION else None,
        )
        for name, value, code in numbers
        if not np.isnan(value)
    ]


def _evaluations(row: dict[str, Any]) -> dict[Code, Code]:
    """What is said by codes: the call, or why there is none, and the referral."""
    if row["obstacle"]:
        codes = {SUMMARY: FAILED, OBSTACLE: OBSTACLES[row["obstacle"]]}
    else:
        codes = {CALL: PRESENT if row["called"] else ABSENT}
        if not row["number"]:
            codes[SUMMARY] = FOUND if row["called"] else NOTHING
    if row["reason"] is not None:
        codes[REFERRAL] = REASONS[row["reason"]]
    return codes


def _parameters(scan: ReportedScan) -> list[str]:
    """The model and its thresholds, as far as they are known."""
    model = [f"Model: {scan.model}"] if scan.model else []
    if scan.thresholds is None:
        return model
    names = ("Threshold of scans", "Threshold of slices", "Limit of novelty")
    values = (*scan.thresholds, NOVEL)
    return model + [f"{name}: {float(value)!r}" for name, value in zip(names, values, strict=True)]


def _threshold_words(scan: ReportedScan) -> str:
    from psimil.report.calls import Words, threshold_words

    return "" if scan.thresholds is None else threshold_words(*scan.thresholds, Words.of("ct"))
