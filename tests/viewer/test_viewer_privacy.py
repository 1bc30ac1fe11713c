"""Nothing that a DICOM header says about a patient reaches a page, a log, a file or standard output."""

import logging

import pydicom
import pytest
from pydicom.datadict import keyword_for_tag
from pydicom.dataset import Dataset

from psimil.ct.scans.cohort import ReadingRules
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.state import ViewerState
from psimil.viewer.volumes import volumes_of
from viewed import HASHER, Browser, ct_results

CANARY = "CANARY"
# Text elements of the confidentiality profile, PS3.15 table E.1-1.
TAGS = """
    AccessionNumber AcquisitionComments AcquisitionDeviceProcessingDescription AcquisitionProtocolDescription
    AdditionalPatientHistory AdmittingDiagnosesDescription Allergies BranchOfService CommentsOnThePerformedProcedureStep
    ConfidentialityConstraintOnPatientDataDescription ContrastBolusAgent CountryOfResidence CurrentPatientLocation
    DerivationDescription DeviceSerialNumber DischargeDiagnosisDescription EthnicGroup FrameComments GantryID
    IdentifyingComments ImageComments ImagingServiceRequestComments InstitutionAddress InstitutionName
    InstitutionalDepartmentName InterpretationText IssuerOfPatientID MedicalAlerts MedicalRecordLocator
    MilitaryRank NameOfPhysiciansReadingStudy Occupation OperatorsName OtherPatientNames PatientAddress PatientComments
    PatientID PatientInstitutionResidence PatientMotherBirthName PatientName PatientReligiousPreference
    PatientTelephoneNumbers PerformedProcedureStepDescription PerformedProcedureStepID PerformedStationName
    PerformingPhysicianName PersonAddress PersonName PhysiciansOfRecord ProtocolName ReasonForStudy
    ReferringPhysicianName RegionOfResidence RequestedProcedureComments RequestedProcedureDescription
    RequestedProcedureID RequestingPhysician RequestingService ResponsibleOrganization ResponsiblePerson
    ScheduledProcedureStepDescription SeriesDescription ServiceEpisodeDescription SpecialNeeds StationName
    StudyComments StudyDescription StudyID
""".split()


def mark(path):
    """Put the canary in every tag, a private one, a nested one and the file name."""
    dataset = pydicom.dcmread(path)
    for keyword in TAGS:
        setattr(dataset, keyword, CANARY)
    dataset.private_block(0x0011, CANARY, create=True).add_new(0x01, "LO", CANARY)
    nested = Dataset()
    nested.PatientName, nested.PatientID = f"{CANARY}^BIRD", CANARY
    dataset.OtherPatientIDsSequence = [nested]
    dataset.save_as(path.with_name(f"{CANARY}-{path.name}"), enforce_file_format=True)
    path.unlink()


@pytest.fixture
def client(tmp_path):
    results, studies = ct_results(tmp_path / "phantoms")
    for path in studies.rglob("*.dcm"):
        mark(path)
    (tmp_path / "results").mkdir()
    volumes = volumes_of(studies, results.series, ReadingRules(), HASHER)
    return Browser(ViewerState(results, FeedbackStore(tmp_path / "results"), volumes))


def test_the_canary_stays_in_its_files(client, tmp_path, caplog, capfd):
    assert len(TAGS) >= 60 and all(pydicom.datadict.tag_for_keyword(k) for k in TAGS)
    key = client.viewed.keys[0]
    with caplog.at_level(logging.DEBUG):
        asked = [client.get(path) for path in (
            "/", "/worklist", f"/bag/{key}", "/api/set", "/api/bags", f"/api/bags/{key}", f"/api/bags/{key}/slices/3",
            f"/api/bags/{key}/sprite", "/api/openapi.json", f"/api/bags/{key}/slices/9999", "/api/bags/x",
        )]  # fmt: skip
        asked.append(client.post("/api/feedback", json={"bag": key, "verdict": "agree"}))
    assert [answer.status_code for answer in asked] == [200] * 9 + [404, 422, 200]
    for answer in asked:
        assert CANARY.encode() not in answer.content and CANARY not in str(answer.headers)
        for uid in ("1.2.840", "2.25."):
            assert uid.encode() not in answer.content
    printed = capfd.readouterr()
    assert CANARY not in caplog.text + printed.out + printed.err
    for path in (tmp_path / "results").iterdir():
        assert CANARY.encode() not in path.read_bytes() and CANARY not in path.name
    assert any(CANARY in path.name for path in tmp_path.rglob("*.dcm"))


def test_a_scan_that_breaks_tells_nothing_of_its_file(client, tmp_path, caplog):
    for path in tmp_path.rglob("*.dcm"):
        path.write_bytes(path.read_bytes()[:-600])
    with caplog.at_level(logging.DEBUG):
        answer = client.get(f"/api/bags/{client.viewed.keys[0]}/slices/0")
    assert answer.status_code == 404 and answer.json() == {"error": "this bag has no slices in Hounsfield units."}
    assert CANARY not in caplog.text and str(tmp_path) not in caplog.text


def test_tags_are_known_to_dicom():
    assert all(keyword_for_tag(pydicom.datadict.tag_for_keyword(keyword)) == keyword for keyword in TAGS)
