import logging
import math

import numpy as np
import pytest

from ct_files import write_slice
from psimil.ct.report.filing import read_identity
from psimil.ct.report.report_content import DEVIATION, OBSTACLES, REASONS, REFERRAL, RESEARCH
from psimil.ct.report.structured_report import read_report, write_report
from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.ct.scans.scan import Source
from psimil.foundations.errors import InputError, MissingFile
from psimil.version import VERSION
from reported import CT, PATIENT, WHEN, scan

pydicom = pytest.importorskip("pydicom")
highdicom = pytest.importorskip("highdicom")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "CANARY.dcm"
    write_report(path, scan(), when=WHEN)
    return path


def test_numbers_are_read_back_to_the_last_digit(written):
    table, expected = read_report(written), scan()
    assert table["level"].tolist() == ["scan", *["slice"] * 5] and table["number"].tolist() == list(range(6))
    first = table.iloc[0]
    assert (first["prob"], first["std"], first["low"], first["high"]) == (1 / 3, 0.1 + 0.2, math.ulp(0.0), 1 - 2**-53)
    assert table["prob"][1:].tolist() == expected.slice_prob.tolist()
    assert table["std"][1:].tolist() == expected.slice_std.tolist()
    assert table["called"].tolist() == [True, *expected.slice_called.tolist()]
    assert table["low"][1:].isna().all() and table["high"][1:].isna().all()
    assert table["sop_instance_uid"].tolist() == ["", *(f"2.25.7.{n}" for n in range(5))]


def test_it_is_a_measurement_report_that_is_not_verified(written):
    report = highdicom.sr.srread(written)
    assert isinstance(report, highdicom.sr.Comprehensive3DSR)
    assert report.VerificationFlag == "UNVERIFIED" and report.PreliminaryFlag == "PRELIMINARY"
    assert report.ContentQualification == "RESEARCH" and "research use only" in report.SeriesDescription
    assert (report.Manufacturer, report.SoftwareVersions, report.Modality) == ("psimil", VERSION, "SR")
    assert (str(report.ContentDate), str(report.ContentTime)) == ("20260304", "050607")
    assert report.ContentTemplateSequence[0].TemplateIdentifier == "1500"
    assert report.CodingSchemeIdentificationSequence[0].CodingSchemeDesignator == "99PSIMIL"
    groups = report.content.get_image_measurement_groups()
    assert len(groups) == 6
    for number, group in enumerate(groups):
        assert group.tracking_identifier == (f"slice {number}" if number else "scan")
        assert group.finding_type.value == "1386000" and group.finding_type.scheme_designator == "SCT"
        assert [m.unit.value for m in group.get_measurements()] == ["1"] * (2 if number else 6)
        call, *summary = group.get_qualitative_evaluations()
        assert [item.value.value for item in summary] == ([] if number else ["111242"])
        assert call.value.meaning in ("Present", "Absent")
        names = {item.name.meaning: item.value for item in group[0].ContentSequence if item.value_type.value == "TEXT"}
        assert (names["Algorithm Name"], names["Algorithm Version"]) == ("psimil", VERSION)
        assert names["Algorithm Parameters"] == RESEARCH and ("Comment" in names) == (number == 0)
        assert [s.referenced_sop_instance_uid for s in group.source_images] == (
            [f"2.25.7.{number - 1}"] if number else []
        )


def test_it_says_the_thresholds_behind_its_calls(tmp_path):
    write_report(tmp_path / "a.dcm", scan(thresholds=(0.5, 0.12)), when=WHEN)
    first, *slices = highdicom.sr.srread(tmp_path / "a.dcm").content.get_image_measurement_groups()
    (comment,) = [item.value for item in first[0].ContentSequence if item.name.meaning == "Comment"]
    assert comment.startswith(RESEARCH) and "from probability 0.500 on, slices from 0.120 on" in comment
    assert not any(item.name.meaning == "Comment" for group in slices for item in group[0].ContentSequence)


@pytest.mark.parametrize("reason", REASONS)
def test_novelty_and_the_reason_of_a_referral_are_read_back(reason, tmp_path):
    novelty = np.array([0.1, 0.2, 1 / 3, 0.4, 0.9])
    told = scan(novelty=0.9, slice_novelty=novelty, reason=reason, words="Why it is so.")
    write_report(tmp_path / "a.dcm", told, when=WHEN)
    table = read_report(tmp_path / "a.dcm")
    assert table["novelty"].tolist() == [0.9, *novelty]
    assert table["reason"][0] == reason and table["reason"][1:].isna().all()
    first, *slices = highdicom.sr.srread(tmp_path / "a.dcm").content.get_image_measurement_groups()
    _, _, referral = first.get_qualitative_evaluations()
    assert referral.name == highdicom.sr.CodedConcept(*REFERRAL) and referral.value.scheme_designator == "99PSIMIL"
    assert referral.value.meaning == (f"Refer: {reason}" if reason else "Not referred")
    (comment,) = [item.value for item in first[0].ContentSequence if item.name.meaning == "Comment"]
    assert comment == f"{RESEARCH} Why it is so."
    assert [m.name.value for m in slices[0].get_measurements()] == ["122157", "122157", "NOVELTY"]
    assert [m.derivation for m in slices[0].get_measurements()][1] == highdicom.sr.CodedConcept(*DEVIATION)


def test_without_novelty_a_report_says_nothing_of_it(written):
    table = read_report(written)
    assert table["novelty"].isna().all() and table["reason"].isna().all()


@pytest.mark.parametrize(
    "wrong", [{"novelty": np.nan}, {"slice_novelty": [np.nan] * 5}, {"slice_novelty": [0.5]}, {"reason": "because"}]
)
def test_novelty_that_is_none_and_reasons_that_are_none_are_refused(wrong):
    with pytest.raises(InputError, match=r"finite|as many|one of"):
        scan(**wrong).rows()


def test_every_source_is_listed_as_evidence(written):
    (study,) = pydicom.dcmread(written).CurrentRequestedProcedureEvidenceSequence
    (series,) = study.ReferencedSeriesSequence
    assert (study.StudyInstanceUID, series.SeriesInstanceUID) == ("2.25.1", "2.25.2")
    found = [(item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID) for item in series.ReferencedSOPSequence]
    assert sorted(found) == [(CT, f"2.25.7.{n}") for n in range(5)]


def test_nothing_tells_who_the_patient_is(written):
    dataset = pydicom.dcmread(written)
    assert all(not dataset.get(keyword) for keyword in PATIENT)
    content = written.read_bytes()
    assert b"CANARY" not in content and str(written.parent).encode() not in content
    texts = {
        str(e.value) for e in dataset.iterall() if e.VR in ("LO", "PN", "UT", "ST", "LT", "DA", "TM", "DT") and e.value
    }
    allowed = {
        "psimil",
        VERSION,
        f"psimil {VERSION}",
        RESEARCH,
        "psimil report, research use only",
        "20260304",
        "050607",
        "scan",
    }
    allowed |= {f"slice {n}" for n in range(1, 6)} | {"Codes of psimil", "20260304050607"}
    # what highdicom says of itself
    allowed |= {highdicom.__version__, "highdicom", "Highdicom open-source contributors"}
    allowed |= {"Software library used to create this instance"}
    coded = {str(e.value) for e in dataset.iterall() if e.keyword == "CodeMeaning"}
    assert texts - coded <= allowed


def test_frames_of_one_file(tmp_path):
    write_report(tmp_path / "r.dcm", scan(3, multiframe=True), when=WHEN)
    table = read_report(tmp_path / "r.dcm")
    assert table["frame"].tolist() == [0, 1, 2, 3] and set(table["sop_instance_uid"][1:]) == {"2.25.77"}
    (study,) = pydicom.dcmread(tmp_path / "r.dcm").CurrentRequestedProcedureEvidenceSequence
    assert len(study.ReferencedSeriesSequence[0].ReferencedSOPSequence) == 1


def test_same_arguments_same_bytes_other_arguments_other_uids(tmp_path, written):
    write_report(tmp_path / "again.dcm", scan(), when=WHEN)
    assert (tmp_path / "again.dcm").read_bytes() == written.read_bytes()
    write_report(tmp_path / "other.dcm", scan(prob=0.25), when=WHEN)
    one, other = (pydicom.dcmread(path) for path in (written, tmp_path / "other.dcm"))
    assert one.SOPInstanceUID != other.SOPInstanceUID and one.SOPInstanceUID.startswith("2.25.")
    assert len({one.SOPInstanceUID, one.SeriesInstanceUID, "2.25.1", "2.25.2"}) == 4


def test_logs_and_words_hold_no_identifier(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("highdicom").setLevel(logging.NOTSET)
    write_report(tmp_path / "r.dcm", scan(1), when=WHEN)
    assert "2.25.7.0" not in caplog.text and logging.getLogger("highdicom").level == logging.NOTSET
    assert "2.25" not in repr(scan())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sources": ()}, "this scan has none"),
        ({"slice_prob": [0.5]}, "a report of 5 slices needs as many probabilities"),
        ({"slice_std": [0.1, 0.1, 0.1, 0.1, math.nan]}, "finite numbers"),
        ({"prob": math.inf}, "finite numbers"),
        ({"interval": (math.nan, 1.0)}, "finite numbers"),
        ({"study_uid": "CANARY"}, "UID of the study or series is not valid"),
        ({"series_uid": "1." + "2" * 64}, "UID of the study or series is not valid"),
        ({"sources": (*scan(4).sources, Source(CT, "ID_CANARY", None))}, "slice 5: its UID is not valid"),
        ({"sources": (*scan(4).sources, Source("1.2.3", "1.2", None))}, "slice 5: it is not a CT image"),
    ],
)
def test_what_cannot_be_reported_is_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words) as caught:
        write_report(tmp_path / "r.dcm", scan(**changes), when=WHEN)
    assert "CANARY" not in str(caught.value) and not list(tmp_path.iterdir())


def test_burned_in_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="BurnedInAnnotation"):
        write_report(tmp_path / "r.dcm", scan(), when=WHEN, burned_in=True)
    assert not list(tmp_path.iterdir())


def test_foreign_files_are_no_reports(tmp_path, written):
    with pytest.raises(MissingFile, match="the report was not found"):
        read_report(tmp_path / "CANARY.dcm")
    for content in (b"", b"CANARY" * 100, written.read_bytes()[:600]):
        (tmp_path / "CANARY.dcm").write_bytes(content)
        with pytest.raises(InputError, match="not a report of psimil") as caught:
            read_report(tmp_path / "CANARY.dcm")
        assert "CANARY" not in str(caught.value)


# UIDs, obstacles, identity


def test_uids_follow_from_model_and_slices_and_not_from_the_time(tmp_path):
    def uids(path, **changes):
        when = changes.pop("when", WHEN)
        write_report(path, scan(**{"model": "sha256:a", **changes}), when=when)
        dataset = pydicom.dcmread(path)
        return dataset.SOPInstanceUID, dataset.SeriesInstanceUID

    first = uids(tmp_path / "a.dcm")
    assert uids(tmp_path / "b.dcm", when=WHEN.replace(year=2027)) == first
    assert uids(tmp_path / "b.dcm", prob=math.nextafter(1 / 3, 1)) == first  # another processor
    for other in (
        {"model": "sha256:b"},
        {"series_uid": "2.25.3"},
        {"sources": (*scan().sources[:4], Source(CT, "2.25.8", None))},
        {"purpose": UNNAMED},
        {"identity": {"PatientID": "7"}},
    ):
        assert not set(uids(tmp_path / "b.dcm", **other)) & set(first)


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_scan_that_could_not_be_analysed_has_a_report_without_calls(obstacle, tmp_path):
    told = scan(obstacle=obstacle, words="Could not be analysed.", novelty=0.9, thresholds=(0.5, 0.1))
    write_report(tmp_path / "r.dcm", told, when=WHEN)
    table = read_report(tmp_path / "r.dcm")
    assert table[["level", "obstacle", "novelty"]].values.tolist() == [["scan", obstacle, 0.9]]
    assert table["prob"].isna().all() and not table["called"].any()
    (group,) = highdicom.sr.srread(tmp_path / "r.dcm").content.get_image_measurement_groups()
    assert [item.value.value for item in group.get_qualitative_evaluations()] == ["111245", OBSTACLES[obstacle].value]
    assert [s.referenced_sop_instance_uid for s in group.source_images] == [f"2.25.7.{n}" for n in range(5)]
    (comment,) = [item.value for item in group[0].ContentSequence if item.name.meaning == "Comment"]
    assert "Could not be analysed." in comment
    with pytest.raises(InputError, match="obstacle must be one of"):
        scan(obstacle="rain").rows()


def test_model_and_thresholds_are_inside(tmp_path):
    write_report(tmp_path / "r.dcm", scan(model="sha256:ab12", thresholds=(0.5, 0.125)), when=WHEN)
    first, *_ = highdicom.sr.srread(tmp_path / "r.dcm").content.get_image_measurement_groups()
    said = [item.value for item in first[0].ContentSequence if item.name.meaning == "Algorithm Parameters"]
    limits = ["Threshold of scans: 0.5", "Threshold of slices: 0.125", "Limit of novelty: 0.5"]
    assert said == ["Model: sha256:ab12", *limits, RESEARCH]
    above, below = (item.value for item in first.get_measurements()[-2:])
    assert (above, below) == pytest.approx((1 - 2**-53 - 1 / 3, 1 / 3))


def test_finding_and_procedure_are_those_of_the_purpose(tmp_path):
    write_report(tmp_path / "r.dcm", scan(purpose=Purpose.read("Free air; LN:30599-5:CT Chest")), when=WHEN)
    report = highdicom.sr.srread(tmp_path / "r.dcm")
    assert {group.finding_type.meaning for group in report.content.get_image_measurement_groups()} == {"Free air"}
    assert report.PerformedProcedureCodeSequence[0].CodeValue == "30599-5"
    assert "hemorrhage" not in str(report).lower()


def test_a_finding_may_have_any_letters(tmp_path):
    """Without a character set é was no letter to validators, and 出血 was lost."""
    write_report(tmp_path / "r.dcm", scan(purpose=Purpose.read("Hématome 出血")), when=WHEN)
    report = highdicom.sr.srread(tmp_path / "r.dcm")
    assert {group.finding_type.meaning for group in report.content.get_image_measurement_groups()} == {"Hématome 出血"}
    assert report.SpecificCharacterSet == "ISO_IR 192"


def test_slices_of_several_patients_have_no_identity(tmp_path):
    for name in ("one", "two"):
        write_slice(tmp_path / f"{name}.dcm", PatientID=name, PatientName="CANARY")
    with pytest.raises(InputError, match="name several patients") as caught:
        read_identity([tmp_path / "one.dcm", tmp_path / "two.dcm"])
    assert "CANARY" not in str(caught.value)


def test_patient_and_study_are_copied_when_asked(tmp_path):
    given = {"PatientName": "Müller^Ärger", "PatientID": "7", "StudyDate": "20250102", "PatientSex": "F"}
    write_slice(tmp_path / "source.dcm", SpecificCharacterSet="ISO_IR 100", StudyDescription="CT", **given)
    identity = read_identity([tmp_path / "source.dcm"])
    assert identity == given | {"StudyDescription": "CT"}
    write_report(tmp_path / "r.dcm", scan(identity=identity), when=WHEN)
    dataset = pydicom.dcmread(tmp_path / "r.dcm")
    assert {keyword: str(dataset.get(keyword)) for keyword in identity} == identity
    (tmp_path / "CANARY").write_bytes(b"CANARY")
    with pytest.raises(InputError, match="cannot be read") as caught:
        read_identity([tmp_path / "CANARY"])
    assert "CANARY" not in str(caught.value) and "Müller" not in repr(scan(identity=identity))
